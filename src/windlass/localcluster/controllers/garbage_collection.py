"""The garbage collector: deletes dependents of deleted owners and the contents of deleted namespaces and definitions.

It watches all changes, queues the affected objects and reconciles them one at a time. It depends on stored objects
only: after a restart it queues every object that has an owner or a deletionTimestamp.
"""

import logging
from collections.abc import Iterable, Iterator

from windlass.k8s.api_errors import ApiError
from windlass.k8s.metadata import OwnerReference, decode_owners
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds import definitions, namespaces
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import FOREGROUND, ORPHAN, Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.apiserver.strategy import Change as Amendment
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.controllers import work_queue
from windlass.localcluster.controllers.work_queue import ObjectRef, QueueController
from windlass.localcluster.store_types import Change, object_key

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
# The conditions of a terminating namespace are written only when this many objects or fewer remain.
_MAX_REPORTED = 100
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class GarbageCollector(QueueController):
    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__(lifecycle.store)
        self._lifecycle = lifecycle
        # UIDs of owners and namespaces whose dependents or contents have already been processed.
        self._processed: set[str] = set()
        # Namespaces and definitions that wait for the deletion of their last object.
        self._terminating: set[ObjectRef] = set()
        self._store.listen(self._on_change)
        for ref in (*self._store.all_owned(), *self._store.containing('"deletionTimestamp"')):
            self._enqueue(ref)

    def _on_rejected(self, ref: ObjectRef, error: ApiError) -> None:
        if error.code not in (404, 409):
            logger.warning("garbage collection of %s %s was rejected: %s", *ref, error.message)

    def _retry(self, ref: ObjectRef) -> None:
        self._processed.clear()
        work_queue.call_later(RETRY_SECONDS, self._enqueue, ref)

    def _on_change(self, change: Change) -> None:
        ref = (change.resource, change.key)
        if change.after is None:
            self._on_deleted(ref, change.before or b"")
            return
        is_terminating = b'"deletionTimestamp"' in change.after
        if is_terminating or b'"ownerReferences"' in change.after:
            self._enqueue(ref)
        if change.before is not None and b'"ownerReferences"' in change.before:
            # The object no longer blocks the owners whose references were removed.
            current = decode_owners(change.after).metadata.owner_references
            former = decode_owners(change.before).metadata.owner_references
            self._enqueue_owners((owner for owner in former if owner not in current), change.key)
        if is_terminating and change.resource in ("namespaces", DEFINITIONS):
            self._terminating.add(ref)
        if is_terminating and change.before is not None and b'"finalizers"' in change.before:
            # The conditions of the object's namespace name the remaining finalizers.
            self._enqueue_if_terminating("namespaces", change.key.partition("/")[0])

    def _on_deleted(self, ref: ObjectRef, body: bytes) -> None:
        meta = decode_owners(body).metadata
        resource, key = ref
        self._processed.discard(meta.uid)
        for dependent in self._store.owned_by(meta.uid):
            self._enqueue(dependent)
        self._enqueue_owners(meta.owner_references, key)
        self._terminating.discard(ref)
        self._enqueue_if_terminating("namespaces", key.partition("/")[0])
        self._enqueue_if_terminating(DEFINITIONS, resource)

    def _enqueue_owners(self, references: Iterable[OwnerReference], key: str) -> None:
        for reference in references:
            owner = self._owner_ref(reference, key.rpartition("/")[0])
            if owner is not None:
                self._enqueue(owner)

    def _enqueue_if_terminating(self, resource: str, name: str) -> None:
        if (resource, name) in self._terminating:
            self._enqueue((resource, name))

    def _reconcile(self, ref: ObjectRef) -> None:
        resource, key = ref
        kind = self._lifecycle.registry.find_by_resource(resource)
        body = self._store.get(resource, key)
        if kind is None or body is None:
            return
        obj = bodies.decode_stored(body)
        meta = obj["metadata"]
        if "deletionTimestamp" in meta:
            self._finalize(kind, obj)
        elif meta.get("ownerReferences"):
            self._collect(kind, obj)

    def _finalize(self, kind: Kind, obj: Object) -> None:
        """Do the work that has to precede the removal of a deleted object."""
        finalizers = obj["metadata"].get("finalizers", ())
        if kind.resource == "namespaces":
            self._terminating.add(("namespaces", obj["metadata"]["name"]))
            self._empty_namespace(kind, obj)
        elif definitions.CLEANUP in finalizers:
            self._terminating.add((DEFINITIONS, obj["metadata"]["name"]))
            self._empty_definition(kind, obj)
        elif FOREGROUND in finalizers:
            self._delete_dependents(kind, obj)
        elif ORPHAN in finalizers:
            self._orphan_dependents(kind, obj)

    def _delete_dependents(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if uid not in self._processed:
            for dependent_kind, dependent in self._dependents(uid):
                if "deletionTimestamp" not in dependent["metadata"]:
                    self._collect(dependent_kind, dependent)
            # Dependents created later are queued by their own change events.
            self._processed.add(uid)
        if not any(_blocks(dependent["metadata"], uid) for _, dependent in self._dependents(uid)):
            self._remove_finalizer(kind, obj, FOREGROUND)

    def _orphan_dependents(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent_kind, dependent in self._dependents(uid):
            self._amend(dependent_kind, dependent, lambda old: metadata.without_owners(old, {uid}))
        self._remove_finalizer(kind, obj, ORPHAN)

    def _dependents(self, uid: str) -> Iterator[tuple[Kind, Object]]:
        for resource, key in self._store.owned_by(uid):
            kind = self._lifecycle.registry.find_by_resource(resource)
            body = self._store.get(resource, key)
            if kind is not None and body is not None:
                yield kind, bodies.decode_stored(body)

    def _collect(self, kind: Kind, obj: Object) -> None:
        """Delete an object if all its owners are absent or waiting; otherwise remove its references to such owners."""
        meta = obj["metadata"]
        references = decode_owners(bodies.encode(obj)).metadata.owner_references
        states = {one.uid: self._owner_state(one, meta.get("namespace", "")) for one in references}
        absent_or_waiting = {uid for uid, state in states.items() if state != "exists"}
        if not absent_or_waiting:
            return
        if len(absent_or_waiting) < len(states):
            self._amend(kind, obj, lambda old: metadata.without_owners(old, absent_or_waiting))
            return
        is_awaited = "waits" in states.values()
        policy = self._propagation_for_awaited(meta) if is_awaited else _propagation_of(meta)
        options = DeleteOptions(propagation=policy, uid=meta["uid"])
        self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)

    def _propagation_for_awaited(self, meta: Object) -> str:
        """Return the propagation policy for an object whose owner waits for the object's deletion.

        If the object has dependents, the policy is Foreground, so that they are deleted first. But if one of them also
        waits, there may be a cycle: so that no deletion blocks, the policy then depends on the object's finalizers, as
        without dependents.
        """
        waiting = [_is_waiting(dependent["metadata"]) for _, dependent in self._dependents(meta["uid"])]
        return "Foreground" if waiting and not any(waiting) else _propagation_of(meta)

    def _owner_state(self, reference: OwnerReference, namespace: str) -> str:
        """Return the state of an owner: "exists", "absent", or "waits" for the deletion of its dependents."""
        ref = self._owner_ref(reference, namespace)
        if ref is None:
            # The owner cannot be looked up, so it may exist.
            return "exists"
        body = self._store.get(*ref)
        meta = bodies.decode_stored(body)["metadata"] if body is not None else {}
        if meta.get("uid") != reference.uid:
            return "absent"
        return "waits" if _is_waiting(meta) else "exists"

    def _owner_ref(self, reference: OwnerReference, namespace: str) -> ObjectRef | None:
        """Return the resource and key of an owner.

        Return None if its kind is unknown, or is namespaced and `namespace` is empty.
        """
        kind = self._lifecycle.registry.find_by_kind(reference.api_version, reference.kind)
        if kind is None or (kind.namespaced and not namespace):
            return None
        return kind.resource, object_key(namespace if kind.namespaced else "", reference.name)

    def _remove_finalizer(self, kind: Kind, obj: Object, finalizer: str) -> None:
        self._amend(kind, obj, lambda old: metadata.without_finalizer(old, finalizer))

    def _amend(self, kind: Kind, obj: Object, change: Amendment) -> None:
        meta = obj["metadata"]
        self._lifecycle.amend(kind, meta.get("namespace", ""), meta["name"], change)

    def _empty_namespace(self, kind: Kind, obj: Object) -> None:
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        kinds = [other for other in self._lifecycle.registry.stored_kinds if other.namespaced]
        if uid not in self._processed:
            for other in kinds:
                self._delete_all(other, name)
            # Nothing can be created in a terminating namespace.
            self._processed.add(uid)
        counts = [self._store.count(other.resource, name) for other in kinds]
        if sum(counts) > _MAX_REPORTED:
            # The conditions are written when fewer objects remain.
            return
        remaining = [
            (other, bodies.decode_stored(body)["metadata"])
            for other, count in zip(kinds, counts, strict=True)
            if count
            for body in self._store.all(other.resource, name)
        ]
        conditions = namespaces.deletion_conditions(remaining, self._lifecycle.now())

        def with_progress(old: Object) -> Object:
            new = namespaces.with_conditions(old, conditions)
            return new if remaining else namespaces.finalized(new)

        self._lifecycle.amend(kind, "", name, with_progress)

    def _empty_definition(self, kind: Kind, obj: Object) -> None:
        name = obj["metadata"]["name"]
        for custom in self._lifecycle.registry.defined(name)[:1]:
            # All versions have the same stored objects.
            self._delete_all(custom, "")
            if self._store.count(custom.resource):
                return
        self._remove_finalizer(kind, obj, definitions.CLEANUP)

    def _delete_all(self, kind: Kind, namespace: str) -> None:
        for body in self._store.all(kind.resource, namespace):
            meta = bodies.decode_stored(body)["metadata"]
            if "deletionTimestamp" not in meta:
                options = DeleteOptions(uid=meta["uid"], propagation="Background")
                self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)


def _blocks(meta: Object, owner_uid: str) -> bool:
    """Return whether an object blocks the deletion of an owner. An object does not block itself."""
    return meta["uid"] != owner_uid and any(
        one.get("uid") == owner_uid and one.get("blockOwnerDeletion")
        for one in meta.get("ownerReferences", ())
    )


def _propagation_of(meta: Object) -> str:
    finalizers = meta.get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _is_waiting(meta: Object) -> bool:
    """Return whether an object waits for the deletion of its dependents."""
    return "deletionTimestamp" in meta and FOREGROUND in meta.get("finalizers", ())
