"""The scheduler: assigns a node to every pending pod.

It watches all changes and caches the free resources of each node, so that a decision does not read other pods. Pods are
scheduled one at a time. Unschedulable pods are retried when resources are released, or a node or claim changes, one of
each group in `pending_pods`. New decisions have priority over reports of unschedulable pods. The cache is derived from
stored objects: after a restart or a failed write it is rebuilt from all pods and nodes.
"""

import logging
from collections.abc import Callable

import msgspec

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds import pods
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.controllers import work_queue
from windlass.localcluster.controllers.volumes import claim_names
from windlass.localcluster.controllers.work_queue import ControlLoop
from windlass.localcluster.events import EventRecorder
from windlass.localcluster.scheduler import decision, filters, gpus, node_resources
from windlass.localcluster.scheduler.node_resources import SchedulerCache
from windlass.localcluster.scheduler.pending_pods import PendingPod, PendingPods
from windlass.localcluster.store_types import Change, StoreError, object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
_NODES = "nodes"
_CLAIMS = "persistentvolumeclaims"
_POD_SCHEDULED = "PodScheduled"
_RETRY_SECONDS = 1.0
# Maximum number of decisions per iteration of the event loop. Most are quick and write nothing.
_MAX_DECISIONS_PER_STEP = 50


class Scheduler(ControlLoop):
    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__()
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._pod_kind = lifecycle.registry.built_in(_PODS)
        self._events = EventRecorder(lifecycle, decision.SCHEDULER, f"{decision.SCHEDULER}-windlass")
        self._cache = SchedulerCache()
        self._pending = PendingPods()
        self._must_retry_all = False
        # Results for unschedulable pods by equivalence key, valid for one version of the cache.
        self._unschedulable: dict[bytes, decision.Unschedulable] = {}
        self._unschedulable_version = 0
        self._arrival_count = 0
        self._is_rebuild_scheduled = False
        self._store.listen(self._on_change)
        self._rebuild()

    @property
    def has_work(self) -> bool:
        return self._pending.has_active or self._pending.has_unreported or self._must_retry_all

    def step(self) -> None:
        """Try at most _MAX_DECISIONS_PER_STEP groups of pods, until a pod gets a node or an error occurs.

        Then report one unschedulable pod.
        """
        if self._must_retry_all:
            self._must_retry_all = False
            self._pending.activate_all()
        for _ in range(_MAX_DECISIONS_PER_STEP):
            if not self._pending.has_active or self._schedule_next():
                break
        unreported = self._pending.take_unreported()
        if unreported is not None:
            key, message = unreported
            self._attempt(key, lambda pending: self._report_unschedulable(key, pending, message))

    def _schedule_next(self) -> bool:
        """Try the oldest pod of the next group, and return whether it got a node or an error occurred."""
        group = self._pending.take(self._cache.capacity)
        key = group.oldest

        def place(pending: PendingPod) -> bool:
            match self._choose_node(pending):
                case decision.Placed(node):
                    self._bind(key, pending, node)
                    self._pending.on_placed(group)
                    return True
                case decision.Unschedulable(message):
                    self._pending.on_unschedulable(group, message)
                    return False

        return self._attempt(key, place)

    def _attempt(self, key: str, act: Callable[[PendingPod], bool]) -> bool:
        """Call `act` and handle its errors. Return its result (whether it wrote something), or True after an error."""
        pending = self._pending.get(key)
        if pending is None:
            return False
        try:
            has_written = act(pending)
        except StoreError as error:
            self._after_commit(error)
            return True
        except ApiError as error:
            # 404 or 409: the pod was deleted or got a node, and the change event is still to come.
            if error.code not in (404, 409):
                logger.warning("cannot schedule pod %s: %s", key, error.message)
            self._pending.drop(key)
            has_written = True
        except Exception:
            logger.exception("scheduling of pod %s failed", key)
            self._pending.drop(key)
            has_written = True
        # The result may depend on uncommitted writes, including those of other components.
        if not self._store.is_committed:
            self._store.on_commit(self._after_commit)
        return has_written

    def _choose_node(self, pending: PendingPod) -> decision.Outcome:
        if self._unschedulable_version != self._cache.version:
            self._unschedulable.clear()
            self._unschedulable_version = self._cache.version
        blocking_reason = self._blocking_reason(pending.pod)
        cached = None if blocking_reason else self._unschedulable.get(pending.equivalence_key)
        if cached is not None:
            return cached
        outcome = decision.choose(pending.pod_info, self._cache.node_infos, blocking_reason)
        if isinstance(outcome, decision.Unschedulable) and not blocking_reason:
            self._unschedulable[pending.equivalence_key] = outcome
        return outcome

    def _blocking_reason(self, pod: Json) -> str:
        namespace = pod["metadata"]["namespace"]
        for name in claim_names(pod["spec"]):
            body = self._store.get(_CLAIMS, object_key(namespace, name))
            found = filters.claim_blocking_reason(name, None if body is None else bodies.decode_stored(body))
            if found:
                return found
        return ""

    # Writing

    def _bind(self, key: str, pending: PendingPod, node: str) -> None:
        def bind_if_same(pod: Json) -> Json:
            # Another pod may have this name by now.
            is_the_same = pod["metadata"]["uid"] == pending.uid
            return pods.bind(pod, node, annotations, self._lifecycle) if is_the_same else pod

        annotations = self._gpu_annotation(pending, node)
        meta = pending.pod["metadata"]
        written = self._lifecycle.amend(self._pod_kind, meta["namespace"], meta["name"], bind_if_same)
        pod = bodies.decode_stored(written.body)
        # Update the cache at once: the next decision may come before the change event.
        self._pending.remove(key)
        self._cache.update_pod(key, pod)
        if pod["spec"].get("nodeName") == node:
            message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
            self._events.record_series(pod, "Normal", "Scheduled", "Binding", message)

    def _gpu_annotation(self, pending: PendingPod, node: str) -> dict[str, str]:
        chosen = self._cache.node_info(node).choose_gpus(pending.pod_info.requests)
        return {gpus.ANNOTATION: gpus.format_gpus(chosen)} if chosen else {}

    def _report_unschedulable(self, key: str, pending: PendingPod, message: str) -> bool:
        def report_if_same(pod: Json) -> Json:
            is_the_same = pod["metadata"]["uid"] == pending.uid
            return _with_condition(pod, message, self._lifecycle.now()) if is_the_same else pod

        meta = pending.pod["metadata"]
        self._lifecycle.amend(self._pod_kind, meta["namespace"], meta["name"], report_if_same)
        self._pending.update(key, msgspec.structs.replace(pending, last_message=message))
        self._events.record_series(pending.pod, "Warning", "FailedScheduling", "Scheduling", message)
        return True

    def _after_commit(self, failure: StoreError | None) -> None:
        """Rebuild the cache later if a commit failed: the writes are lost."""
        if failure is None or self._is_rebuild_scheduled:
            return
        logger.warning("scheduling is retried: %s", failure)
        self._is_rebuild_scheduled = True
        work_queue.call_later(_RETRY_SECONDS, self._rebuild)

    # Change events

    def _rebuild(self) -> None:
        self._is_rebuild_scheduled = False
        self._cache = SchedulerCache()
        self._pending = PendingPods()
        for body in self._store.all(_NODES):
            self._cache.update_node(bodies.decode_stored(body))
        for body in self._store.all(_PODS):
            pod = bodies.decode_stored(body)
            self._update_pod(object_key(pod["metadata"]["namespace"], pod["metadata"]["name"]), pod)
        self._unschedulable.clear()
        self._retry_all()

    def _on_change(self, change: Change) -> None:
        if change.resource == _PODS:
            self._on_pod(change)
        elif change.resource == _NODES:
            self._on_node(change)
        elif change.resource == _CLAIMS:
            self._retry_all()

    def _on_pod(self, change: Change) -> None:
        if change.after is None:
            self._pending.remove(change.key)
            has_released = self._cache.remove_pod(change.key)
        else:
            has_released = self._update_pod(change.key, bodies.decode_stored(change.after))
        if has_released:
            self._retry_all()

    def _on_node(self, change: Change) -> None:
        if change.after is None:
            affects_scheduling = self._cache.remove_node(change.key)
        else:
            affects_scheduling = self._cache.update_node(bodies.decode_stored(change.after))
        if affects_scheduling:
            self._retry_all()

    def _update_pod(self, key: str, pod: Json) -> bool:
        if decision.needs_scheduling(pod):
            self._update_pending(key, pod)
        else:
            self._pending.remove(key)
        return self._cache.update_pod(key, pod)

    def _update_pending(self, key: str, pod: Json) -> None:
        previous = self._pending.get(key)
        pod_info = node_resources.pod_info_of(pod)
        arrival = self._arrival_count if previous is None else previous.arrival
        self._arrival_count += 1
        equivalence_key = decision.equivalence_key(pod_info)
        self._pending.update(
            key, PendingPod(pod, pod_info, equivalence_key, _unschedulable_message(pod), arrival)
        )
        self._wake_event.set()

    def _retry_all(self) -> None:
        self._must_retry_all = True
        self._wake_event.set()


def _unschedulable_message(pod: Json) -> str:
    """Return the message of the PodScheduled condition if its reason is Unschedulable; else empty."""
    found = _scheduled_condition(pod)
    return str(found.get("message", "")) if found.get("reason") == "Unschedulable" else ""


def _with_condition(pod: Json, message: str, now: str) -> Json:
    """Return the pod with a PodScheduled condition that contains the message."""
    former = _scheduled_condition(pod)
    was_false = former.get("status") == "False"
    condition = {
        "type": _POD_SCHEDULED,
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": former.get("lastTransitionTime", now) if was_false else now,
        "reason": "Unschedulable",
        "message": message,
    }
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one.get("type") != _POD_SCHEDULED]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _scheduled_condition(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == _POD_SCHEDULED), {})
