"""The names by which Windlass and its users find objects. They are an interface: none of them may change."""

LAUNCHER_GROUP = "launcher.microsoft.com"
CONTROLLER_GROUP = "frameworkcontroller.microsoft.com"
GROUPS = (LAUNCHER_GROUP, CONTROLLER_GROUP)
VERSION = "v1"
KIND = "Framework"
PLURAL = "frameworks"
DEFAULT_NAMESPACE = "default"
"""Where objects go of which nobody says where. Kubernetes calls it so."""

DNS_LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ROLE_NAME_PATTERN = "^[a-z0-9]{1,63}$"
"""No hyphen, so that `{framework}-{role}-{index}` stays unambiguous and `FB_{ROLE}_IPS` a shell name."""

HOSTNAME_LIMIT = 63
"""A longer pod name is cut where it becomes the hostname."""
POD_NAME_LIMIT = 253

FOREGROUND_FINALIZER = "foregroundDeletion"
ATTEMPT_LABEL = "windlass.dev/attempt"
"""Its value is the ConfigMap's UID: the pods of one attempt are found, and removed, by it in one request."""

JOB_LABEL = "windlass.dev/job"
"""On all that was made for a job beside its Framework, and on all of one that has none: its name."""
ROLE_LABEL = "windlass.dev/role"
"""On the pods of a job that has no Framework, beside the other one."""

COMPANION_LABEL = "windlass.dev/companion"
"""On all that belongs to a companion of a job, beside that of the job: which one it is."""
PASSWORD_ANNOTATION = "windlass.dev/password"  # noqa: S105
"""On the pods of a companion: they are replaced when its password is."""
CONFIGURATION_ANNOTATION = "windlass.dev/configuration"
"""On the pods of a server that reads its configuration once: they are replaced when that changes."""

RUNTIME_ANNOTATION = "windlass.dev/runtime"
"""On a Framework: for which runtime its tasks are told who their peers are."""
BARRIER_ANNOTATION = "windlass.dev/barrier"
"""On a Framework: its tasks start when all of them have an address."""
PORTS_ANNOTATION = "windlass.dev/ports"
"""On an attempt's ConfigMap: the ports of its tasks, where pods share one network."""

DEFAULT_PORT = 2222
"""Where a task is that declares no port: what the first examples of distributed TensorFlow used."""

GANG_GROUP = "windlass.dev"
GANG_KIND = "Gang"
GANG_PLURAL = "gangs"
GANG_VARIABLE = "WINDLASS_GANG"
"""In a pod: the name of the Gang that lists it."""

BARRIER_FOLDER = "/mnt/frameworkbarrier"
"""Where containers find what the barrier has found out. The reference's users know this path."""
CLUSTER_ENV = "cluster.env"

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
    """Of a task's pod, within the Service of its Framework."""
    return f"{role}-{index}"


def service_name(framework: str) -> str:
    return framework


def gang_name(framework: str, config_map_uid: str) -> str:
    """No other attempt's, of this Framework or of one that had its name before."""
    return f"{framework}-{config_map_uid}"


def instance_uid(attempt_id: int, object_uid: str) -> str:
    """Names one instance of one attempt: ordered by the attempt, unique by the object."""
    return f"{attempt_id}_{object_uid}"


def api_version(group: str) -> str:
    return f"{group}/{VERSION}"


def group_of(api_version: str) -> str:
    return api_version.partition("/")[0]
