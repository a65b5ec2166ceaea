"""The parts of a rendered job, in the order of their creation."""

from enum import StrEnum

import msgspec

from windlass.model.base import Json


class Part(StrEnum):
    """Part of the output, as `--only` selects it. The parts of a job are in the order of the output."""

    OTHERS = "others"
    """Other objects of the file, and objects from templates of the user."""
    SECRETS = "secrets"
    SSH = "ssh"
    """The Secret with the SSH key of an MPI job."""
    VOLUMES = "volumes"
    """PersistentVolumes and their claims."""
    NFS = "nfs"
    """The NFS server in the cluster."""
    CODE = "code"
    """The ConfigMap with the code."""
    LOAD_DATA = "load-data"
    PREFLIGHT = "preflight"
    TENSORBOARD = "tensorboard"
    JUPYTER = "jupyter"
    HUB = "hub"
    FRAMEWORK = "framework"
    CLUSTER = "cluster"
    """The ConfigMap with the addresses of the tasks."""
    SERVICES = "services"
    ROLES = "roles"
    """Jobs and StatefulSets."""


COMPANIONS = (Part.TENSORBOARD, Part.JUPYTER, Part.HUB)
"""Interactive servers. A job does not wait for them, and does not end when they end."""


class RenderedObject(msgspec.Struct, frozen=True):
    part: Part
    body: Json
