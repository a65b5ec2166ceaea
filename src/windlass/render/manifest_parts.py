"""What a job becomes, piece by piece, in the order in which a cluster is given it."""

from enum import StrEnum

import msgspec

from windlass.model.base import Json


class Part(StrEnum):
    """What `--only` asks for. The order is that of the file."""

    OTHERS = "others"
    """What stands in the file as it is, and what templates of one's own make."""
    SECRETS = "secrets"
    VOLUMES = "volumes"
    """PersistentVolumes and their claims."""
    NFS = "nfs"
    """The NFS server in the cluster."""
    CODE = "code"
    """The ConfigMap with the code that travels."""
    LOAD_DATA = "load-data"
    PREFLIGHT = "preflight"
    TENSORBOARD = "tensorboard"
    JUPYTER = "jupyter"
    HUB = "hub"
    FRAMEWORK = "framework"
    CLUSTER = "cluster"
    """The ConfigMap that says who the tasks are."""
    SERVICES = "services"
    ROLES = "roles"
    """Jobs and StatefulSets."""


COMPANIONS = (Part.TENSORBOARD, Part.JUPYTER, Part.HUB)
"""They are for people: a job neither waits for them nor ends with them."""


class Piece(msgspec.Struct, frozen=True):
    part: Part
    body: Json
