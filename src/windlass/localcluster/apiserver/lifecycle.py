"""Creates, updates and deletes objects, for clients and for the cluster's own controllers.

Corresponds to `registry/generic` (the Store) of kube-apiserver. No method awaits, so that no other write can happen
between reading an object and storing it.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from windlass.k8s import api_errors, times
from windlass.k8s.api_errors import ApiError, FieldError
from windlass.localcluster import store_types
from windlass.localcluster.apiserver import admission, bodies, metadata
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.apiserver.registry import Registry
from windlass.localcluster.apiserver.strategy import Change, Object
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import AlreadyExistsError, object_key

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# A much longer period would end in a year that a timestamp cannot express.
_MAX_GRACE_SECONDS = 100 * 365 * 24 * 3600
# Metadata fields of a new object that clients cannot set.
_SERVER_SET_FIELDS = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink"),
)


class WriteResult(msgspec.Struct, frozen=True):
    """The object after a write (in a dry run, as it would be), and warnings for the client."""

    body: bytes
    warnings: tuple[str, ...] = ()


class DeleteResult(msgspec.Struct, frozen=True):
    """The last state of a removed object, or an object that is marked for deletion."""

    is_removed: bool
    body: bytes


class Lifecycle:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        randomness: Callable[[int], int],
    ) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self._new_uid = new_uid
        self._randomness = randomness
        # Whether a namespace is terminating, by its name. Checked when an object is created.
        self._namespaces: dict[str, bool] = {
            bodies.decode_stored(body)["metadata"]["name"]: metadata.is_terminating(body)
            for body in store.all("namespaces")
        }
        store.listen(self._on_change)

    def _on_change(self, change: store_types.Change) -> None:
        if change.resource != "namespaces":
            return
        if change.after is None:
            del self._namespaces[change.key]
        else:
            self._namespaces[change.key] = metadata.is_terminating(change.after)

    # ClusterView, for strategies

    def now(self) -> str:
        return format_time(self.clock())

    def objects(self, group: str, plural: str) -> Iterator[Object]:
        return map(bodies.decode_stored, self.store.all(api_errors.resource_name(group, plural)))

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> bytes:
        body = self.store.get(kind.resource, object_key(namespace, name))
        if body is None:
            raise api_errors.not_found(kind.group, kind.plural, name)
        return body

    def read(self, kind: Kind, namespace: str, name: str) -> Object:
        return bodies.decode_stored(self.get(kind, namespace, name))

    # Writing

    def create(self, kind: Kind, namespace: str, client_object: Object, options: WriteOptions) -> WriteResult:
        if kind.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise api_errors.forbidden(kind.group, kind.plural, admission.name_of(client_object), why)
        new, warnings = admission.decode(kind, client_object, options)
        meta = new["metadata"]
        admission.check_namespace(kind, meta, namespace)
        self._check_namespace_is_active(kind, namespace, meta.get("name", ""))
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            suffix = metadata.random_suffix(self._randomness)
            meta["name"] = metadata.generate_name(meta["generateName"], suffix)
        for field in _SERVER_SET_FIELDS:
            meta.pop(field, None)
        meta["uid"] = self._new_uid()
        meta["creationTimestamp"] = self.now()
        if kind.strategy.has_generation:
            meta["generation"] = 1
        if "status" in kind.subresources and not kind.strategy.keeps_status_on_create:
            for field in kind.strategy.status_fields:
                new.pop(field, None)
        kind.strategy.default(new)
        if options.check is not None:
            options.check(new, None)
        kind.strategy.prepare_create(new, self)
        errors = itertools.chain(
            admission.metadata_errors(kind, new),
            kind.strategy.validate_create(new),
            admission.schema_errors(kind, new),
            kind.strategy.validate(new),
        )
        admission.raise_if_invalid(kind, meta.get("name", ""), errors)
        return self._store_new(kind, namespace, new, options, warnings)

    def _store_new(
        self, kind: Kind, namespace: str, new: Object, options: WriteOptions, warnings: tuple[str, ...]
    ) -> WriteResult:
        name = new["metadata"]["name"]
        key = object_key(namespace, name)
        if options.is_dry_run:
            if self.store.get(kind.resource, key) is not None:
                raise self._already_exists(kind, key, name)
            return WriteResult(bodies.encode(new), warnings)
        try:
            return WriteResult(self.store.create(kind.resource, key, new), warnings)
        except AlreadyExistsError as error:
            raise self._already_exists(kind, key, name) from error

    def _already_exists(self, kind: Kind, key: str, name: str) -> ApiError:
        error = api_errors.already_exists(kind.group, kind.plural, name)
        stored = self.store.get(kind.resource, key)
        if stored is None or not metadata.is_terminating(stored):
            return error
        return ApiError(409, error.reason, f"object is being deleted: {error.message}", error.details)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Change,
        options: WriteOptions,
        subresource: str = "",
    ) -> WriteResult:
        """Replace an object by the result of `change`, which is called with the current object.

        With the subresource `status` or `finalize`, only the part that it covers is replaced.
        """
        stored = self.get(kind, namespace, name)
        old = bodies.decode_stored(stored)
        # Decode a second copy: the result of `change` may share parts with its argument.
        new, warnings = admission.apply_change(
            kind, change, admission.convert_to_version(kind, bodies.decode_stored(stored)), options
        )
        meta = new["metadata"]
        admission.check_path(kind, meta, namespace, name)
        admission.check_version_and_uid(kind, meta, old["metadata"])
        metadata.carry_over(new, old)
        if subresource == "finalize":
            new = {**old, "metadata": dict(old["metadata"]), "spec": new.get("spec", {})}
            errors: Iterable[FieldError] = admission.schema_errors(kind, new)
        elif subresource == "status":
            new = admission.with_new_status(kind, new, old)
            kind.strategy.prepare_status(new, old)
            errors = itertools.chain(
                metadata.validate_metadata_update(new, old),
                admission.metadata_errors(kind, new),
                admission.status_errors(kind, new),
                kind.strategy.validate_status(new, old),
            )
        else:
            if "status" in kind.subresources:
                admission.keep_status(kind, new, old)
            kind.strategy.default(new)
            if options.check is not None:
                options.check(new, old)
            kind.strategy.prepare_update(new, old, self)
            errors = itertools.chain(
                metadata.validate_metadata_update(new, old),
                admission.metadata_errors(kind, new),
                admission.schema_errors(kind, new),
                kind.strategy.validate(new),
                kind.strategy.validate_update(new, old),
            )
        admission.raise_if_invalid(kind, name, errors)
        return self._store_changed(kind, namespace, stored, old, new, options, warnings)

    def amend(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Change,
        options: WriteOptions = WriteOptions(),  # noqa: B008 — a frozen value
    ) -> WriteResult:
        """Apply a change that the cluster itself makes, without the validation that applies to clients."""
        stored = self.get(kind, namespace, name)
        old, copied = bodies.decode_stored(stored), bodies.decode_stored(stored)
        return self._store_changed(kind, namespace, stored, old, change(copied), options, ())

    def _store_changed(
        self,
        kind: Kind,
        namespace: str,
        stored: bytes,
        old: Object,
        new: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        new["apiVersion"] = old["apiVersion"]
        if kind.strategy.has_generation and admission.needs_new_generation(kind, new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        version = old["metadata"]["resourceVersion"]
        new["metadata"]["resourceVersion"] = version
        if new == old:
            return WriteResult(stored, warnings)
        if options.is_dry_run:
            return WriteResult(bodies.encode(new), warnings)
        key = object_key(namespace, new["metadata"]["name"])
        if _is_removable(kind, new):
            # Nothing blocks the deletion any more, so the object is deleted instead of stored.
            self.store.delete(kind.resource, key, int(version))
            return WriteResult(bodies.encode(new), warnings)
        return WriteResult(self.store.update(kind.resource, key, new, int(version)), warnings)

    # Deleting

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> DeleteResult:
        stored = self.get(kind, namespace, name)
        obj = bodies.decode_stored(stored)
        meta = obj["metadata"]
        admission.check_preconditions(kind, meta, options)
        reason = kind.strategy.deletion_forbidden_reason(obj)
        if reason:
            raise api_errors.forbidden(kind.group, kind.plural, name, reason)
        old_meta = dict(meta)
        self._mark_for_deletion(kind, obj, options)
        version = int(old_meta["resourceVersion"])
        key = object_key(namespace, name)
        if _is_removable(kind, obj):
            if not options.is_dry_run:
                self.store.delete(kind.resource, key, version)
            if not kind.strategy.is_graceful:
                return DeleteResult(True, self._last_state(kind, stored, options))
            if "deletionTimestamp" in old_meta:
                # The object was already terminating, so its removal is a second change, with its own resourceVersion.
                meta["resourceVersion"] = str(self.store.version)
            return DeleteResult(True, bodies.encode(obj))
        if meta == old_meta or options.is_dry_run:
            return DeleteResult(False, bodies.encode(obj))
        return DeleteResult(False, self.store.update(kind.resource, key, obj, version))

    def _last_state(self, kind: Kind, body: bytes, options: DeleteOptions) -> bytes:
        """Return the last state of a deleted object.

        If the object is sent to the client, it has the resourceVersion of its deletion, except in a dry run.
        """
        if not kind.strategy.returns_deleted_object or options.is_dry_run:
            return body
        obj = bodies.decode_stored(body)
        obj["metadata"]["resourceVersion"] = str(self.store.version)
        return bodies.encode(obj)

    def _mark_for_deletion(self, kind: Kind, obj: Object, options: DeleteOptions) -> None:
        """Set the finalizer of the propagation policy, the deletion timestamp and the grace period.

        If the object is terminating, timestamp and grace period change only if the grace period becomes shorter.
        """
        meta = obj["metadata"]
        _set_propagation(kind, meta, options)
        grace = kind.strategy.grace_seconds(obj, options.grace_seconds)
        is_terminating = "deletionTimestamp" in meta
        if is_terminating and grace >= meta.get("deletionGracePeriodSeconds", 0):
            return
        meta["deletionTimestamp"] = format_time(
            self.clock() + timedelta(seconds=min(grace, _MAX_GRACE_SECONDS))
        )
        kind.strategy.mark_deleted(obj, self)
        if kind.strategy.omits_grace_period_on_delete:
            return
        meta["deletionGracePeriodSeconds"] = grace
        if kind.strategy.has_generation and not is_terminating:
            meta["generation"] = meta.get("generation", 0) + 1

    def _check_namespace_is_active(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        is_terminating = self._namespaces.get(namespace)
        if is_terminating is None:
            raise api_errors.not_found("", "namespaces", namespace)
        if not is_terminating:
            return
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        error = api_errors.forbidden(kind.group, kind.plural, name, why)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise ApiError(403, error.reason, error.message, {**(error.details or {}), "causes": [cause]})


def format_time(time: datetime) -> str:
    return _format_second(int(time.timestamp()))


@functools.lru_cache(maxsize=4)
def _format_second(second: int) -> str:
    return times.format_time(datetime.fromtimestamp(second, UTC))


def _set_propagation(kind: Kind, meta: Object, options: DeleteOptions) -> None:
    """Set the finalizer by which the garbage collector applies the propagation policy. Background has no finalizer."""
    finalizers = [one for one in meta.get("finalizers", ()) if one not in (FOREGROUND, ORPHAN)]
    policy = options.propagation
    if not policy and options.orphan is not None:
        policy = "Orphan" if options.orphan else "Background"
    if not policy:
        # Keep the finalizer that an earlier deletion or a client has set.
        if FOREGROUND in meta.get("finalizers", ()) or ORPHAN in meta.get("finalizers", ()):
            return
        policy = kind.strategy.default_propagation
    if policy == "Foreground":
        finalizers.append(FOREGROUND)
    elif policy == "Orphan":
        finalizers.append(ORPHAN)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers


def _is_removable(kind: Kind, obj: Object) -> bool:
    meta = obj["metadata"]
    is_blocked = bool(meta.get("finalizers")) or kind.strategy.blocks_removal(obj)
    return "deletionTimestamp" in meta and not is_blocked and meta.get("deletionGracePeriodSeconds", 0) == 0
