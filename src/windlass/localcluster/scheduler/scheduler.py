"""The scheduler: finds a node for every pod that has none.

It hears of every change and keeps in memory what each node has left, so that a decision costs no look at other pods.
One pod after the other is decided. What fits nowhere rests, and is looked at again when something was freed or a node
changed. What is kept here follows from what is stored, so that after a restart, or after a write that failed, a look at
all pods and nodes is enough.
"""

import asyncio
import heapq
import logging

import msgspec

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds import pods
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.controllers import loops
from windlass.localcluster.events import EventRecorder
from windlass.localcluster.scheduler import claims, decision, gpus, messages, node_resources
from windlass.localcluster.scheduler.cache import Ledger
from windlass.localcluster.scheduler.node_resources import Wanted
from windlass.localcluster.store_types import Change, StoreError, object_key
from windlass.model.base import Json

logger = logging.getLogger(__name__)

_PODS = "pods"
_NODES = "nodes"
_CLAIMS = "persistentvolumeclaims"
_SECONDS_TO_NEXT_TRY = 1.0
# Between two turns of the loop. Deciding is quick, and most decisions leave everything as it is.
_MOST_DECISIONS_IN_A_TURN = 50


class _Unplaced(msgspec.Struct, frozen=True):
    """A pod without a node."""

    pod: Json
    wanted: Wanted
    shape: bytes
    # What its status says of why it has none.
    told: str
    # Who is more important comes first, then who came first.
    turn: tuple[int, int]

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])


class Scheduler:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._events = EventRecorder(lifecycle, decision.SCHEDULER, f"{decision.SCHEDULER}-windlass")
        self._ledger = Ledger()
        self._unplaced: dict[str, _Unplaced] = {}
        self._queue: list[tuple[tuple[int, int], str]] = []
        self._queued: set[str] = set()
        self._is_all_to_be_tried = False
        # Shapes of pods that fit nowhere, as of a version of the ledger.
        self._refused: dict[bytes, decision.Unschedulable] = {}
        self._refused_at = 0
        self._arrivals = 0
        self._waits_to_look_again = False
        self._news = asyncio.Event()
        self._store.listen(self._on_change)
        self._look_at_all()

    async def run(self) -> None:
        await loops.work_off(self, self._news)

    @property
    def has_work(self) -> bool:
        return bool(self._queue) or self._is_all_to_be_tried

    def step(self) -> None:
        """Decide for pods of the queue until one of them got a node or a new message."""
        if self._is_all_to_be_tried:
            self._is_all_to_be_tried = False
            for key in self._unplaced:
                self._add(key)
        for _ in range(min(len(self._queue), _MOST_DECISIONS_IN_A_TURN)):
            _, key = heapq.heappop(self._queue)
            self._queued.discard(key)
            if key in self._unplaced and self._did_act_on(key):
                return

    def _did_act_on(self, key: str) -> bool:
        try:
            acted = self._decide(key, self._unplaced[key])
        except ApiError as error:
            # It is gone, or it has a node by now: that is still to be heard of.
            if error.code not in (404, 409):
                logger.warning("scheduling of pod %s was refused: %s", key, error.message)
            self._unplaced.pop(key, None)
            return True
        except StoreError as error:
            self._after_commit(error)
            return True
        except Exception:
            logger.exception("scheduling of pod %s failed", key)
            return True
        if acted and not self._store.is_committed:
            self._store.on_commit(self._after_commit)
        return acted

    def _decide(self, key: str, unplaced: _Unplaced) -> bool:
        match self._outcome(unplaced):
            case decision.Placed(node):
                self._bind(key, unplaced, node)
                return True
            case decision.Unschedulable(message):
                if message == unplaced.told:
                    return False
                self._tell(key, unplaced, message)
                return True

    def _outcome(self, unplaced: _Unplaced) -> decision.Outcome:
        if self._refused_at != self._ledger.version:
            self._refused.clear()
            self._refused_at = self._ledger.version
        blocking_reason = self._blocking_reason(unplaced.pod)
        known = None if blocking_reason else self._refused.get(unplaced.shape)
        if known is not None:
            return known
        outcome = decision.choose(unplaced.wanted, self._ledger.accounts, blocking_reason)
        if isinstance(outcome, decision.Unschedulable) and not blocking_reason:
            self._refused[unplaced.shape] = outcome
        return outcome

    def _blocking_reason(self, pod: Json) -> str:
        namespace = pod["metadata"]["namespace"]
        for name in claims.names(pod["spec"]):
            body = self._store.get(_CLAIMS, object_key(namespace, name))
            found = claims.blocking_reason(name, None if body is None else bodies.decode_stored(body))
            if found:
                return found
        return ""

    # Writing

    def _bind(self, key: str, unplaced: _Unplaced, node: str) -> None:
        def bound(pod: Json) -> Json:
            # By now it may be another pod of the same name, of which nothing was decided.
            is_the_same = pod["metadata"]["uid"] == unplaced.uid
            return pods.bind(pod, node, annotations, self._lifecycle) if is_the_same else pod

        annotations = self._gpus_for(unplaced, node)
        meta = unplaced.pod["metadata"]
        written = self._lifecycle.amend(self._kind(_PODS), meta["namespace"], meta["name"], bound)
        pod = bodies.decode_stored(written.body)
        # Without waiting to hear of it: the next decision follows at once.
        self._unplaced.pop(key, None)
        self._ledger.note_pod(key, pod)
        if pod["spec"].get("nodeName") == node:
            message = messages.bound_message(pod, node)
            self._events.record_series(pod, "Normal", "Scheduled", "Binding", message)

    def _gpus_for(self, unplaced: _Unplaced, node: str) -> dict[str, str]:
        count = unplaced.wanted.asked.amounts.get(gpus.RESOURCE, 0)
        given = self._ledger.account(node).free_gpus(count) if count else None
        return {gpus.ANNOTATION: gpus.written(given)} if given else {}

    def _tell(self, key: str, unplaced: _Unplaced, message: str) -> None:
        def told(pod: Json) -> Json:
            is_the_same = pod["metadata"]["uid"] == unplaced.uid
            return messages.with_condition(pod, message, self._lifecycle.now()) if is_the_same else pod

        meta = unplaced.pod["metadata"]
        self._lifecycle.amend(self._kind(_PODS), meta["namespace"], meta["name"], told)
        self._unplaced[key] = msgspec.structs.replace(unplaced, told=message)
        self._events.record_series(unplaced.pod, "Warning", "FailedScheduling", "Scheduling", message)

    def _kind(self, resource: str) -> Kind:
        kind = self._lifecycle.registry.stored_as(resource)
        assert kind is not None  # noqa: S101 — they stand in the table
        return kind

    def _after_commit(self, failure: StoreError | None) -> None:
        """What could not be stored is not so: all is looked at again, when there may be room."""
        if failure is None or self._waits_to_look_again:
            return
        logger.warning("pods are scheduled again: %s", failure)
        self._waits_to_look_again = True
        try:
            asyncio.get_running_loop().call_later(_SECONDS_TO_NEXT_TRY, self._look_at_all)
        except RuntimeError:
            self._look_at_all()

    # Hearing

    def _look_at_all(self) -> None:
        self._waits_to_look_again = False
        self._ledger = Ledger()
        self._unplaced.clear()
        for body in self._store.all(_NODES):
            self._ledger.note_node(bodies.decode_stored(body))
        for body in self._store.all(_PODS):
            pod = bodies.decode_stored(body)
            self._note_pod(object_key(pod["metadata"]["namespace"], pod["metadata"]["name"]), pod)
        self._refused.clear()
        self._try_all()

    def _on_change(self, change: Change) -> None:
        if change.resource == _PODS:
            self._on_pod(change)
        elif change.resource == _NODES:
            self._on_node(change)
        elif change.resource == _CLAIMS:
            self._try_all()

    def _on_pod(self, change: Change) -> None:
        if change.after is None:
            self._unplaced.pop(change.key, None)
            was_anything_freed = self._ledger.drop_pod(change.key)
        else:
            was_anything_freed = self._note_pod(change.key, bodies.decode_stored(change.after))
        if was_anything_freed:
            self._try_all()

    def _on_node(self, change: Change) -> None:
        if change.after is None:
            makes_a_difference = self._ledger.drop_node(change.key)
        else:
            makes_a_difference = self._ledger.note_node(bodies.decode_stored(change.after))
        if makes_a_difference:
            self._try_all()

    def _note_pod(self, key: str, pod: Json) -> bool:
        if decision.awaits_placement(pod):
            self._note_unplaced(key, pod)
        else:
            self._unplaced.pop(key, None)
        return self._ledger.note_pod(key, pod)

    def _note_unplaced(self, key: str, pod: Json) -> None:
        known = self._unplaced.get(key)
        wanted = node_resources.wanted_by(pod)
        new = _Unplaced(
            pod,
            wanted,
            decision.shape(wanted),
            messages.message_of(pod),
            (-wanted.asked.priority, self._arrivals) if known is None else known.turn,
        )
        self._arrivals += 1
        self._unplaced[key] = new
        # Much happens to a pod that waits, the message of why it does so among it.
        is_as_it_was = known is not None and (known.uid, known.shape) == (new.uid, new.shape)
        if not is_as_it_was:
            self._add(key)

    def _try_all(self) -> None:
        self._is_all_to_be_tried = bool(self._unplaced)
        self._news.set()

    def _add(self, key: str) -> None:
        if key not in self._queued:
            self._queued.add(key)
            heapq.heappush(self._queue, (self._unplaced[key].turn, key))
        self._news.set()
