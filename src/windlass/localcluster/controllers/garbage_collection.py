"""The garbage collector: deletes dependents of deleted owners and the contents of deleted namespaces and definitions.

It watches all changes, queues the affected objects and reconciles them one at a time. It depends on stored objects
only: after a restart it queues every object that has an owner or a deletionTimestamp.
"""

import logging
from collections.abc import Iterator

from windlass.k8s import api_errors
from windlass.k8s.metadata import OwnerReference, decode_owners
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds import definitions, namespaces
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import FOREGROUND, ORPHAN, Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.apiserver.strategy import Change as Amendment
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.controllers import work_queue
from windlass.localcluster.controllers.work_queue import ObjectRef, WorkQueue
from windlass.localcluster.store_types import Change, StoreError, object_key

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
# Maximum number of remaining objects of a terminating namespace that are listed in its conditions.
_MAX_REPORTED = 100
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class GarbageCollector:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._queue = WorkQueue()
        # UIDs of owners and namespaces whose dependents or contents have all been deleted once.
        self._processed: set[str] = set()
        # Namespaces and definitions that wait for the deletion of their last object.
        self._terminating: set[ObjectRef] = set()
        self._store.listen(self._on_change)
        for ref in (*self._store.all_owned(), *self._store.containing('"deletionTimestamp"')):
            self._queue.add(ref)

    async def run(self) -> None:
        await work_queue.run(self, self._queue.wake_event)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def step(self) -> None:
        """Reconcile one queued object."""
        ref = self._queue.take()
        try:
            self._reconcile(ref)
        except api_errors.ApiError as error:
            if error.code not in (404, 409):
                logger.warning("garbage collection of %s %s was rejected: %s", *ref, error.message)
        except StoreError as error:
            self._after_commit(ref, error)
        except Exception:
            logger.exception("garbage collection of %s %s failed", *ref)
        if not self._store.is_committed:
            self._store.on_commit(lambda failure: self._after_commit(ref, failure))

    def _after_commit(self, ref: ObjectRef, failure: StoreError | None) -> None:
        """Retry later if a commit failed."""
        if failure is None:
            return
        logger.warning("garbage collection of %s %s is retried: %s", *ref, failure)
        self._processed.clear()
        work_queue.call_later(RETRY_SECONDS, self._queue.add, ref)

    def _on_change(self, change: Change) -> None:
        ref = (change.resource, change.key)
        if change.after is None:
            self._on_deleted(ref, change.before or b"")
            return
        is_terminating = b'"deletionTimestamp"' in change.after
        if is_terminating or b'"ownerReferences"' in change.after:
            self._queue.add(ref)
        if change.before is not None and b'"ownerReferences"' in change.before:
            self._on_owner_removed(change.key, change.before, change.after)
        if is_terminating and change.resource in ("namespaces", DEFINITIONS):
            self._terminating.add(ref)
        if is_terminating and change.before is not None and b'"finalizers"' in change.before:
            # The conditions of its namespace name the remaining finalizers.
            self._requeue_namespace(change.key)

    def _on_owner_removed(self, key: str, before: bytes, after: bytes) -> None:
        """Requeue the owners that this object no longer blocks."""
        now = decode_owners(after).metadata.owner_references
        for reference in decode_owners(before).metadata.owner_references:
            if reference not in now:
                owner = self._owner_ref(reference, key.rpartition("/")[0])
                if owner is not None:
                    self._queue.add(owner)

    def _on_deleted(self, ref: ObjectRef, body: bytes) -> None:
        head = decode_owners(body).metadata
        self._processed.discard(head.uid)
        for dependent in self._store.owned_by(head.uid):
            self._queue.add(dependent)
        for reference in head.owner_references:
            owner = self._owner_ref(reference, ref[1].rpartition("/")[0])
            if owner is not None:
                self._queue.add(owner)
        self._terminating.discard(ref)
        resource, key = ref
        for waiting in (("namespaces", key.partition("/")[0]), (DEFINITIONS, resource)):
            if waiting in self._terminating:
                self._queue.add(waiting)

    def _requeue_namespace(self, key: str) -> None:
        namespace = ("namespaces", key.partition("/")[0])
        if namespace in self._terminating:
            self._queue.add(namespace)

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
            self._check_owners(kind, obj)

    def _finalize(self, kind: Kind, obj: Object) -> None:
        """Do what a deleted object waits for."""
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
            for dependent, other in self._dependents(uid):
                if "deletionTimestamp" not in other["metadata"]:
                    self._check_owners(dependent, other)
            # Dependents created later are queued by their own change events.
            self._processed.add(uid)
        if not any(_blocks(other["metadata"], uid) for _, other in self._dependents(uid)):
            self._remove_finalizer(kind, obj, FOREGROUND)

    def _orphan_dependents(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent, other in self._dependents(uid):
            self._remove_owners(dependent, other, {uid})
        self._remove_finalizer(kind, obj, ORPHAN)

    def _dependents(self, uid: str) -> Iterator[tuple[Kind, Object]]:
        for resource, key in self._store.owned_by(uid):
            kind = self._lifecycle.registry.find_by_resource(resource)
            body = self._store.get(resource, key)
            if kind is not None and body is not None:
                yield kind, bodies.decode_stored(body)

    def _check_owners(self, kind: Kind, obj: Object) -> None:
        """Delete an object whose owners are all gone; otherwise remove the references to owners that are gone or
        deleted."""
        meta = obj["metadata"]
        references = decode_owners(bodies.encode(obj)).metadata.owner_references
        states = {one.uid: self._owner_state(one, meta.get("namespace", "")) for one in references}
        terminating = {uid for uid, state in states.items() if state != "here"}
        if not terminating:
            return
        if len(terminating) < len(states):
            self._remove_owners(kind, obj, terminating)
            return
        is_awaited = "waits" in states.values()
        policy = self._propagation_for_awaited(meta) if is_awaited else self._propagation_of(meta)
        options = DeleteOptions(propagation=policy, uid=meta["uid"])
        self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)

    def _propagation_for_awaited(self, meta: Object) -> str:
        """Return the propagation for a dependent that its owner waits for: foreground, so that its own dependents go
        first.

        If one of those waits too, there is a cycle, and one object has to be deleted first.
        """
        waiting = [_is_waiting(other["metadata"]) for _, other in self._dependents(meta["uid"])]
        return "Foreground" if waiting and not any(waiting) else self._propagation_of(meta)

    def _propagation_of(self, meta: Object) -> str:
        finalizers = meta.get("finalizers", ())
        if ORPHAN in finalizers:
            return "Orphan"
        return "Foreground" if FOREGROUND in finalizers else "Background"

    def _owner_state(self, reference: OwnerReference, namespace: str) -> str:
        """Return the state of an owner: "here", "gone", or "waits" for the deletion of its dependents."""
        ref = self._owner_ref(reference, namespace)
        if ref is None:
            # The kind is unknown, so the owner may exist.
            return "here"
        body = self._store.get(*ref)
        if body is None:
            return "gone"
        meta = bodies.decode_stored(body)["metadata"]
        if meta["uid"] != reference.uid:
            return "gone"
        return "waits" if _is_waiting(meta) else "here"

    def _owner_ref(self, reference: OwnerReference, namespace: str) -> ObjectRef | None:
        """Return the reference of an owner, in the namespace of its dependent or cluster-scoped; None if unknown."""
        kind = self._lifecycle.registry.find_by_kind(reference.api_version, reference.kind)
        if kind is None or (kind.namespaced and not namespace):
            return None
        return kind.resource, object_key(namespace if kind.namespaced else "", reference.name)

    def _remove_owners(self, kind: Kind, obj: Object, uids: set[str]) -> None:
        self._amend(kind, obj, lambda old: metadata.without_owners(old, uids))

    def _remove_finalizer(self, kind: Kind, obj: Object, finalizer: str) -> None:
        self._amend(kind, obj, lambda old: metadata.without_finalizer(old, finalizer))

    def _amend(self, kind: Kind, obj: Object, change: Amendment) -> None:
        meta = obj["metadata"]
        self._lifecycle.amend(kind, meta.get("namespace", ""), meta["name"], change)

    def _empty_namespace(self, kind: Kind, obj: Object) -> None:
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        inside = [other for other in self._lifecycle.registry.stored if other.namespaced]
        if uid not in self._processed:
            for other in inside:
                self._delete_all(other, name)
            # Nothing can be created in a terminating namespace.
            self._processed.add(uid)
        counts = [self._store.count(other.resource, name) for other in inside]
        if sum(counts) > _MAX_REPORTED:
            # The conditions are written when fewer objects remain.
            return
        left = [
            (other, bodies.decode_stored(body)["metadata"])
            for other, count in zip(inside, counts, strict=True)
            if count
            for body in self._store.all(other.resource, name)
        ]
        conditions = namespaces.deletion_conditions(left, self._lifecycle.now())

        def emptied(old: Object) -> Object:
            told = namespaces.with_conditions(old, conditions)
            return told if left else namespaces.finalized(told)

        self._lifecycle.amend(kind, "", name, emptied)

    def _empty_definition(self, kind: Kind, obj: Object) -> None:
        name = obj["metadata"]["name"]
        custom = self._lifecycle.registry.find_by_resource(name)
        if custom is not None:
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


def _blocks(meta: Object, owner: str) -> bool:
    """Return whether an object blocks the deletion of an owner. An object does not block itself."""
    return meta["uid"] != owner and any(
        one.get("uid") == owner and one.get("blockOwnerDeletion") for one in meta.get("ownerReferences", ())
    )


def _is_waiting(meta: Object) -> bool:
    """Return whether an object waits for the deletion of its dependents."""
    return "deletionTimestamp" in meta and FOREGROUND in meta.get("finalizers", ())
