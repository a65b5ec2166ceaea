"""The job file: what people write who do not want to write a Framework. How it becomes one is in `render`.

Friendly defaults live here and in `render`, never in the Framework: that one has the reference's.
"""

from typing import Annotated

import msgspec

from windlass.model import names
from windlass.model.base import Json, Sparse
from windlass.model.framework import MAX_TASK_NUMBER, CompletionPolicySpec, Count
from windlass.model.wishes import Runtime

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Command = str | tuple[str, ...]
"""Words for a shell, or the words themselves."""
Quantity = int | float | str
"""As Kubernetes writes them: 2, 0.5, 500m, 4Gi."""
Duration = int | str
"""Seconds, or such as 90s, 15m, 12h, 7d."""
Value = str | int | float | bool | Json
"""Of a variable: what it is, or as Kubernetes' valueFrom has it, such as {secretKeyRef: {name: keys, key: token}}."""


class Resources(Sparse, frozen=True, kw_only=True):
    """What one task needs: it is given that much, and held to it."""

    cpus: Quantity | None = None
    """CPU cores, such as 2 or 500m."""
    memory: Quantity | None = None
    """Such as 8Gi. A task that takes more is ended (OOMKilled)."""
    gpus: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Whole GPUs, of the kind nvidia.com/gpu."""


class Retry(Sparse, frozen=True, kw_only=True):
    """How often it is tried again."""

    job: Annotated[int, msgspec.Meta(ge=0)] = 0
    """All tasks from their beginning, after a failure of the job's own."""
    task: Annotated[int, msgspec.Meta(ge=0)] = 0
    """One task, while the others go on."""
    transient: Count = 10
    """After failures that are not the job's, such as a lost node. They are not counted as those above."""


class Nfs(Sparse, frozen=True, kw_only=True):
    server: str
    path: str


class CephFs(Sparse, frozen=True, kw_only=True):
    monitors: tuple[str, ...]
    path: str = "/"
    user: str = "admin"
    secret: str = ""
    """The name of the Secret with the user's key."""


class Volume(Sparse, frozen=True, kw_only=True):
    """A folder that every task has, under the same path. One of the kinds below says where it comes from."""

    at: str
    """The path in the task."""
    read_only: bool = False
    sub_path: str = ""
    """Only this folder of it."""
    host_path: str = ""
    """A folder of the machine on which the task runs. It is made if it is missing."""
    nfs: Nfs | None = None
    pvc: str = ""
    """The name of a PersistentVolumeClaim."""
    cephfs: CephFs | None = None
    empty_dir: Json | None = None
    """One for each task, empty at its start: {}, or as Kubernetes has it, such as {sizeLimit: 10Gi}."""
    config_map: str = ""
    """The name of a ConfigMap whose entries are the files."""
    secret: str = ""
    """The name of a Secret whose entries are the files."""


class Role(Sparse, frozen=True, kw_only=True):
    """A number of tasks that do the same. What is written here counts before what is written for the whole job."""

    tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)] = 1
    image: str = ""
    command: Command | None = None
    env: dict[str, Value] = {}
    """Added to those of the job."""
    resources: Resources | None = None
    port: Port | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Json, ...] = ()
    retry: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How often one task of this role is tried again."""
    completion: CompletionPolicySpec | None = None
    """When the tasks of this role decide the job. Without it, the runtime says."""
    pod: Json = {}
    """Merged into the pod template last, as Kubernetes merges a patch."""


class Job(Sparse, frozen=True, kw_only=True):
    """A distributed training job."""

    name: Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]
    namespace: str = ""
    """Without it: that of the kubeconfig's context."""
    description: str = ""
    runtime: Runtime = Runtime.PLAIN
    """What its tasks are told of their peers, and which of them decide the job."""
    image: str = ""
    """The container image. `windlass run` needs none: there, commands run with the programs of this machine."""
    code: str = ""
    """A folder, or one file, relative to the job file. Every task starts in it, without an image being built."""
    command: Command | None = None
    roles: dict[str, Role] = {}
    env: dict[str, Value] = {}
    env_from: tuple[Json, ...] = ()
    """As Kubernetes has it, such as [{secretRef: {name: keys}}]."""
    resources: Resources | None = None
    """Of every task that has none of its own."""
    volumes: dict[str, Volume] = {}
    shm_size: Quantity | None = None
    """Of /dev/shm, in memory: data loaders with many processes need more than the 64Mi of a container."""
    port: Port | None = None
    """Where the tasks of a runtime listen for one another. Without it: 2222."""
    barrier: bool = False
    """Nothing starts before every task has an address."""
    retry: Retry = Retry()
    pending_deadline: Duration | None = None
    """How long one task may wait until it runs, for its image or for room in the cluster."""
    active_deadline: Duration | None = None
    """How long the job may take, over all its attempts."""
    ttl: Duration | None = None
    """How long it is kept when it is done."""
    service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Json, ...] = ()
    labels: dict[str, str] = {}
    """Of the Framework and of its pods."""
    annotations: dict[str, str] = {}
    """Of the Framework."""
    pod: Json = {}
    """Merged into every pod template, as Kubernetes merges a patch: for all that has no field of its own here."""
