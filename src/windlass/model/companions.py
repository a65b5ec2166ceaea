"""Companions of a job: TensorBoard, JupyterLab and JupyterHub, with access to the job's volumes.

They are servers for users and do not affect the result of the job.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.resources import Port, Resources


class Companion(StrEnum):
    """Names of companions in the job file, on the command line and in labels."""

    TENSORBOARD = "tensorboard"
    JUPYTER = "jupyter"
    HUB = "hub"


class ServiceType(StrEnum):
    """Type of the Service of a companion."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"


HUB_INTERNAL_PORT = 8081
"""Port on which a hub listens for its proxy, which runs in the same pod."""

ServiceName = Annotated[str, msgspec.Meta(pattern=names.DNS_LABEL_PATTERN)]


class PasswordFrom(Sparse, frozen=True, kw_only=True):
    """Source of a password that must not be in the job file. Exactly one field is set."""

    env: str = ""
    """Environment variable of the user who submits the job."""
    file: str = ""
    """File of the user who submits the job, relative to the job file. A trailing newline is ignored."""
    secret: str = ""
    """Secret that contains the hashed password, in the file that Jupyter reads: jupyter_server_config.json, as
    `jupyter server password` writes it; for a hub, passwords.json."""


class TensorBoard(Sparse, frozen=True, kw_only=True):
    """A TensorBoard that shows the logs of the tasks while they run."""

    logdir: str = "/output"
    """Log folder, in a volume of the job."""
    name: ServiceName = "tensorboard"
    """Name of its Service. If another Service in the namespace has this name, the Service is named
    {job}-tensorboard."""
    port: Port = 6006
    """Port of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """Type of its Service: ClusterIP (reachable in the cluster and with `windlass tensorboard`), NodePort or
    LoadBalancer."""
    image: str = ""
    """Image with TensorBoard. Default: the job's image."""
    resources: Resources | None = None
    """Resources of its pod."""
    keep: bool = False
    """Keep it when the Framework of the job is deleted, e.g. after `ttl`. `windlass delete` deletes it too."""


class Jupyter(Sparse, frozen=True, kw_only=True):
    """A JupyterLab with the volumes of the job. It has the addresses of the tasks and can read their logs."""

    password_from: PasswordFrom | None = None
    """Source of the password. Default: a password is generated and shown once."""
    folder: str = ""
    """Folder for notebooks, in a volume of the job. Default: they are deleted with the server."""
    port: Port = 8888
    """Port of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """Type of its Service: ClusterIP (reachable in the cluster and with `windlass jupyter`), NodePort or
    LoadBalancer."""
    image: str = ""
    """Image with JupyterLab. Default: the job's image."""
    resources: Resources | None = None
    """Resources of its pod."""
    service_account: str = ""
    """Service account. Default: a new one that can read jobs and logs."""
    keep: bool = False
    """Keep it when the Framework of the job is deleted, e.g. after `ttl`. `windlass delete` deletes it too."""


class Hub(Sparse, frozen=True, kw_only=True):
    """A JupyterHub that starts a JupyterLab for each user, with the volumes of the job."""

    users: tuple[str, ...] = ()
    """Users who can log in. Default: everyone who knows the password."""
    admins: tuple[str, ...] = ()
    """Users who can see and stop the servers of others."""
    password_from: PasswordFrom | None = None
    """Source of the password for all users except `admins`. Default: passwords are generated and shown once."""
    folder: str = ""
    """Folder for notebooks, in a volume of the job, with a subfolder per user. Default: they are deleted with the
    user's server."""
    port: Port = 8000
    """Port of its Service."""
    service: ServiceType = ServiceType.CLUSTER_IP
    """Type of its Service: ClusterIP (reachable in the cluster and with `windlass hub`), NodePort or
    LoadBalancer."""
    image: str = ""
    """Image of the hub, with JupyterHub and KubeSpawner. Default: `windlass-hub`, which you have to
    build (see Companions)."""
    user_image: str = ""
    """Image of the users' servers, with JupyterLab and JupyterHub. Default: the job's image."""
    resources: Resources | None = None
    """Resources of each user's server."""
    config: str = ""
    """Text appended to jupyterhub_config.py, for settings without a field here, e.g. another authenticator."""
    keep: bool = False
    """Keep it when the Framework of the job is deleted, e.g. after `ttl`. `windlass delete` deletes it too."""


CompanionSpec = TensorBoard | Jupyter | Hub
"""The options of any companion."""


def password_source(companion: CompanionSpec) -> PasswordFrom:
    """Return the source of the password. Empty if the password is generated, or if the companion has none."""
    source = None if isinstance(companion, TensorBoard) else companion.password_from
    return source or PasswordFrom()


def companion_from_labels(labels: Mapping[str, str] | None) -> Companion | None:
    """Return the companion that an object with these labels belongs to, or None if the label is missing
    or has an unknown value."""
    value = (labels or {}).get(names.COMPANION_LABEL)
    return next((companion for companion in Companion if companion == value), None)
