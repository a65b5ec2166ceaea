"""The loop that keeps workloads going: it hears of every change, and looks at one workload after the other.

A pod's change concerns whatever controls it. A pod that nobody controls may be adopted by a workload whose selector
finds it. Where there are no workloads, a change costs a look for a word in it and nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from windlass.k8s import label_selectors
from windlass.k8s.api_errors import ApiError
from windlass.k8s.metadata import decode_owners
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.controllers import loops
from windlass.localcluster.controllers.loops import ObjectRef
from windlass.localcluster.controllers.workloads import (
    deployments,
    jobs,
    observed,
    replica_sets,
    stateful_sets,
    templates,
)
from windlass.localcluster.controllers.workloads.decisions import Decision
from windlass.localcluster.controllers.workloads.executor import Actor, RefusedError
from windlass.localcluster.controllers.workloads.observed import Pod
from windlass.localcluster.store_types import Change, StoreError, object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
# As they are stored. Looking for them is much cheaper than reading an object.
_CONTROLLED = b'"controller":true'
_TRACKED = f'"{observed.TRACKING}"'.encode()
_SECONDS_TO_NEXT_TRY = 1.0
_SECONDS_AFTER_REFUSAL = 10.0

Decide = Callable[[Json, Sequence[Pod], datetime], Decision]

OF_PODS: dict[str, Decide] = {
    jobs.RESOURCE: jobs.decide,
    replica_sets.RESOURCE: replica_sets.decide,
    stateful_sets.RESOURCE: stateful_sets.decide,
}
"""For each kind whose dependents are pods, what decides for it."""

KINDS = (*OF_PODS, deployments.RESOURCE)


class Workloads:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._actor = Actor(lifecycle)
        self._queue = loops.Queue()
        self._timers: dict[ObjectRef, asyncio.TimerHandle] = {}
        self._store.listen(self._on_change)
        self._look_at_all()

    async def run(self) -> None:
        try:
            await loops.work_off(self, self._queue.news)
        finally:
            for timer in self._timers.values():
                timer.cancel()

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def step(self) -> None:
        """Look at one workload, or at one pod that nobody controls."""
        ref = self._queue.take()
        try:
            self._look_at(ref)
        except ApiError as error:
            logger.warning("%s %s: %s", *ref, error.message)
            self._later(ref, _SECONDS_AFTER_REFUSAL)
        except StoreError as error:
            self._after_commit(ref, error)
        except Exception:
            logger.exception("%s %s could not be looked after", *ref)
        if not self._store.is_committed:
            self._store.on_commit(lambda failure: self._after_commit(ref, failure))

    def _after_commit(self, ref: ObjectRef, failure: StoreError | None) -> None:
        """What could not be stored has to be done again, when there may be room."""
        if failure is not None:
            logger.warning("%s %s is looked at again: %s", *ref, failure)
            self._later(ref, _SECONDS_TO_NEXT_TRY)

    # Hearing

    def _look_at_all(self) -> None:
        for resource in KINDS:
            for body in self._store.all(resource):
                meta = bodies.decode_stored(body)["metadata"]
                self._queue.add((resource, object_key(meta["namespace"], meta["name"])))
        for key in self._tracked():
            self._queue.add((_PODS, key))

    def _tracked(self) -> Iterator[str]:
        """Pods that wait to be counted; by a Job, if that is still there."""
        found = self._store.containing(f'"{observed.TRACKING}"')
        return (key for resource, key in found if resource == _PODS)

    def _on_change(self, change: Change) -> None:
        if change.resource == _PODS:
            self._on_pod(change)
        elif change.resource in KINDS:
            self._on_workload(change)

    def _on_pod(self, change: Change) -> None:
        for owner in {*self._owners(change.before, change.key), *self._owners(change.after, change.key)}:
            self._queue.add(owner)
        if change.after is None:
            return
        is_orphan = _CONTROLLED not in change.after and self._is_anything_there()
        if is_orphan or self._waits_for_nobody(change.after, change.key):
            self._queue.add((_PODS, change.key))

    def _waits_for_nobody(self, body: bytes, key: str) -> bool:
        """Is it to be counted by a Job that is gone?"""
        if _TRACKED not in body:
            return False
        return all(self._store.get(*owner) is None for owner in self._owners(body, key))

    def _on_workload(self, change: Change) -> None:
        ref = (change.resource, change.key)
        for owner in {*self._owners(change.before, change.key), *self._owners(change.after, change.key)}:
            self._queue.add(owner)
        if change.after is not None:
            self._queue.add(ref)
        if change.before is None:
            self._look_for_orphans(change.key.partition("/")[0])
        if change.after is None:
            self._forget_timer(ref)
            uid = bodies.decode_stored(change.before or b"")["metadata"]["uid"]
            for dependent in self._store.owned_by(uid):
                if dependent[0] == _PODS:
                    self._queue.add(dependent)

    def _look_for_orphans(self, namespace: str) -> None:
        for body in self._store.all(_PODS, namespace):
            if _CONTROLLED not in body:
                self._queue.add((_PODS, object_key(namespace, observed.pod(body).name)))

    def _owners(self, body: bytes | None, key: str) -> Iterator[ObjectRef]:
        """The workload that controls an object."""
        if body is None or _CONTROLLED not in body:
            return
        for reference in decode_owners(body).metadata.owner_references:
            kind = self._lifecycle.registry.find_by_kind(reference.api_version, reference.kind)
            if reference.controller and kind is not None and kind.resource in KINDS:
                yield kind.resource, object_key(key.partition("/")[0], reference.name)

    def _is_anything_there(self) -> bool:
        return any(self._store.count(resource) for resource in OF_PODS)

    # Waiting

    def _wake(self, ref: ObjectRef, at: datetime | None) -> None:
        self._forget_timer(ref)
        if at is not None:
            # Times are written in whole seconds: a little late is never early.
            self._later(ref, max((at - self._lifecycle.clock()).total_seconds(), 0.0) + 0.01)

    def _later(self, ref: ObjectRef, seconds: float) -> None:
        self._forget_timer(ref)
        try:
            self._timers[ref] = asyncio.get_running_loop().call_later(seconds, self._wake_up, ref)
        except RuntimeError:
            self._queue.add(ref)

    def _wake_up(self, ref: ObjectRef) -> None:
        self._timers.pop(ref, None)
        self._queue.add(ref)

    def _forget_timer(self, ref: ObjectRef) -> None:
        timer = self._timers.pop(ref, None)
        if timer is not None:
            timer.cancel()

    # Looking

    def _look_at(self, ref: ObjectRef) -> None:
        resource, key = ref
        body = self._store.get(resource, key)
        if body is None:
            return
        if resource == _PODS:
            self._look_at_orphan(bodies.decode_stored(body))
            return
        workload = bodies.decode_stored(body)
        kind = self._actor.kind(resource)
        decision = self._decision(resource, workload)
        self._wake(ref, decision.wake_at)
        try:
            self._actor.perform(kind, workload, decision)
        except RefusedError as refusal:
            self._actor.tell(kind, workload, "Warning", "FailedCreate", str(refusal))
            self._later(ref, _SECONDS_AFTER_REFUSAL)

    def _decision(self, resource: str, workload: Json) -> Decision:
        now = self._lifecycle.clock()
        if resource == deployments.RESOURCE:
            return deployments.decide(workload, self._replica_sets_of(workload), now)
        return OF_PODS[resource](workload, self._pods_of(workload), now)

    def _replica_sets_of(self, deployment: Json) -> list[Json]:
        owned = self._store.owned_by(deployment["metadata"]["uid"])
        found = (self._store.get(*ref) for ref in owned if ref[0] == replica_sets.RESOURCE)
        return [bodies.decode_stored(body) for body in found if body is not None]

    def _pods_of(self, workload: Json) -> list[Pod]:
        """Those that it controls, in the order of their creation."""
        uid = workload["metadata"]["uid"]
        found = (self._store.get(*ref) for ref in self._store.owned_by(uid) if ref[0] == _PODS)
        pods = [observed.pod(body) for body in found if body is not None]
        mine = [pod for pod in pods if pod.controller == uid and not self._is_released(workload, pod)]
        return sorted(mine, key=lambda pod: (pod.created, pod.name))

    def _is_released(self, workload: Json, pod: Pod) -> bool:
        """Somebody took away the labels by which its owner knows it, to have it apart."""
        is_known = label_selectors.from_object(workload["spec"]["selector"]).matches(pod.labels)
        if is_known or pod.is_going:
            return False
        meta = workload["metadata"]
        self._actor.release(pod, meta["namespace"], meta["uid"])
        return True

    def _look_at_orphan(self, pod: Json) -> None:
        """Somebody may adopt it. If nobody ever counts it, it must not wait for that."""
        meta = pod["metadata"]
        namespace, references = meta["namespace"], meta.get("ownerReferences", ())
        controller = next((one for one in references if one.get("controller")), None)
        if controller is None and "deletionTimestamp" not in meta:
            heir = next(self._heirs(meta), None)
            if heir is not None:
                self._actor.adopt(pod, templates.owner_reference(heir))
                return
        is_owned = controller is not None and self._is_there(namespace, controller)
        if observed.TRACKING in meta.get("finalizers", ()) and not is_owned:
            self._actor.untrack(namespace, meta["name"], meta["uid"])

    def _heirs(self, meta: Json) -> Iterator[Json]:
        for resource in OF_PODS:
            for body in self._store.all(resource, meta["namespace"]):
                workload = bodies.decode_stored(body)
                is_going = "deletionTimestamp" in workload["metadata"]
                has_its_name = resource != stateful_sets.RESOURCE or stateful_sets.may_own(
                    workload, meta["name"]
                )
                labels = meta.get("labels") or {}
                is_known = label_selectors.from_object(workload["spec"]["selector"]).matches(labels)
                if is_known and has_its_name and not is_going:
                    yield workload

    def _is_there(self, namespace: str, reference: Json) -> bool:
        kind = self._lifecycle.registry.find_by_kind(reference["apiVersion"], reference["kind"])
        body = kind and self._store.get(kind.resource, object_key(namespace, reference["name"]))
        return bool(body) and bodies.decode_stored(body or b"")["metadata"]["uid"] == reference["uid"]
