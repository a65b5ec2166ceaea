"""Names of objects, labels, annotations and variables. They are a public interface: none of them may change."""

LAUNCHER_GROUP = "launcher.microsoft.com"
CONTROLLER_GROUP = "frameworkcontroller.microsoft.com"
GROUPS = (LAUNCHER_GROUP, CONTROLLER_GROUP)
VERSION = "v1"
KIND = "Framework"
PLURAL = "frameworks"
DEFAULT_NAMESPACE = "default"
"""The namespace that Kubernetes uses for objects without a namespace."""

DNS_LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ROLE_NAME_PATTERN = "^[a-z0-9]{1,63}$"
"""Without hyphens, so that `{framework}-{role}-{index}` is unambiguous and `FB_{ROLE}_IPS` a valid shell name."""
TASK_PATTERN = "^[a-z0-9]{1,63}-(0|[1-9][0-9]{0,4})$"
"""A task as {role}-{index}."""

HOSTNAME_LIMIT = 63
"""Longer pod names are truncated in the hostname."""
POD_NAME_LIMIT = 253

FOREGROUND_FINALIZER = "foregroundDeletion"
ATTEMPT_LABEL = "windlass.dev/attempt"
"""On the pods of a Framework attempt: the UID of its ConfigMap, so that one request can delete all of them."""

JOB_LABEL = "windlass.dev/job"
"""On the objects that are rendered from a job file, except the Framework: the name of the job."""
ROLE_LABEL = "windlass.dev/role"
"""On the pods of a job without a Framework: the name of the role."""

COMPANION_LABEL = "windlass.dev/companion"
"""On the objects of a companion: its name."""
PASSWORD_ANNOTATION = "windlass.dev/password"  # noqa: S105
"""On the pods of a companion: a digest of its password hashes, so that a new password causes new pods."""
CONFIGURATION_ANNOTATION = "windlass.dev/configuration"
"""On the pods of a server that reads its configuration once: a digest of it, so that a change causes new pods."""

RUNTIME_ANNOTATION = "windlass.dev/runtime"
"""On a Framework: a value of `Runtime`, e.g. `tensorflow`. It determines which variables describe a task's peers."""
BARRIER_ANNOTATION = "windlass.dev/barrier"
"""On a Framework: whether its tasks start only when all of them have addresses, a value of `Barrier`."""
TASK_TYPES_ANNOTATION = "windlass.dev/task-types"
"""On a Framework with the runtime tensorflow: the names of its roles in the cluster spec, a value of `TaskTypes`."""
ELASTIC_ANNOTATION = "windlass.dev/elastic"
"""On a Framework with the runtime pytorch: the range of the number of tasks of a role, e.g. `worker=1:4`."""
SLOTS_ANNOTATION = "windlass.dev/slots"
"""On the pod template of a role: the number of processes that mpirun starts in each of its tasks."""
IDLE_ANNOTATION = "windlass.dev/idle"
"""On a Framework with the runtime `tensorflow`: the roles, separated by commas, whose tasks without a command run an
idle server. `true`: all roles of the cluster, `false`: none."""
SSH_KEY_ANNOTATION = "windlass.dev/ssh-key"
"""On a job: `true` if every submission generates an SSH key, as with the runtime mpi."""
SSH_KEY_FILE = "id_ed25519"
"""Key of the Secret with the private SSH key."""
SSH_AUTHORIZED_KEYS_FILE = "authorized_keys"
CONVERTED_ANNOTATION = "windlass.dev/converted-from"
"""On a Framework: kind and name of the job of another system that it was converted from, e.g. `TFJob/digits`."""
PORTS_ANNOTATION = "windlass.dev/ports"
"""On the ConfigMap of an attempt: the port of the first task of each role if pods share one network."""

DEFAULT_PORT = 2222
"""Port of a task that declares none. The first examples of distributed TensorFlow used this port."""

GANG_GROUP = "windlass.dev"
GANG_KIND = "Gang"
GANG_PLURAL = "gangs"
RECORD_KIND = "AttemptRecord"
RECORD_PLURAL = "attemptrecords"
RECORD_BYTES_ANNOTATION = "windlass.dev/record-bytes"
"""On an AttemptRecord: its size, so that the retention limit of a namespace can be applied to a list of metadata."""
READ_LOGS_ANNOTATION = "windlass.dev/read-logs"
"""On a Namespace: `true` if the controller may copy the ends of the logs of failed containers into records."""
GANG_VARIABLE = "WINDLASS_GANG"
"""In a pod: the name of its Gang."""

BARRIER_FOLDER = "/mnt/frameworkbarrier"
"""Folder of the files that the barrier writes. FrameworkController uses the same path."""
CLUSTER_ENV_FILE = "cluster.env"
"""File in BARRIER_FOLDER that sets the variables of the barrier."""

FRAMEWORK_NAMESPACE = "FC_FRAMEWORK_NAMESPACE"
FRAMEWORK_NAME = "FC_FRAMEWORK_NAME"
TASKROLE_NAME = "FC_TASKROLE_NAME"
TASK_INDEX = "FC_TASK_INDEX"
CONFIGMAP_NAME = "FC_CONFIGMAP_NAME"
POD_NAME = "FC_POD_NAME"
FRAMEWORK_UID = "FC_FRAMEWORK_UID"
FRAMEWORK_ATTEMPT_ID = "FC_FRAMEWORK_ATTEMPT_ID"
FRAMEWORK_ATTEMPT_INSTANCE_UID = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"
CONFIGMAP_UID = "FC_CONFIGMAP_UID"
TASKROLE_UID = "FC_TASKROLE_UID"
TASK_UID = "FC_TASK_UID"
TASK_ATTEMPT_ID = "FC_TASK_ATTEMPT_ID"
POD_UID = "FC_POD_UID"
TASK_ATTEMPT_INSTANCE_UID = "FC_TASK_ATTEMPT_INSTANCE_UID"


def config_map_name(framework: str) -> str:
    return f"{framework}-attempt"


def pod_name(framework: str, role: str, index: int) -> str:
    return f"{framework}-{role}-{index}"


def host_name(role: str, index: int) -> str:
    """Return the hostname of a task's pod, within the Service of its Framework."""
    return f"{role}-{index}"


def service_name(framework: str) -> str:
    return framework


def ssh_secret_name(job: str) -> str:
    """Return the name of the Secret with the SSH key of a job."""
    return f"{job}-ssh"


def gang_name(framework: str, config_map_uid: str) -> str:
    """Return a name that is unique among all attempts, including those of earlier Frameworks with the same name."""
    return f"{framework}-{config_map_uid}"


def instance_uid(attempt_id: int, object_uid: str) -> str:
    """Return the instance UID of an attempt. `object_uid` is the UID of its ConfigMap or pod."""
    return f"{attempt_id}_{object_uid}"


def api_version(group: str) -> str:
    return f"{group}/{VERSION}"


def group_of(api_version: str) -> str:
    return api_version.partition("/")[0]
