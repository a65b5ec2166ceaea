"""The TensorFlow image of the examples is built here, loaded into the node, and works."""

from live import jobs
from live.place import Place
from operated.place import completion_of

SCRIPT = """
python3 -c '
import tensorflow as tf
print("tensorflow", tf.__version__, int(tf.reduce_sum(tf.ones((3, 4)))))
'
"""


def test_tasks_have_tensorflow(place: Place, tensorflow: str) -> None:
    role = jobs.role(script=SCRIPT, pod_spec={"container": {"image": tensorflow}})
    place.submit(jobs.framework("job", role, completedPods="Keep"))
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    said = next(line for line in place.log("job-worker-0").splitlines() if line.startswith("tensorflow"))
    assert said.split()[1].startswith("2.")
    assert said.split()[2] == "12"
