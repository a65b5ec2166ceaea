"""The job file: a simpler way to describe a job than a Framework. `render` converts it to a Framework or plain objects.

User-friendly defaults are here and in `render`; a Framework has the defaults of the reference controller,
FrameworkController.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.companions import Companion, CompanionSpec, Hub, Jupyter, TensorBoard
from windlass.model.feature_annotations import Runtime, TaskRange
from windlass.model.framework import MAX_TASK_NUMBER, CompletionPolicySpec, Count, StartCondition
from windlass.model.resources import Port, Quantity, Resources

VARIABLE_PATTERN = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"

MAX_SLOTS = 10_000

DnsLabel = Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]
RoleName = Annotated[str, msgspec.Meta(pattern=names.ROLE_NAME_PATTERN)]
Variable = Annotated[str, msgspec.Meta(pattern=VARIABLE_PATTERN)]
Command = Annotated[
    str | tuple[str, ...], msgspec.Meta(description="a command: a string, or a list of words")
]
"""A string, which is run by a shell if it has shell syntax, or a list of words."""
Duration = Annotated[
    int | str, msgspec.Meta(description="a duration: seconds, or e.g. 90s, 15m, 1h30m or 7d")
]
INHERIT = "inherit"
"""Key of `env` with a list of variables of the user's shell, instead of a value."""

Value = Annotated[
    str | int | float | bool | Json | tuple[Variable, ...],
    msgspec.Meta(
        description="a value, or its source as in Kubernetes' valueFrom, e.g. "
        "{secretKeyRef: {name: keys, key: token}}"
    ),
]


class ProcessesByDevice(StrEnum):
    """Numbers of processes that torchrun determines in the task."""

    AUTO = "auto"
    """One per GPU, without GPUs one per CPU."""
    CPU = "cpu"
    """One per CPU."""
    GPU = "gpu"
    """One per GPU."""


Processes = Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | ProcessesByDevice


class Retry(Sparse, frozen=True, kw_only=True):
    """Numbers of retries."""

    job: Count = 0
    """Number of restarts of all tasks after a failure. Permanent failures, e.g. too little memory, are not retried."""
    task: Count = 0
    """Number of restarts of a single task while the others keep running. 0: its failure is a failure of the job."""
    transient: Count = 10
    """Number of retries after transient failures, e.g. a lost node. They do not count towards `job` and `task`."""


Restarts = Annotated[
    Count | Retry, msgspec.Meta(description="a number of restarts, or a mapping such as {job: 3, task: 0}")
]


class Nfs(Sparse, frozen=True, kw_only=True):
    """An exported folder of an NFS server."""

    server: str
    """Name or address of the server."""
    path: str
    """Exported folder."""


class CephFs(Sparse, frozen=True, kw_only=True):
    """A folder of a Ceph file system, mounted by ceph-csi."""

    cluster_id: str = msgspec.field(name="clusterID")
    """ID of the cluster in the configuration of ceph-csi, which lists the monitors."""
    fs_name: str
    """Name of the file system."""
    path: str = "/"
    """Folder in the file system."""
    secret: str
    """Name of the Secret with userID and userKey."""
    secret_namespace: str = ""
    """Namespace of the Secret. Default: the namespace of the job."""


class NfsServer(Sparse, frozen=True, kw_only=True):
    """An NFS server in the cluster, for this job and later ones: it is kept, with its files, when the job is
    deleted."""

    size: Quantity = "10Gi"
    """Size of its disk."""
    storage_class: str = ""
    """Storage class of its disk. Default: the default storage class."""
    image: str = ""
    """Image with nfs-ganesha. Default: `windlass-nfs`, which you have to build (see Storage)."""


class LoadData(Sparse, frozen=True, kw_only=True):
    """Files to load into a volume before the job starts. Exactly one of url, folder and command is set."""

    to: str
    """Folder in a volume of the job, as its tasks see it, e.g. /data/digits."""
    url: str = ""
    """URL to download. An archive (.tar, .tar.gz, .tgz, .zip) is unpacked."""
    sha256: str = ""
    """Checksum of the download. A file with another checksum is rejected."""
    folder: str = ""
    """Folder on this machine, relative to the job file."""
    command: Command | None = None
    """Command to run in `to`."""
    image: str = ""
    """Image of the container that loads the files. Default: the job's image."""


class Volume(Sparse, frozen=True, kw_only=True):
    """A folder that every task has at the same path. Exactly one of the sources below is set."""

    at: str
    """Path in the task."""
    read_only: bool = False
    """Mount read-only."""
    sub_path: str = ""
    """Mount only this subfolder."""
    host_path: str = ""
    """Folder of the machine that runs the task. It is created if it does not exist."""
    nodes: tuple[str, ...] = ()
    """With hostPath: the machines that have the folder. Tasks run only there."""
    share: str = ""
    """Folder of the job's nfsServer, e.g. /data or /output."""
    nfs: Nfs | None = None
    """Exported folder of an NFS server."""
    pvc: str = ""
    """Name of a PersistentVolumeClaim."""
    cephfs: CephFs | None = None
    """Folder of a Ceph file system."""
    empty_dir: Json | None = None
    """An empty folder per task: {}, or the fields of Kubernetes, e.g. {sizeLimit: 10Gi}."""
    config_map: str = ""
    """Name of a ConfigMap whose entries are the files."""
    secret: str = ""
    """Name of a Secret whose entries are the files."""


class Elastic(Sparse, frozen=True, kw_only=True):
    """The range of the number of tasks of an elastic role: training continues with any number in it."""

    min: Annotated[int, msgspec.Meta(ge=1, le=MAX_TASK_NUMBER)]
    """Minimum number of tasks for training."""
    max: Annotated[int, msgspec.Meta(ge=1, le=MAX_TASK_NUMBER)]
    """Maximum number of tasks, also for `windlass scale`."""


class JobCompletion(Sparse, frozen=True, kw_only=True):
    """What completes the job."""

    task: Annotated[str, msgspec.Meta(pattern=names.TASK_PATTERN)]
    """Task whose success is the success of the job, e.g. worker-0. A failure of any task still ends the job, unless
    the `completion` of its role says otherwise."""


class Role(Sparse, frozen=True, kw_only=True):
    """A number of identical tasks. Fields here override those of the job."""

    tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)] = 1
    """Number of tasks, named {role}-0, {role}-1 and so on."""
    image: str = ""
    """Container image. Default: the job's."""
    command: Command | None = None
    """Command. Default: the job's."""
    container: DnsLabel = ""
    """Name of the container that runs the command. Default: the job's."""
    idle: bool | None = None
    """Run an idle TensorFlow server instead of a command, for a notebook or another client; false: run the entrypoint
    of the image. Default: the job's."""
    env: dict[Variable, Value] = {}
    """Environment variables, added to those of the job."""
    resources: Resources | None = None
    """Resources of each task. They replace the job's `resources` completely."""
    port: Port | None = None
    """Port of the tasks. Default: the job's."""
    node_selector: dict[str, str] = {}
    """Required node labels, added to the job's."""
    tolerations: tuple[Json, ...] = ()
    """Tolerations, added to the job's."""
    elastic: Elastic | None = None
    """With pytorch and torchrun: the range of the number of tasks. A failed task is retried alone, and the number of
    tasks may change, while the others continue from the last checkpoint."""
    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | None = None
    """Number of processes that mpirun starts in each task (runtime mpi). Default: its GPUs, otherwise its whole CPUs,
    otherwise 1."""
    processes_per_task: Processes | None = None
    """Number of processes per task. Default: the job's."""
    after: dict[RoleName, StartCondition] = {}
    """Conditions that the tasks of other roles must have reached before the tasks of this role start, e.g.
    {ps: Ready}: Running, Ready or Succeeded."""
    retry: Count | None = None
    """Number of restarts of a single task of this role. Default: `retry.task` of the job, at least 3 if the job has
    an elastic role."""
    completion: CompletionPolicySpec | None = None
    """Numbers of failed or succeeded tasks of this role that end the job; 0 and -1 disable the rule. Default: depends
    on the runtime; an elastic role succeeds when `elastic.min` tasks have succeeded."""
    shm_size: Quantity | None = None
    """Size of /dev/shm of each task. Default: the job's, else half of the memory limit of the role, or 1Gi."""
    pod: Json = {}
    """Pod template fields, merged after the job's."""


class Job(Sparse, frozen=True, kw_only=True):
    """A distributed training job."""

    name: DnsLabel
    """Name of the job: lower-case letters, digits and hyphens, beginning with a letter. Pods are named
    {name}-{role}-{index}."""
    namespace: str = ""
    """Namespace. Default: the namespace of the kubeconfig's context."""
    description: str = ""
    """Description for users."""
    runtime: Runtime = Runtime.PLAIN
    """Training library. Selects the variables for peer discovery, and the roles whose success completes the job."""
    image: str = ""
    """Container image. `windlass run` does not need one: there, commands use the programs of this machine."""
    code: str = ""
    """Folder or file with the code, relative to the job file. Every task gets a copy (on an embedded cluster, the
    original) and starts in its folder; no image is built."""
    command: Command | None = None
    """Command of every task; with mpi and a launcher, only of the launcher. A string without shell syntax is run
    directly, any other by /bin/sh; a list contains the program and its arguments. Without one, tasks with the runtime
    tensorflow run the entrypoint of their image."""
    container: DnsLabel = ""
    """Name of the container that runs the command. Default: the runtime, with plain main."""
    idle: bool | None = None
    """With tensorflow: run an idle TensorFlow server, for a notebook or another client, in every task that belongs to
    the TensorFlow cluster and has no command. false: tasks without a command run the entrypoint of their image."""
    roles: dict[RoleName, Role] = {}
    """Roles by name (lower-case letters and digits). At least one has a task."""
    env: dict[Variable, Value] = {}
    """Environment variables of every task: a value, or its source as in Kubernetes' valueFrom. `inherit` with a list
    names variables of the shell for `windlass run`, e.g. {inherit: [CUDA_VISIBLE_DEVICES, HF_TOKEN]}."""
    env_from: tuple[Json, ...] = ()
    """Sources of variables as in Kubernetes, e.g. [{secretRef: {name: keys}}]."""
    secrets: dict[Variable, str] = {}
    """Variables with secret values. They are stored in the Secret {name}-secrets, not in the Framework."""
    resources: Resources | None = None
    """Resources of every task, unless its role has its own."""
    volumes: dict[DnsLabel, Volume] = {}
    """Volumes by name. Every task has all of them."""
    nfs_server: NfsServer | None = None
    """NFS server in the cluster, for volumes with `share`."""
    load_data: tuple[LoadData, ...] = ()
    """Files to load into volumes before the job starts, in this order."""
    needs: tuple[str, ...] = ()
    """Files and folders, as tasks see them, that must exist before the job starts."""
    tensorboard: TensorBoard | None = None
    """TensorBoard for the job: {} for one that watches /output."""
    jupyter: Jupyter | None = None
    """JupyterLab for the job: {} for one with a generated password."""
    hub: Hub | None = None
    """JupyterHub for the job, for several users."""
    shm_size: Quantity | None = None
    """Size of /dev/shm of each task, in memory, which counts towards the memory limit. Default: half of the memory
    limit of the role, or 1Gi without one."""
    port: Port | None = None
    """Port on which tasks listen for each other. Default: 2222 with tensorflow, pytorch and jax, none with mpi and
    plain."""
    barrier: bool = False
    """Start the tasks only when all of them have addresses. Always on with mpi."""
    processes_per_task: Processes | None = None
    """Number of processes per task: with pytorch those of torchrun (a number, auto, cpu or gpu), with mpi the `slots`
    (a number). Default: torchrun starts one, mpirun as many as the `slots`."""
    completion: JobCompletion | None = None
    """What completes the job. Default: depends on the runtime and on the `completion` of the roles."""
    retry: Restarts = Retry()
    """Numbers of retries. A single number sets `job`."""
    pending_deadline: Duration | None = None
    """Maximum time that a task may be pending, e.g. for its image or for free resources."""
    active_deadline: Duration | None = None
    """Maximum time of all attempts together."""
    ttl: Duration | None = None
    """Time to keep the job after it has finished."""
    service_account: str = ""
    """Service account of the pods."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets for the image registry."""
    node_selector: dict[str, str] = {}
    """Labels that nodes must have."""
    tolerations: tuple[Json, ...] = ()
    """Tolerations of node taints, as in Kubernetes."""
    labels: dict[str, str] = {}
    """Labels of the objects of the job, e.g. the Framework and its pods."""
    annotations: dict[str, str] = {}
    """Annotations of the Framework or, with `windlass render --target plain`, of the Jobs and StatefulSets."""
    pod: Json = {}
    """Pod template fields, merged into every pod template like a Kubernetes patch: for fields that a job lacks."""
    framework: Json = {}
    """Fields of the spec of the Framework, merged into the spec that is made from the job, e.g. completionPolicies.
    Roles in `taskRoles` are merged by name; null removes a field. Rules in `completionPolicies` precede that of
    `completion`."""

    @property
    def elastic_ranges(self) -> dict[str, TaskRange]:
        """The ranges of elastic roles, by role."""
        return {
            name: TaskRange(role.elastic.min, role.elastic.max)
            for name, role in self.roles.items()
            if role.elastic is not None
        }

    @property
    def inherited(self) -> tuple[str, ...]:
        """Names of the variables of the user's shell in `env`."""
        names_of_shell = self.env.get(INHERIT, ())
        return names_of_shell if isinstance(names_of_shell, tuple) else ()

    @property
    def variables(self) -> dict[str, Value]:
        """The variables in `env`."""
        return {name: value for name, value in self.env.items() if not isinstance(value, tuple)}

    @property
    def retries(self) -> Retry:
        """The numbers of retries."""
        return Retry(job=self.retry) if isinstance(self.retry, int) else self.retry

    @property
    def companions(self) -> dict[Companion, CompanionSpec]:
        """The requested companions."""
        fields: dict[Companion, CompanionSpec | None] = {
            Companion.TENSORBOARD: self.tensorboard,
            Companion.JUPYTER: self.jupyter,
            Companion.HUB: self.hub,
        }
        return {companion: spec for companion, spec in fields.items() if spec is not None}

    def with_companions(self, kept: Collection[Companion]) -> "Job":
        """Return the job with these companions only."""
        removed = {str(companion): None for companion in Companion if companion not in kept}
        return msgspec.structs.replace(self, **removed)
