"""Decisions about a workload as values: a status, actions and events, which `executor` applies."""

from datetime import datetime

import msgspec

from windlass.model.base import Json


class Create(msgspec.Struct, frozen=True):
    """Create an object for the workload: a pod, a claim, a ReplicaSet."""

    resource: str
    body: Json
    # Whether an existing object of that name is accepted.
    may_exist: bool = False


class Delete(msgspec.Struct, frozen=True):
    resource: str
    name: str
    # Empty: any object with the name.
    uid: str
    # As in DeleteOptions; empty: the default of the kind.
    propagation: str = ""
    records_event: bool = True


class RemoveTracking(msgspec.Struct, frozen=True):
    """Remove the tracking finalizer of a pod."""

    name: str
    uid: str


class ScaleReplicaSet(msgspec.Struct, frozen=True):
    """Set the replicas and some annotations of a ReplicaSet."""

    name: str
    replicas: int
    annotations: Json


class Annotate(msgspec.Struct, frozen=True):
    """Set some annotations of the workload itself."""

    annotations: Json


Action = Create | Delete | RemoveTracking | ScaleReplicaSet | Annotate


class Event(msgspec.Struct, frozen=True):
    """An event about the workload."""

    reason: str
    message: str
    type: str = "Normal"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    status: Json | None = None
    """The new status; None: unchanged."""
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None
    """The time at which the decision may change although no object has changed."""


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
