"""The garbage collector: what is left behind when an owner, a namespace or a definition goes.

It hears of every change, puts what may be concerned into a queue, and looks at one object after the other. What it does
follows from what is stored alone, so that after a restart a look at everything that has an owner or is going is enough.
"""

import asyncio
import logging
from collections.abc import Iterator

from windlass.k8s import api_errors
from windlass.k8s.metadata import OwnerReference, decode_owners
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds import definitions, namespaces
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import FOREGROUND, ORPHAN, Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.controllers import loops
from windlass.localcluster.controllers.loops import ObjectRef
from windlass.localcluster.store_types import Change, StoreError, object_key

logger = logging.getLogger(__name__)

SECONDS_TO_NEXT_TRY = 1.0
# Of more objects than these in a namespace that is going it is not said what they are.
_MANY = 100
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class Collector:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._queue = loops.Queue()
        # Owners, by uid, and namespaces whose dependents and contents have all been deleted once: they only wait.
        self._swept: set[str] = set()
        # Namespaces and definitions that wait until the last of their objects is gone.
        self._emptying: set[ObjectRef] = set()
        self._store.listen(self._on_change)
        for ref in (*self._store.all_owned(), *self._store.containing('"deletionTimestamp"')):
            self._queue.add(ref)

    async def run(self) -> None:
        await loops.work_off(self, self._queue.news)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def step(self) -> None:
        """Look at one object of the queue."""
        ref = self._queue.take()
        try:
            self._look_at(ref)
        except api_errors.ApiError as error:
            if error.code not in (404, 409):
                logger.warning("garbage collection of %s %s was refused: %s", *ref, error.message)
        except StoreError as error:
            self._after_commit(ref, error)
        except Exception:
            logger.exception("garbage collection of %s %s failed", *ref)
        if not self._store.is_committed:
            self._store.on_commit(lambda failure: self._after_commit(ref, failure))

    def _after_commit(self, ref: ObjectRef, failure: StoreError | None) -> None:
        """What could not be stored has to be done again, when there may be room."""
        if failure is None:
            return
        logger.warning("garbage collection of %s %s is tried again: %s", *ref, failure)
        self._swept.clear()
        try:
            asyncio.get_running_loop().call_later(SECONDS_TO_NEXT_TRY, self._queue.add, ref)
        except RuntimeError:
            self._queue.add(ref)

    def _on_change(self, change: Change) -> None:
        ref = (change.resource, change.key)
        if change.after is None:
            self._on_deleted(ref, change.before or b"")
            return
        is_going = b'"deletionTimestamp"' in change.after
        if is_going or b'"ownerReferences"' in change.after:
            self._queue.add(ref)
        if change.before is not None and b'"ownerReferences"' in change.before:
            self._on_disowned(change.key, change.before, change.after)
        if is_going and change.resource in ("namespaces", DEFINITIONS):
            self._emptying.add(ref)
        if is_going and change.before is not None and b'"finalizers"' in change.before:
            # The conditions of its namespace name the finalizers that remain.
            self._look_again_at_namespace(change.key)

    def _on_disowned(self, key: str, before: bytes, after: bytes) -> None:
        """An owner that waits for this object may have to wait no longer."""
        now = decode_owners(after).metadata.owner_references
        for reference in decode_owners(before).metadata.owner_references:
            if reference not in now:
                owner = self._owner_ref(reference, key.rpartition("/")[0])
                if owner is not None:
                    self._queue.add(owner)

    def _on_deleted(self, ref: ObjectRef, body: bytes) -> None:
        head = decode_owners(body).metadata
        self._swept.discard(head.uid)
        for dependent in self._store.owned_by(head.uid):
            self._queue.add(dependent)
        for reference in head.owner_references:
            owner = self._owner_ref(reference, ref[1].rpartition("/")[0])
            if owner is not None:
                self._queue.add(owner)
        self._emptying.discard(ref)
        resource, key = ref
        for waiting in (("namespaces", key.partition("/")[0]), (DEFINITIONS, resource)):
            if waiting in self._emptying:
                self._queue.add(waiting)

    def _look_again_at_namespace(self, key: str) -> None:
        namespace = ("namespaces", key.partition("/")[0])
        if namespace in self._emptying:
            self._queue.add(namespace)

    def _look_at(self, ref: ObjectRef) -> None:
        resource, key = ref
        kind = self._lifecycle.registry.find_by_resource(resource)
        body = self._store.get(resource, key)
        if kind is None or body is None:
            return
        obj = bodies.decode_stored(body)
        meta = obj["metadata"]
        if "deletionTimestamp" in meta:
            self._finish(kind, obj)
        elif meta.get("ownerReferences"):
            self._check_owners(kind, obj)

    def _finish(self, kind: Kind, obj: Object) -> None:
        """Do what an object that is going waits for."""
        finalizers = obj["metadata"].get("finalizers", ())
        if kind.resource == "namespaces":
            self._emptying.add(("namespaces", obj["metadata"]["name"]))
            self._empty_namespace(kind, obj)
        elif definitions.CLEANUP in finalizers:
            self._emptying.add((DEFINITIONS, obj["metadata"]["name"]))
            self._empty_definition(kind, obj)
        elif FOREGROUND in finalizers:
            self._delete_dependents(kind, obj)
        elif ORPHAN in finalizers:
            self._orphan_dependents(kind, obj)

    def _delete_dependents(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if uid not in self._swept:
            for dependent, other in self._dependents(uid):
                if "deletionTimestamp" not in other["metadata"]:
                    self._check_owners(dependent, other)
            # Those who come later are looked at when they come.
            self._swept.add(uid)
        if not any(_blocks(other["metadata"], uid) for _, other in self._dependents(uid)):
            self._drop_finalizer(kind, obj, FOREGROUND)

    def _orphan_dependents(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent, other in self._dependents(uid):
            self._drop_owners(dependent, other, {uid})
        self._drop_finalizer(kind, obj, ORPHAN)

    def _dependents(self, uid: str) -> Iterator[tuple[Kind, Object]]:
        for resource, key in self._store.owned_by(uid):
            kind = self._lifecycle.registry.find_by_resource(resource)
            body = self._store.get(resource, key)
            if kind is not None and body is not None:
                yield kind, bodies.decode_stored(body)

    def _check_owners(self, kind: Kind, obj: Object) -> None:
        """Delete an object that nobody owns any more; of several owners, forget those who are gone or go."""
        meta = obj["metadata"]
        references = decode_owners(bodies.encode(obj)).metadata.owner_references
        states = {one.uid: self._state_of(one, meta.get("namespace", "")) for one in references}
        leaving = {uid for uid, state in states.items() if state != "here"}
        if not leaving:
            return
        if len(leaving) < len(states):
            self._drop_owners(kind, obj, leaving)
            return
        is_awaited = "waits" in states.values()
        policy = self._policy_to_follow(meta) if is_awaited else self._policy_of(meta)
        options = DeleteOptions(propagation=policy, uid=meta["uid"])
        self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)

    def _policy_to_follow(self, meta: Object) -> str:
        """How a dependent for which its owner waits is deleted: so that those who depend on it go before it, too.

        Unless one of them waits itself. Then they wait in a circle, and somebody has to go first.
        """
        waiting = [_is_waiting(other["metadata"]) for _, other in self._dependents(meta["uid"])]
        return "Foreground" if waiting and not any(waiting) else self._policy_of(meta)

    def _policy_of(self, meta: Object) -> str:
        finalizers = meta.get("finalizers", ())
        if ORPHAN in finalizers:
            return "Orphan"
        return "Foreground" if FOREGROUND in finalizers else "Background"

    def _state_of(self, reference: OwnerReference, namespace: str) -> str:
        """Of an owner: "here", "gone", or "waits" until its dependents are gone."""
        ref = self._owner_ref(reference, namespace)
        if ref is None:
            # Nobody can tell whether it is there. It is not taken for gone.
            return "here"
        body = self._store.get(*ref)
        if body is None:
            return "gone"
        meta = bodies.decode_stored(body)["metadata"]
        if meta["uid"] != reference.uid:
            return "gone"
        return "waits" if _is_waiting(meta) else "here"

    def _owner_ref(self, reference: OwnerReference, namespace: str) -> ObjectRef | None:
        """Where an owner stands: in the namespace of its dependent, or in none. None: there is no telling."""
        kind = self._lifecycle.registry.find_by_kind(reference.api_version, reference.kind)
        if kind is None or (kind.namespaced and not namespace):
            return None
        return kind.resource, object_key(namespace if kind.namespaced else "", reference.name)

    def _drop_owners(self, kind: Kind, obj: Object, uids: set[str]) -> None:
        def without(old: Object) -> Object:
            kept = [one for one in old["metadata"].get("ownerReferences", ()) if one["uid"] not in uids]
            return metadata.with_metadata_list(old, "ownerReferences", kept)

        meta = obj["metadata"]
        self._lifecycle.amend(kind, meta.get("namespace", ""), meta["name"], without)

    def _drop_finalizer(self, kind: Kind, obj: Object, finalizer: str) -> None:
        def without(old: Object) -> Object:
            kept = [one for one in old["metadata"].get("finalizers", ()) if one != finalizer]
            return metadata.with_metadata_list(old, "finalizers", kept)

        meta = obj["metadata"]
        self._lifecycle.amend(kind, meta.get("namespace", ""), meta["name"], without)

    def _empty_namespace(self, kind: Kind, obj: Object) -> None:
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        inside = [other for other in self._lifecycle.registry.stored if other.namespaced]
        if uid not in self._swept:
            for other in inside:
                self._delete_all(other, name)
            # Nothing new comes into a namespace that is going.
            self._swept.add(uid)
        counts = [self._store.count(other.resource, name) for other in inside]
        if sum(counts) > _MANY:
            # What remains of so many is told when there are fewer.
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
        self._drop_finalizer(kind, obj, definitions.CLEANUP)

    def _delete_all(self, kind: Kind, namespace: str) -> None:
        for body in self._store.all(kind.resource, namespace):
            meta = bodies.decode_stored(body)["metadata"]
            if "deletionTimestamp" not in meta:
                options = DeleteOptions(uid=meta["uid"], propagation="Background")
                self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)


def _blocks(meta: Object, owner: str) -> bool:
    """Must an object be gone before its owner goes? Not if it is its own."""
    return meta["uid"] != owner and any(
        one.get("uid") == owner and one.get("blockOwnerDeletion") for one in meta.get("ownerReferences", ())
    )


def _is_waiting(meta: Object) -> bool:
    """Does an object wait until its dependents are gone?"""
    return "deletionTimestamp" in meta and FOREGROUND in meta.get("finalizers", ())
