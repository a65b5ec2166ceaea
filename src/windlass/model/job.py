"""The job file: what people write who do not want to write a Framework. How it becomes one is in `render`.

Friendly defaults live here and in `render`, never in the Framework: that one has the reference's.
"""

from collections.abc import Collection
from typing import Annotated

import msgspec

from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.companions import Companion, CompanionSpec, Hub, Jupyter, TensorBoard
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import MAX_TASK_NUMBER, CompletionPolicySpec, Count
from windlass.model.resources import Port, Quantity, Resources

VARIABLE_PATTERN = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"

Label = Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]
RoleName = Annotated[str, msgspec.Meta(pattern=names.ROLE_NAME_PATTERN)]
Variable = Annotated[str, msgspec.Meta(pattern=VARIABLE_PATTERN)]
Command = Annotated[
    str | tuple[str, ...], msgspec.Meta(description="a command: one text, or a list of its words")
]
"""One text, which a shell reads if it has to, or the words themselves."""
Duration = Annotated[
    int | str, msgspec.Meta(description="a duration: seconds, or such as 90s, 15m, 1h30m or 7d")
]
Value = Annotated[
    str | int | float | bool | Json,
    msgspec.Meta(
        description="a value, or where it comes from as Kubernetes has it in valueFrom, such as "
        "{secretKeyRef: {name: keys, key: token}}"
    ),
]


class Retry(Sparse, frozen=True, kw_only=True):
    """How often it is tried again."""

    job: Count = 0
    """All tasks from their beginning, after a failure of the job's own. A failure that would only come again, such as
    too little memory, is not tried again."""
    task: Count = 0
    """One task, while the others go on. 0: whatever happens to a task happens to the job."""
    transient: Count = 10
    """After failures that are nobody's fault, such as a lost node. They are not counted among those above."""


class Nfs(Sparse, frozen=True, kw_only=True):
    """A folder that an NFS server exports."""

    server: str
    """Its name or address."""
    path: str
    """The exported folder."""


class CephFs(Sparse, frozen=True, kw_only=True):
    """A folder of a Ceph file system, as the driver ceph-csi mounts it."""

    cluster_id: str = msgspec.field(name="clusterID")
    """By which ceph-csi knows the cluster: its configuration has the monitors."""
    fs_name: str
    """The file system."""
    path: str = "/"
    """The folder in it."""
    secret: str
    """The name of the Secret with userID and userKey."""
    secret_namespace: str = ""
    """Where that is, if not beside the job."""


class NfsServer(Sparse, frozen=True, kw_only=True):
    """An NFS server in the cluster, for this job and those after it: it stays, with its files, when the job goes."""

    size: Quantity = "10Gi"
    """Of the disk on which it keeps the files."""
    storage_class: str = ""
    """Of that disk. Without it: the cluster's own choice."""
    image: str = ""
    """One that has nfs-ganesha. Without it: that of Windlass."""


class LoadData(Sparse, frozen=True, kw_only=True):
    """Files that are brought into a volume before the job starts. One of url, folder and command says from where."""

    to: str
    """A folder in a volume of the job, as its tasks see it, such as /data/digits."""
    url: str = ""
    """A file to download. An archive (.tar, .tar.gz, .tgz, .zip) is unpacked."""
    sha256: str = ""
    """Of that file: another one is refused."""
    folder: str = ""
    """Of this machine, relative to the job file."""
    command: Command | None = None
    """It is run in `to`."""
    image: str = ""
    """In which it is done. Without it: the job's own."""


class Volume(Sparse, frozen=True, kw_only=True):
    """A folder that every task has, under the same path. One of the kinds below says where it comes from."""

    at: str
    """The path in the task."""
    read_only: bool = False
    """Nobody writes to it."""
    sub_path: str = ""
    """Only this folder of it."""
    host_path: str = ""
    """A folder of the machine on which the task runs. It is made if it is missing."""
    nodes: tuple[str, ...] = ()
    """With hostPath: the machines that have it. Tasks run on these only."""
    share: str = ""
    """A folder of the job's own nfsServer, such as /data or /output."""
    nfs: Nfs | None = None
    """A folder that an NFS server exports."""
    pvc: str = ""
    """The name of a PersistentVolumeClaim."""
    cephfs: CephFs | None = None
    """A folder of a Ceph file system."""
    empty_dir: Json | None = None
    """One for each task, empty at its start: {}, or as Kubernetes has it, such as {sizeLimit: 10Gi}."""
    config_map: str = ""
    """The name of a ConfigMap whose entries are the files."""
    secret: str = ""
    """The name of a Secret whose entries are the files."""


class Role(Sparse, frozen=True, kw_only=True):
    """A number of tasks that do the same. What is written here counts before what is written for the whole job."""

    tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)] = 1
    """How many. They are called {role}-0, {role}-1 and so on."""
    image: str = ""
    """In place of the job's."""
    command: Command | None = None
    """In place of the job's."""
    env: dict[Variable, Value] = {}
    """Added to those of the job."""
    resources: Resources | None = None
    """In place of the job's, as a whole."""
    port: Port | None = None
    """In place of the job's."""
    node_selector: dict[str, str] = {}
    """Added to the job's."""
    tolerations: tuple[Json, ...] = ()
    """Added to the job's."""
    retry: Count | None = None
    """How often one task of this role is tried again."""
    completion: CompletionPolicySpec | None = None
    """How many tasks of this role have to fail, or to succeed, for the job to have done so; -1: however many. Without
    it, the runtime says."""
    pod: Json = {}
    """Merged into the pod template of this role after the job's."""


class Job(Sparse, frozen=True, kw_only=True):
    """A distributed training job."""

    name: Label
    """Lower-case letters, digits and hyphens, with a letter at the beginning. Pods are called {name}-{role}-{index}."""
    namespace: str = ""
    """Without it: that of the kubeconfig's context."""
    description: str = ""
    """For people."""
    runtime: Runtime = Runtime.PLAIN
    """What its tasks are told of their peers, and which of them decide the job."""
    image: str = ""
    """The container image. `windlass run` needs none: there, commands run with the programs of this machine."""
    code: str = ""
    """A folder, or one file, relative to the job file. Every task starts in it, without an image being built."""
    command: Command | None = None
    """What every task runs. A text without shell syntax is run directly, another one by /bin/sh; a list is the words
    themselves."""
    roles: dict[RoleName, Role] = {}
    """By name, of lower-case letters and digits. At least one has a task."""
    env: dict[Variable, Value] = {}
    """Variables of every task: a value, or where it comes from as Kubernetes has it in valueFrom."""
    env_from: tuple[Json, ...] = ()
    """As Kubernetes has it, such as [{secretRef: {name: keys}}]."""
    secrets: dict[Variable, str] = {}
    """Variables of every task that belong in no manifest: they are kept in a Secret, {name}-secrets."""
    resources: Resources | None = None
    """Of every task that has none of its own."""
    volumes: dict[Label, Volume] = {}
    """By name. Every task has all of them."""
    nfs_server: NfsServer | None = None
    """An NFS server in the cluster, for volumes of the kind share."""
    load_data: tuple[LoadData, ...] = ()
    """Files that are brought into volumes before the job starts, in this order."""
    needs: tuple[str, ...] = ()
    """Files and folders, as tasks see them, that have to be there before the job starts."""
    tensorboard: TensorBoard | None = None
    """A TensorBoard beside the job: {} for one that watches /output."""
    jupyter: Jupyter | None = None
    """A JupyterLab beside the job: {} for one whose password is made up."""
    hub: Hub | None = None
    """A JupyterHub beside the job, for several people."""
    shm_size: Quantity | None = None
    """Of /dev/shm, in memory: data loaders with many processes need more than the 64Mi of a container."""
    port: Port | None = None
    """Where its tasks listen for one another. Without it: 2222 with tensorflow, pytorch and jax, none with mpi and
    plain."""
    barrier: bool = False
    """Nothing starts before every task has an address."""
    retry: Retry = Retry()
    """How often it is tried again."""
    pending_deadline: Duration | None = None
    """How long one task may wait until it runs, for its image or for room in the cluster."""
    active_deadline: Duration | None = None
    """How long the job may take, over all its attempts."""
    ttl: Duration | None = None
    """How long it is kept when it is done."""
    service_account: str = ""
    """As whom its pods speak to the API server."""
    image_pull_secrets: tuple[str, ...] = ()
    """The names of Secrets for the registry of the image."""
    node_selector: dict[str, str] = {}
    """Labels that a node must have."""
    tolerations: tuple[Json, ...] = ()
    """Of taints of nodes, as Kubernetes has them."""
    labels: dict[str, str] = {}
    """Of the Framework and of its pods."""
    annotations: dict[str, str] = {}
    """Of the Framework."""
    pod: Json = {}
    """Merged into every pod template, as Kubernetes merges a patch: for all that has no field of its own here."""

    @property
    def companions(self) -> dict[Companion, CompanionSpec]:
        """Those that it asks for."""
        asked: dict[Companion, CompanionSpec | None] = {
            Companion.TENSORBOARD: self.tensorboard,
            Companion.JUPYTER: self.jupyter,
            Companion.HUB: self.hub,
        }
        return {companion: wanted for companion, wanted in asked.items() if wanted is not None}

    def with_companions(self, kept: Collection[Companion]) -> "Job":
        """And with no others."""
        others = {str(each): None for each in Companion if each not in kept}
        return msgspec.structs.replace(self, **others)
