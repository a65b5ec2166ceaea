"""An idle TensorFlow server, for a notebook or a client to use: the default command of a TensorFlow task.

The program requires only Python and TensorFlow, so that it runs in any image that has them.
"""

PROGRAM = """\
import json, os, signal, sys

def peers():
    given = os.environ.get
    if given("TF_CONFIG"):
        config = json.loads(given("TF_CONFIG"))
        task = config.get("task") or {}
        return config.get("cluster"), task.get("type"), task.get("index")
    cluster = json.loads(given("CLUSTER_CONFIG") or "{}") or {
        name[:-6].lower(): value.split(",") for name, value in os.environ.items()
        # Not every such variable is ours, e.g. ALLOWED_HOSTS of Django. Ours have ports.
        if name.endswith("_HOSTS") and all(each.rpartition(":")[2].isdigit() for each in value.split(","))
    }
    return cluster, given("JOB_NAME"), given("TASK_INDEX", "0")

def no_server(why):
    sys.exit(f"windlass tf-server: {why}. Set TF_CONFIG, or CLUSTER_CONFIG or PS_HOSTS and WORKER_HOSTS with "
             "JOB_NAME and TASK_INDEX.")

try:
    cluster, job, index = peers()
    index = int(index)
    is_member = bool(cluster) and index in range(len(cluster.get(job, ())))
except (ValueError, TypeError, AttributeError) as error:
    no_server(f"the environment cannot be read: {error}")
if not cluster:
    no_server("the servers of the cluster are not known")
if not is_member:
    no_server(f"this is {job}:{index}, which is not in the cluster: {json.dumps(cluster)}")
# Block the signals before TensorFlow starts threads. The first process of a container ignores them by default.
ends = {signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, ends)
try:
    import tensorflow as tf
except ImportError as error:
    sys.exit(f"windlass tf-server: TensorFlow is not installed ({error}): pip install tensorflow")
server = tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index)
print(f"TensorFlow {tf.__version__}: server {job}:{index} of {json.dumps(cluster)}", flush=True)
signal.sigwait(ends)
os._exit(0)
"""

COMMAND = ("python3", "-c", PROGRAM)
