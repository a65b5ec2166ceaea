"""The image with TensorFlow that the examples use: made here, loaded into the node, and able to compute."""

import os

import pytest
from live import jobs
from live.clusters import Cluster
from live.place import Place
from operated.place import completion_of

from images import building, catalogue

SCRIPT = """
python3 -c '
import tensorflow as tf
print("tensorflow", tf.__version__, int(tf.reduce_sum(tf.ones((3, 4)))))
'
"""


@pytest.fixture
def image(cluster: Cluster) -> str:
    named = os.environ.get("WINDLASS_TEST_TENSORFLOW_IMAGE", "")
    if not named:
        cluster.breakable().load(building.ensure(catalogue.WITH_TENSORFLOW.name))
    return named or catalogue.WITH_TENSORFLOW.name


def test_tasks_have_tensorflow(place: Place, image: str) -> None:
    role = jobs.role(script=SCRIPT, pod_spec={"container": {"image": image}})
    place.submit(jobs.framework("job", role, completedPods="Keep"))
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    said = next(line for line in place.log("job-worker-0").splitlines() if line.startswith("tensorflow"))
    assert said.split()[1].startswith("2.")
    assert said.split()[2] == "12"
