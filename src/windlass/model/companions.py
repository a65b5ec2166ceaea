"""Companions of a job: TensorBoard, JupyterLab and JupyterHub, beside its tasks and next to its data.

They are servers for people. None of them decides how the job ends.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.resources import Port, Resources


class Companion(StrEnum):
    """As the job file and the command line call them, and the label of what belongs to one."""

    TENSORBOARD = "tensorboard"
    JUPYTER = "jupyter"
    HUB = "hub"


class ServiceType(StrEnum):
    """From where a companion is reached."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"


HUB_INTERNAL_PORT = 8081
"""Where a hub listens for its proxy, which is in its pod."""

ServiceName = Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]


class PasswordFrom(Sparse, frozen=True, kw_only=True):
    """Where a password is, which belongs in no file that others read. One of these says it."""

    env: str = ""
    """A variable of whoever submits the job."""
    file: str = ""
    """A file of whoever submits the job, relative to the job file. A line break at its end is not part of it."""
    secret: str = ""
    """A Secret of the cluster that has it hashed already, as the file that Jupyter reads: jupyter_server_config.json,
    as `jupyter server password` writes it; for a hub passwords.json."""


class TensorBoard(Sparse, frozen=True, kw_only=True):
    """A TensorBoard that shows what the tasks write, while they do."""

    logdir: str = "/output"
    """The folder that it watches, in a volume of the job."""
    name: ServiceName = "tensorboard"
    """Of its Service. Where another job of the namespace has that, it is {job}-tensorboard."""
    port: Port = 6006
    """Of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """From where it is reached: ClusterIP (the cluster, and `windlass tensorboard`), NodePort or LoadBalancer."""
    image: str = ""
    """One that has TensorBoard. Without it: the job's."""
    resources: Resources | None = None
    """Of its pod."""
    keep: bool = False
    """It stays when the job goes."""


class Jupyter(Sparse, frozen=True, kw_only=True):
    """A JupyterLab with the volumes of the job, which is told who its tasks are and may read their logs."""

    password_from: PasswordFrom | None = None
    """Without it: one is made up, and shown once."""
    folder: str = ""
    """Where notebooks are kept, in a volume of the job. Without it they go with the server."""
    port: Port = 8888
    """Of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """From where it is reached: ClusterIP (the cluster, and `windlass jupyter`), NodePort or LoadBalancer."""
    image: str = ""
    """One that has JupyterLab. Without it: the job's."""
    resources: Resources | None = None
    """Of its pod."""
    service_account: str = ""
    """As whom it speaks to the API server. Without it: one of its own, which may look at jobs and read logs."""
    keep: bool = False
    """It stays when the job goes."""


class Hub(Sparse, frozen=True, kw_only=True):
    """A JupyterHub whose users get a JupyterLab each, with the volumes of the job."""

    users: tuple[str, ...] = ()
    """Who may log in. Without any: everybody who knows the password."""
    admins: tuple[str, ...] = ()
    """Who may see and stop the servers of the others."""
    password_from: PasswordFrom | None = None
    """One password for all users but `admins`. Whoever has none gets one that is made up, and shown once."""
    folder: str = ""
    """Where notebooks are kept, each user's in a folder of its own, in a volume of the job. Without it they go with
    the server of that user."""
    port: Port = 8000
    """Of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """From where it is reached: ClusterIP (the cluster, and `windlass hub`), NodePort or LoadBalancer."""
    image: str = ""
    """Of the hub: one that has JupyterHub and KubeSpawner. Without it: that of Windlass."""
    user_image: str = ""
    """Of each user's server: one that has JupyterLab and JupyterHub. Without it: the job's."""
    resources: Resources | None = None
    """Of each user's server."""
    config: str = ""
    """Added to jupyterhub_config.py, for all that has no field of its own here, such as another way to log in."""
    keep: bool = False
    """It stays when the job goes."""


CompanionSpec = TensorBoard | Jupyter | Hub
"""What a job file says of one."""


def password_source(wanted: CompanionSpec) -> PasswordFrom:
    """Where its password is. Empty where one is made up, or where it has none."""
    found = None if isinstance(wanted, TensorBoard) else wanted.password_from
    return found or PasswordFrom()


def companion_from_labels(labels: Mapping[str, str] | None) -> Companion | None:
    """To which an object with these labels belongs. Anybody may have written anything into them."""
    written = (labels or {}).get(names.COMPANION_LABEL)
    return next((each for each in Companion if each == written), None)
