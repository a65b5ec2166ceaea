"""Carries decisions out: store, act, record what came of it, look again.

A conflict drops the decision: somebody else has written, so what was observed was old. A crash between any two steps
loses nothing: deciding again on what is stored gives the same actions, until their outcomes are seen. What waits to be
stored is where the next decision begins.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.controller.engine import queue as queues
from windlass.controller.engine.adaptive_batching import Pace
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.expectations import Record
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.port import (
    DELETED_AT_ONCE,
    AlreadyExistsError,
    Port,
    PortError,
    RefusedError,
    UnansweredError,
)
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.related_objects import version
from windlass.decide import clear_away, decide, failures
from windlass.decide import types as decide_types
from windlass.decide.types import Action, Created, CreatePod, Decision, DeletePod, Reason, Refused, Rules
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import PodView
from windlass.model.status import TaskStatus
from windlass.objects.config_map import config_map as config_map_manifest
from windlass.objects.gang import gang as gang_manifest
from windlass.objects.pod import PodFactory, Wiring
from windlass.objects.service import service as service_manifest

LONGEST_GANG = 3.0
"""For so many seconds a large gang is created before the pods that exist by then are written down, or for longer
where that takes long."""
LONGEST_SLEEP = 600.0
"""However far a deadline is, it is looked at so often: a clock that steps would make its timer wrong."""

GATHERING_PER_TASK = 20e-6
"""Seconds. A look at ten thousand tasks costs tens of milliseconds: what happens to a large Framework within a time
that grows with its size is looked at once. A Framework of a few tasks never notices."""
SHORTEST_GATHERING = 1e-3
LONGEST_GATHERING = 0.5

ChoosePorts = Callable[[Framework], Mapping[str, int] | None]
"""Where pods share one network: a port for the first task of each role, and as many after it as the role may need.
Raises PortError when there are none."""


class Executor:
    def __init__(
        self,
        port: Port,
        cache: Cache,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        rules: Rules,
        pace: Pace | None = None,
        barrier_image: str = "",
        choose_ports: ChoosePorts | None = None,
    ) -> None:
        self._port = port
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._rules = rules
        self._pace = pace or Pace()
        self._barrier_image = barrier_image
        self._choose_ports = choose_ports
        self._waiting_since: dict[FrameworkKey, float] = {}
        self._unstored: dict[FrameworkKey, tuple[str, Decision]] = {}
        """What was decided on which version of a Framework, and waits to be stored."""
        self._store_seconds: dict[FrameworkKey, float] = {}
        """That the last store of each took."""
        self._in_doubt: dict[FrameworkKey, Decision] = {}
        """Its store was not answered, so that what is cached may be older than what is stored."""

    async def run_pass(self, key: FrameworkKey) -> None:
        """One look at one Framework. The queue sees to it that there is one at a time.

        Raises what is a bug, and only that: whoever drives it tells of it and goes on with the others.
        """
        framework = self._cache.framework(key)
        if framework is None:
            self._has_nothing_to_store(key)
            self._store_seconds.pop(key, None)
            self._in_doubt.pop(key, None)
            await self._clear_away(key)
            return
        if key in self._in_doubt and not await self._is_reread(key, framework):
            return
        framework = self._cache.framework(key) or framework
        now = self._clock.now()
        decision = self._decide(key, framework, now)
        if decision.wake_at is not None:
            self._wake(key, decision.wake_at, now)
        if not decision.actions and decision.status is not None:
            self._gather(key, decision.status.summary.tasks)
        is_changed = decision.status is not None and decision.status != framework.status
        if not is_changed:
            self._has_nothing_to_store(key)
        elif decision.status is not None and self._may_still_wait(key, decision):
            self._unstored[key] = framework.metadata.resource_version, decision
            if not decision.actions:
                return
            framework = framework.with_status(decision.status, framework.metadata.resource_version)
            decision = msgspec.structs.replace(decision, reasons=())
            is_changed = False
        try:
            is_carried_out = await self._carry_out(key, framework, decision, is_changed=is_changed)
        except PortError as error:
            self._port.failed(framework, "a decision", error)
            self._queue.retry(key, self._clock.monotonic())
            return
        self._queue.succeeded(key)
        if decision.actions and is_carried_out:
            self._queue.add(key)

    def _decide(self, key: FrameworkKey, framework: Framework, now: datetime) -> Decision:
        observed = self._cache.observe(key, now, self._clock.monotonic())
        version, unstored = self._unstored.get(key, ("", None))
        is_of_this_version = version == framework.metadata.resource_version
        return decide(framework, observed, now, self._rules, unstored if is_of_this_version else None)

    async def _clear_away(self, key: FrameworkKey) -> None:
        """It is gone, and its objects have to go as well."""
        departed = self._cache.departed(key)
        if departed is None:
            self._queue.forget(key)
            return
        now = self._clock.now()
        observed = self._cache.observe(key, now, self._clock.monotonic())
        decision = clear_away(departed, observed, now, self._rules)
        if decision.wake_at is not None:
            self._wake(key, decision.wake_at, now)
        try:
            await self._act(departed, decision.actions)
        except PortError as error:
            self._port.failed(departed, "what it has left behind", error)
            self._queue.retry(key, self._clock.monotonic())
            return
        self._queue.succeeded(key)
        if decision.actions:
            self._queue.add(key)

    async def _is_reread(self, key: FrameworkKey, framework: Framework) -> bool:
        """Nothing may be done on a status that somebody, which may have been us, has written over."""
        try:
            current = await self._port.read_framework(framework)
        except PortError as error:
            self._port.failed(framework, "its status", error)
            self._queue.retry(key, self._clock.monotonic())
            return False
        if current is None or current.uid != framework.uid:
            # The watch will say so. Until then it is asked again: a server that has just started may not know the
            # definition of Frameworks yet.
            self._queue.retry(key, self._clock.monotonic())
            return False
        doubtful = self._in_doubt.pop(key)
        self._cache.put_framework(current)
        if current.status == doubtful.status:
            # It was stored, and the answer got lost.
            self._has_nothing_to_store(key)
            self._announce(current, doubtful.reasons, are_actions_done=False)
        return True

    def _has_nothing_to_store(self, key: FrameworkKey) -> None:
        self._unstored.pop(key, None)
        self._waiting_since.pop(key, None)

    def _announce(self, framework: Framework, reasons: Sequence[Reason], *, are_actions_done: bool) -> None:
        told = [
            reason for reason in reasons if are_actions_done or reason.kind not in decide_types.ABOUT_ACTIONS
        ]
        if told:
            self._port.announce(framework, told)

    def _wake(self, key: FrameworkKey, at: datetime, now: datetime) -> None:
        seconds = min((at - now).total_seconds(), LONGEST_SLEEP)
        self._queue.add_at(key, self._clock.monotonic() + max(seconds, 0))

    def _gather(self, key: FrameworkKey, tasks: int) -> None:
        gathering = min(GATHERING_PER_TASK * tasks, LONGEST_GATHERING)
        if gathering >= SHORTEST_GATHERING:
            self._queue.hold(key, self._clock.monotonic() + gathering)

    def _may_still_wait(self, key: FrameworkKey, decision: Decision) -> bool:
        if not decision.may_wait:
            return False
        now = self._clock.monotonic()
        is_gang = any(isinstance(action, CreatePod) for action in decision.actions)
        tasks = 0 if decision.status is None else decision.status.summary.tasks
        longest = self._pace.patience(tasks, self._store_seconds.get(key, 0.0), now)
        if is_gang:
            longest = max(longest, LONGEST_GANG)
        until = self._waiting_since.setdefault(key, now) + longest
        if now >= until:
            return False
        self._queue.add_at(key, until)
        return True

    async def _carry_out(
        self, key: FrameworkKey, framework: Framework, decision: Decision, *, is_changed: bool
    ) -> bool:
        """Store, act, announce. False if the Framework has gone on the way: then nobody is told, and nothing done."""
        if is_changed and decision.status is not None:
            began = self._clock.monotonic()
            try:
                framework = await self._port.store_status(framework, decision.status)
            except UnansweredError:
                self._in_doubt[key] = decision
                raise
            ended = self._clock.monotonic()
            self._store_seconds[key] = ended - began
            self._pace.stored_in(ended - began, ended)
            if not self._cache.stored(framework):
                return False
            self._has_nothing_to_store(key)
        reasons = decision.reasons if is_changed or decision.actions else ()
        are_actions_done = False
        try:
            await self._act(framework, decision.actions)
            are_actions_done = True
        finally:
            self._announce(framework, reasons, are_actions_done=are_actions_done)
        return True

    async def _act(self, framework: Framework, actions: Sequence[Action]) -> None:
        """Pods are created and deleted at once, as many as a pass has time for, the rest one after the other."""
        at_a_time = self._pace.at_a_time
        creations = [action for action in actions if isinstance(action, CreatePod)][:at_a_time]
        deletions = [action for action in actions if isinstance(action, DeletePod)][:at_a_time]
        for action in actions:
            if not isinstance(action, CreatePod | DeletePod):
                await self._act_once(framework, action)
        if creations:
            await self._create_pods(framework, creations)
        if deletions:
            await self._delete_pods(framework, deletions)

    async def _act_once(self, framework: Framework, action: Action) -> None:
        cache, port, namespace = self._cache, self._port, framework.namespace
        match action:
            case decide_types.CreateService():
                await self._create_service(framework)
            case decide_types.CreateConfigMap():
                await self._create_config_map(framework)
            case decide_types.PublishGang(fingerprint):
                await port.publish_gang(namespace, gang_manifest(framework, cache.ports_of(framework)))
                if (record := cache.record_of(framework)) is not None:
                    record.published_gang(fingerprint)
            case decide_types.EmptyAttempt(config_map_uid):
                await self._empty_attempt(framework, config_map_uid)
            case decide_types.DeleteConfigMap(uid):
                await port.delete_config_map(namespace, names.config_map_name(framework.name), uid)
                if (record := cache.record_of(framework)) is not None:
                    record.deletion_requested(uid)
            case decide_types.DeleteFramework():
                await port.delete_framework(framework)
                if (record := cache.record_of(framework)) is not None:
                    record.framework_deletion_requested()
            case decide_types.LookForObjects():
                listed = await port.list_objects(framework)
                cache.replace_objects(framework, listed.config_map, listed.pods, listed.resource_version)

    async def _empty_attempt(self, framework: Framework, config_map_uid: str) -> None:
        record = self._cache.record_of(framework)
        token = "" if record is None else record.emptying_goes_on_at(config_map_uid)
        asked_for = self._cache.pods_of_attempt(framework, config_map_uid)
        # Where one may be unknown, a decision has them looked for before: those that there were when the newest was
        # written are all of them.
        versions = [version(pod.metadata.resource_version) for pod in asked_for.values()]
        is_one_request = not token and 0 < len(versions) <= DELETED_AT_ONCE
        newest = str(max(versions)) if is_one_request else ""
        emptied = await self._port.delete_pods_of_attempt(framework.namespace, config_map_uid, token, newest)
        self._cache.emptied_attempt(framework, config_map_uid, emptied, asked_for)

    async def _create_service(self, framework: Framework) -> None:
        manifest = service_manifest(framework)
        try:
            await self._port.create_service(framework, manifest)
        except PortError as error:
            self._could_not_create(framework, "Service", manifest["metadata"]["name"], error)
        else:
            record = self._cache.record_of(framework)
            if record is not None and framework.status is not None:
                record.name_taken("")
                record.created_service(manifest["metadata"]["name"], framework.status.attempt_status.id)

    async def _create_config_map(self, framework: Framework) -> None:
        try:
            ports = self._choose_ports(framework) if self._choose_ports else None
            manifest = config_map_manifest(framework, ports)
            created = await self._port.create_config_map(framework.namespace, manifest)
        except PortError as error:
            self._could_not_create(framework, "ConfigMap", names.config_map_name(framework.name), error)
        else:
            self._cache.created_config_map(framework, created)

    def _could_not_create(self, framework: Framework, kind: str, name: str, error: PortError) -> None:
        record = self._cache.record_of(framework)
        if record is None:
            return
        if isinstance(error, AlreadyExistsError):
            record.name_taken(f"{kind} {name} exists already: {error}")
        else:
            self._port.failed(framework, f"the {kind} {name}", error)
        self._postpone(framework, record, name)

    async def _create_pods(self, framework: Framework, creations: Sequence[CreatePod]) -> None:
        factory = PodFactory(framework, Wiring(self._barrier_image, self._cache.ports_of(framework)))
        tasks = [_task(framework, creation) for creation in creations]
        manifests = [factory.pod(creation.role, creation.index) for creation in creations]
        began = self._clock.monotonic()
        answers = await self._port.create_pods(framework.namespace, manifests)
        self._pace.took(len(answers), self._clock.monotonic() - began)
        record = self._cache.record_of(framework)
        if record is None:
            return
        record.tried_pods(in_vain=all(map(_is_for_now, answers)))
        postponed = next(filter(_is_for_now, answers), None)
        if isinstance(postponed, PortError):
            # One of them tells for all.
            self._port.failed(framework, "pods", postponed)
        for task, answer in zip(tasks, answers, strict=True):
            task_uid, attempt = task.instance_uid or "", task.attempt_status
            if not isinstance(answer, PortError):
                self._cache.created_pod(framework, answer, Created(answer.uid, task_uid, attempt.id))
                continue
            if isinstance(answer, AlreadyExistsError | UnansweredError):
                record.uncertain(attempt.pod_name)
            if isinstance(answer, RefusedError) and _is_final(answer):
                record.refused(attempt.pod_name, Refused(answer.failure, task_uid, attempt.id))
            # A task that is retried without end after a refusal waits as well.
            self._postpone(framework, record, attempt.pod_name)

    async def _delete_pods(self, framework: Framework, deletions: Sequence[DeletePod]) -> None:
        answers = await self._port.delete_pods(framework.namespace, deletions)
        record = self._cache.record_of(framework)
        failed: PortError | None = None
        for deletion, answer in zip(deletions, answers, strict=True):
            if answer is not None:
                failed = answer
            elif record is not None:
                record.deletion_requested(deletion.uid, force=deletion.force)
        if failed is not None:
            raise failed

    def _postpone(self, framework: Framework, record: Record, name: str) -> None:
        """It cannot be created for now; nothing else has to wait for that."""
        until = self._clock.monotonic() + queues.backoff(name, record.failures(name))
        record.postponed(name, until)
        self._queue.add_at(key_of(framework), until)


def _is_final(refused: RefusedError) -> bool:
    return failures.classify_creation_failure(refused.failure) is not None


def _is_for_now(answer: PodView | PortError) -> bool:
    """It was turned down, and may be granted later."""
    return isinstance(answer, PortError) and not (isinstance(answer, RefusedError) and _is_final(answer))


def _task(framework: Framework, creation: CreatePod) -> TaskStatus:
    if framework.status is None:
        raise ValueError("a pod is created for a task that is stored")
    role = next(role for role in framework.status.attempt_status.roles if role.name == creation.role)
    return role.task_statuses[creation.index]
