"""What is to be done about one workload, as values: a status to store, and actions that `acting` performs. Pure."""

from datetime import datetime

import msgspec

from windlass.model.base import Json


class Create(msgspec.Struct, frozen=True):
    """An object of the workload's own: a pod, a claim, a ReplicaSet."""

    resource: str
    body: Json
    # Is one of its name as good?
    may_exist: bool = False


class Delete(msgspec.Struct, frozen=True):
    resource: str
    name: str
    # "" is whichever has the name.
    uid: str
    # As in DeleteOptions; "" is what is usual for the kind.
    propagation: str = ""
    is_announced: bool = True


class Untrack(msgspec.Struct, frozen=True):
    """A pod has been counted, or need not be: it may go."""

    name: str
    uid: str


class Resize(msgspec.Struct, frozen=True):
    """Set the replicas of a ReplicaSet, and what its annotations say."""

    name: str
    replicas: int
    annotations: Json


class Relabel(msgspec.Struct, frozen=True):
    """Set annotations of the workload itself."""

    annotations: Json


Action = Create | Delete | Untrack | Resize | Relabel


class Told(msgspec.Struct, frozen=True):
    """An event about the workload."""

    reason: str
    message: str
    type: str = "Normal"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    status: Json | None = None
    """As it is to be from now on; None: as it is."""
    actions: tuple[Action, ...] = ()
    events: tuple[Told, ...] = ()
    wake_at: datetime | None = None
    """When time alone may change what is to be done."""


NOTHING = Decision()


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
