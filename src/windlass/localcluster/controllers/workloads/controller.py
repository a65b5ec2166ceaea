"""The workload controller: watches all changes and reconciles one workload at a time.

A change of a pod enqueues the workload that controls it. An orphaned pod may be adopted by a workload that selects it.
If there are no workloads, a pod without a controller and without the tracking finalizer is not decoded when it changes:
its JSON is only searched for two texts.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from windlass.k8s import label_selectors
from windlass.k8s.api_errors import ApiError
from windlass.k8s.metadata import decode_owners
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.controllers import work_queue
from windlass.localcluster.controllers.work_queue import ObjectRef, QueueController
from windlass.localcluster.controllers.workloads import (
    deployments,
    jobs,
    observed,
    replica_sets,
    stateful_sets,
    templates,
)
from windlass.localcluster.controllers.workloads.decisions import Decision
from windlass.localcluster.controllers.workloads.executor import CreateRejectedError, Executor
from windlass.localcluster.controllers.workloads.observed import Pod
from windlass.localcluster.store_types import Change, object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
# Texts in the JSON of stored objects. Searching for a text is much cheaper than decoding an object.
_CONTROLLED = b'"controller":true'
_TRACKED = f'"{observed.TRACKING}"'.encode()
_RETRY_SECONDS = 1.0
_REJECTED_RETRY_SECONDS = 10.0

Decide = Callable[[Json, Sequence[Pod], datetime], Decision]

DECIDE_BY_RESOURCE: dict[str, Decide] = {
    jobs.RESOURCE: jobs.decide,
    replica_sets.RESOURCE: replica_sets.decide,
    stateful_sets.RESOURCE: stateful_sets.decide,
}
"""The function that decides what to do with a workload, for each resource that controls pods."""

RESOURCES = (*DECIDE_BY_RESOURCE, deployments.RESOURCE)


class WorkloadController(QueueController):
    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__(lifecycle.store)
        self._lifecycle = lifecycle
        self._executor = Executor(lifecycle)
        self._timers: dict[ObjectRef, asyncio.TimerHandle] = {}
        self._store.listen(self._on_change)
        self._enqueue_all()

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def _on_rejected(self, ref: ObjectRef, error: ApiError) -> None:
        logger.warning("%s %s: %s", *ref, error.message)
        self._requeue_after(ref, _REJECTED_RETRY_SECONDS)

    def _retry(self, ref: ObjectRef) -> None:
        self._requeue_after(ref, _RETRY_SECONDS)

    # Change events

    def _enqueue_all(self) -> None:
        for resource in RESOURCES:
            for body in self._store.all(resource):
                meta = bodies.decode_stored(body)["metadata"]
                self._enqueue((resource, object_key(meta["namespace"], meta["name"])))
        # Pods with the tracking finalizer, including those whose Job has been deleted.
        for resource, key in self._store.containing(_TRACKED.decode()):
            if resource == _PODS:
                self._enqueue((_PODS, key))

    def _on_change(self, change: Change) -> None:
        if change.resource != _PODS and change.resource not in RESOURCES:
            return
        for owner in {*self._owners(change.before, change.key), *self._owners(change.after, change.key)}:
            self._enqueue(owner)
        if change.resource == _PODS:
            self._on_pod(change)
        else:
            self._on_workload(change)

    def _on_pod(self, change: Change) -> None:
        if change.after is None:
            return
        is_adoptable = _CONTROLLED not in change.after and self._has_adopters()
        if is_adoptable or self._is_tracked_orphan(change.after, change.key):
            self._enqueue((_PODS, change.key))

    def _is_tracked_orphan(self, body: bytes, key: str) -> bool:
        """Return whether a pod has the tracking finalizer, but no existing workload controls it."""
        if _TRACKED not in body:
            return False
        return all(self._store.get(*owner) is None for owner in self._owners(body, key))

    def _on_workload(self, change: Change) -> None:
        ref = (change.resource, change.key)
        if change.after is not None:
            self._enqueue(ref)
        if change.before is None:
            self._enqueue_orphans(change.key.partition("/")[0])
        if change.after is None:
            self._cancel_timer(ref)
            uid = bodies.decode_stored(change.before or b"")["metadata"]["uid"]
            for dependent in self._store.owned_by(uid):
                if dependent[0] == _PODS:
                    self._enqueue(dependent)

    def _enqueue_orphans(self, namespace: str) -> None:
        for body in self._store.all(_PODS, namespace):
            if _CONTROLLED not in body:
                self._enqueue((_PODS, object_key(namespace, observed.pod(body).name)))

    def _owners(self, body: bytes | None, key: str) -> Iterator[ObjectRef]:
        """Yield the workloads that control an object."""
        if body is None or _CONTROLLED not in body:
            return
        for reference in decode_owners(body).metadata.owner_references:
            kind = self._lifecycle.registry.find_by_kind(reference.api_version, reference.kind)
            if reference.controller and kind is not None and kind.resource in RESOURCES:
                yield kind.resource, object_key(key.partition("/")[0], reference.name)

    def _has_adopters(self) -> bool:
        return any(self._store.count(resource) for resource in DECIDE_BY_RESOURCE)

    # Timers

    def _set_timer(self, ref: ObjectRef, at: datetime | None) -> None:
        self._cancel_timer(ref)
        if at is not None:
            # Stored times are whole seconds: wake up late rather than early.
            self._requeue_after(ref, max((at - self._lifecycle.clock()).total_seconds(), 0.0) + 0.01)

    def _requeue_after(self, ref: ObjectRef, seconds: float) -> None:
        self._cancel_timer(ref)
        timer = work_queue.call_later(seconds, self._wake_up, ref)
        if timer is not None:
            self._timers[ref] = timer

    def _wake_up(self, ref: ObjectRef) -> None:
        self._timers.pop(ref, None)
        self._enqueue(ref)

    def _cancel_timer(self, ref: ObjectRef) -> None:
        timer = self._timers.pop(ref, None)
        if timer is not None:
            timer.cancel()

    # Reconciling

    def _reconcile(self, ref: ObjectRef) -> None:
        resource, key = ref
        body = self._store.get(resource, key)
        if body is None:
            return
        if resource == _PODS:
            self._reconcile_pod(bodies.decode_stored(body))
            return
        workload = bodies.decode_stored(body)
        kind = self._lifecycle.registry.built_in(resource)
        decision = self._decision(resource, workload)
        self._set_timer(ref, decision.wake_at)
        try:
            self._executor.apply(kind, workload, decision)
        except CreateRejectedError as error:
            self._executor.record_event(kind, workload, "Warning", "FailedCreate", str(error))
            self._requeue_after(ref, _REJECTED_RETRY_SECONDS)

    def _decision(self, resource: str, workload: Json) -> Decision:
        now = self._lifecycle.clock()
        if resource == deployments.RESOURCE:
            return deployments.decide(workload, self._replica_sets_of(workload), now)
        return DECIDE_BY_RESOURCE[resource](workload, self._pods_of(workload), now)

    def _replica_sets_of(self, deployment: Json) -> list[Json]:
        owned = self._store.owned_by(deployment["metadata"]["uid"])
        found = (self._store.get(*ref) for ref in owned if ref[0] == replica_sets.RESOURCE)
        return [bodies.decode_stored(body) for body in found if body is not None]

    def _pods_of(self, workload: Json) -> list[Pod]:
        """Release pods that a workload no longer selects, and return its other pods in order of creation."""
        uid = workload["metadata"]["uid"]
        found = (self._store.get(*ref) for ref in self._store.owned_by(uid) if ref[0] == _PODS)
        pods = [observed.pod(body) for body in found if body is not None]
        own = [pod for pod in pods if pod.controller == uid]
        selected = [pod for pod in own if not self._release_if_unselected(workload, pod)]
        return sorted(selected, key=lambda pod: (pod.created, pod.name))

    def _release_if_unselected(self, workload: Json, pod: Pod) -> bool:
        """Release a pod that is no longer selected, unless it is terminating. Return whether it was released."""
        if _selects(workload, pod.labels) or pod.is_terminating:
            return False
        meta = workload["metadata"]
        self._executor.release(pod, meta["namespace"], meta["uid"])
        return True

    def _reconcile_pod(self, pod: Json) -> None:
        """Let a workload adopt the pod; otherwise remove the tracking finalizer unless the pod's controller exists."""
        meta = pod["metadata"]
        namespace, references = meta["namespace"], meta.get("ownerReferences", ())
        controller = next((one for one in references if one.get("controller")), None)
        if controller is None and "deletionTimestamp" not in meta:
            adopter = next(self._adopters(meta), None)
            if adopter is not None:
                self._executor.adopt(pod, templates.owner_reference(adopter))
                return
        is_owned = controller is not None and self._owner_exists(namespace, controller)
        if observed.TRACKING in meta.get("finalizers", ()) and not is_owned:
            self._executor.untrack(namespace, meta["name"], meta["uid"])

    def _adopters(self, meta: Json) -> Iterator[Json]:
        for resource in DECIDE_BY_RESOURCE:
            for body in self._store.all(resource, meta["namespace"]):
                workload = bodies.decode_stored(body)
                if "deletionTimestamp" in workload["metadata"]:
                    continue
                if resource == stateful_sets.RESOURCE and not stateful_sets.may_own(workload, meta["name"]):
                    continue
                if _selects(workload, meta.get("labels") or {}):
                    yield workload

    def _owner_exists(self, namespace: str, reference: Json) -> bool:
        kind = self._lifecycle.registry.find_by_kind(reference["apiVersion"], reference["kind"])
        body = kind and self._store.get(kind.resource, object_key(namespace, reference["name"]))
        return bool(body) and bodies.decode_stored(body or b"")["metadata"]["uid"] == reference["uid"]


def _selects(workload: Json, labels: Mapping[str, str]) -> bool:
    return label_selectors.from_object(workload["spec"]["selector"]).matches(labels)
