"""What may be peculiar to a kind: the hooks that the one generic path calls.

A kind that needs none of them uses `Strategy` itself. Objects are plain dictionaries that have been checked against the
kind's types, pruned and given their constant defaults before a hook sees them. A hook changes `new` in place; it never
changes `old`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from windlass.k8s.api_errors import FieldError

Object = dict[str, Any]
Change = Callable[[Object], Object]


class Patch(msgspec.Struct, frozen=True):
    """A change for which the client sent a patch rather than the whole object."""

    apply: Change

    def __call__(self, obj: Object) -> Object:
        return self.apply(obj)


class ClusterView(Protocol):
    """What a hook may ask of the cluster around its object."""

    def now(self) -> str:
        """The time as the API writes it."""
        ...

    def objects(self, group: str, plural: str) -> Iterator[Object]:
        """Every stored object of one kind, in all namespaces."""
        ...


class ScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind keeps its numbers: simple JSONPaths such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class Strategy:
    """The hooks of a kind like any other."""

    # Does metadata.generation count the changes of the spec?
    has_generation = False
    # Fields of the spec whose changes are not counted.
    fields_without_generation: tuple[str, ...] = ()
    # Are annotations part of what is desired?
    annotations_change_generation = False
    # What an update through the main path may not change, and one through /status changes alone.
    status_fields: tuple[str, ...] = ("status",)
    # May an update through /status change labels and annotations?
    status_updates_labels = True
    # May an update leave out the resourceVersion, and so replace whatever is there?
    allows_unconditional_update = True
    # Does an update create what is not there?
    allows_create_on_update = False
    # May whoever creates an object give its status as well?
    keeps_status_on_create = False
    # Does `mark_deleted` say all that changes in an object that is deleted but stays? (No grace, no generation.)
    marks_deletion_itself = False
    # Is an object told when it is deleted, and may it take its time?
    is_graceful = False
    # Is the answer to a delete the object that went, rather than a word that it went?
    returns_deleted_object = False
    # Where the scale subresource finds its numbers, if there is one.
    scale: ScalePaths | None = None
    # What happens to the dependents of an object when whoever deletes it does not say.
    default_propagation = "Background"

    def default(self, new: Object) -> None:
        """Fill in defaults that depend on other fields, on create and on update, before the two hooks below."""

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        """Fill in what the server decides. A status sent by the client has been removed before."""

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        """Fill in what the server decides, and carry over immutable fields that a client may leave out."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """Fill in what the server decides in an update through /status."""

    def validate(self, new: Object) -> Iterable[FieldError]:
        """Every error of an object that is to be created or to replace another (beyond types and metadata)."""
        return ()

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        """What may not change."""
        return ()

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        """Return the errors that matter only when an object is created."""
        return ()

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        """Every error of an object whose status is to be replaced."""
        return ()

    def grace_seconds(self, old: Object, asked: int | None) -> int:
        """How long a deleted object stays, marked as going, before it is gone. 0: it goes at once."""
        return 0

    def deletion_forbidden_reason(self, old: Object) -> str:
        """Why an object may not be deleted; nothing when it may."""
        return ""

    def mark_deleted(self, new: Object, cluster: ClusterView) -> None:
        """What else changes in an object that is deleted but stays for a while."""

    def is_held(self, obj: Object) -> bool:
        """Does something other than finalizers and grace keep a deleted object?"""
        return False
