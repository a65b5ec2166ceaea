"""The strategy of a kind: settings, and hooks that `lifecycle` calls (`rest.RESTCreateStrategy` etc. in Kubernetes).

`Strategy` itself is the strategy of kinds without special rules. Objects are plain dictionaries. Before a hook is
called, they have been pruned, given their constant defaults and, for built-in kinds, type-checked. A hook changes `new`
in place and never changes `old`.
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
    """The parts of the cluster that strategies can read."""

    def now(self) -> str:
        """Return the current time as a timestamp."""
        ...

    def objects(self, group: str, plural: str) -> Iterator[Object]:
        """Return all stored objects of one kind."""
        ...


class ScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """JSONPaths of the scale subresource, e.g. `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class Strategy:
    """The default hooks and settings."""

    # Whether metadata.generation counts changes of all fields but metadata and status.
    has_generation = False
    # Spec fields whose changes do not increase the generation.
    fields_without_generation: tuple[str, ...] = ()
    # Whether a change of annotations increases the generation, too.
    annotations_change_generation = False
    # Fields that clients can change through /status only, if the kind has that subresource.
    status_fields: tuple[str, ...] = ("status",)
    # Whether an update through /status can change labels, annotations and finalizers.
    status_updates_metadata = True
    # Whether an update may omit the resourceVersion.
    allows_unconditional_update = True
    # Whether an update of an object that does not exist creates it.
    allows_create_on_update = False
    # Whether a client can set the status of a new object.
    keeps_status_on_create = False
    # Whether a deletion sets neither deletionGracePeriodSeconds nor a new generation.
    omits_grace_period_on_delete = False
    # Whether a deleted object can stay for a grace period.
    is_graceful = False
    # Whether the response to a delete that removes the object is the object rather than a Status.
    returns_deleted_object = False
    # The paths of the scale subresource, if the kind has one.
    scale: ScalePaths | None = None
    # The propagation policy of a delete request that does not specify one.
    default_propagation = "Background"

    def default(self, new: Object) -> None:
        """Set further defaults and canonicalize values, before `prepare_create` or `prepare_update` is called."""

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        """Set the fields that the server controls. The status has been removed before, unless clients may set it."""

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        """Set the fields that the server controls, and copy from `old` the immutable fields that a client may omit."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """Set the fields that the server controls in an update through /status."""

    def validate(self, new: Object) -> Iterable[FieldError]:
        """Return the errors of a new or updated object, besides those of its schema and metadata."""
        return ()

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        """Return the errors of an update, e.g. for immutable fields."""
        return ()

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        """Return the errors that apply to new objects only."""
        return ()

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        """Return the errors of an update through /status."""
        return ()

    def grace_seconds(self, old: Object, requested: int | None) -> int:
        """Return the grace period of a deletion in seconds; 0 if there is none."""
        return 0

    def deletion_forbidden_reason(self, old: Object) -> str:
        """Return why the object cannot be deleted, or ""."""
        return ""

    def mark_deleted(self, new: Object, cluster: ClusterView) -> None:
        """Make further changes to an object that is marked for deletion."""

    def blocks_removal(self, obj: Object) -> bool:
        """Return whether something besides finalizers and the grace period prevents removal."""
        return False
