"""Carries decisions out: store, act, record what came of it, look again.

A conflict drops the decision: somebody else has written, so what was observed was old. A crash between any two steps
loses nothing: deciding again on what is stored gives the same actions, until their outcomes are seen.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from windlass.decide import contract, decide, failures
from windlass.decide.contract import Action, CreatePod, DeletePod, Refused, Rules
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus
from windlass.objects.config_map import config_map as config_map_manifest
from windlass.objects.pod import PodFactory
from windlass.operate import queue as queues
from windlass.operate.cache import Cache
from windlass.operate.keys import FrameworkKey
from windlass.operate.port import AlreadyExistsError, Port, PortError, RefusedError, UnansweredError
from windlass.operate.queue import KeyedQueue

LONGEST_WAIT = timedelta(milliseconds=500)
"""For so long a status that leads to no action may wait to be written together with the next change."""

GATHERING_PER_TASK = timedelta(microseconds=20)
"""A look at ten thousand tasks costs tens of milliseconds: what happens to a large Framework within a time that grows
with its size is looked at once. A Framework of a few tasks never notices."""
SHORTEST_GATHERING = timedelta(milliseconds=1)

Clock = Callable[[], datetime]


class Executor:
    def __init__(
        self, port: Port, cache: Cache, queue: KeyedQueue[FrameworkKey], clock: Clock, rules: Rules
    ) -> None:
        self._port = port
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._rules = rules
        self._waiting_since: dict[FrameworkKey, datetime] = {}

    async def run_pass(self, key: FrameworkKey) -> None:
        """One look at one Framework. The queue sees to it that there is one at a time."""
        framework = self._cache.framework(key)
        if framework is None:
            self._queue.forget(key)
            self._waiting_since.pop(key, None)
            return
        decision = decide(framework, self._cache.observe(key), self._clock(), self._rules)
        if decision.wake_at is not None:
            self._queue.add_at(key, decision.wake_at)
        is_changed = decision.status is not None and decision.status != framework.status
        if not decision.actions and decision.status is not None:
            self._gather(key, decision.status.summary.tasks)
        if is_changed and decision.may_wait and self._may_still_wait(key):
            return
        try:
            if is_changed and decision.status is not None:
                framework = await self._port.store_status(framework, decision.status)
                self._cache.stored(framework)
            self._waiting_since.pop(key, None)
            await self._act(key, framework, decision.actions)
        except PortError:
            self._queue.retry(key, self._clock())
        else:
            self._queue.succeeded(key)
            if decision.actions:
                self._queue.add(key)
        if decision.reasons and (is_changed or decision.actions):
            self._port.announce(framework, decision.reasons)

    def _gather(self, key: FrameworkKey, tasks: int) -> None:
        gathering = min(GATHERING_PER_TASK * tasks, LONGEST_WAIT)
        if gathering >= SHORTEST_GATHERING:
            self._queue.hold(key, self._clock() + gathering)

    def _may_still_wait(self, key: FrameworkKey) -> bool:
        now = self._clock()
        until = self._waiting_since.setdefault(key, now) + LONGEST_WAIT
        if now >= until:
            return False
        self._queue.add_at(key, until)
        return True

    async def _act(self, key: FrameworkKey, framework: Framework, actions: Sequence[Action]) -> None:
        """Pods are created and deleted all at once, the rest one after the other."""
        creations = [action for action in actions if isinstance(action, CreatePod)]
        deletions = [action for action in actions if isinstance(action, DeletePod)]
        for action in actions:
            match action:
                case contract.CreateConfigMap():
                    await self._create_config_map(key, framework)
                case contract.EmptyAttempt(config_map_uid):
                    pods = await self._port.delete_pods_of_attempt(key.namespace, config_map_uid)
                    self._cache.emptied_attempt(key, config_map_uid, pods)
                case contract.DeleteConfigMap(uid):
                    await self._port.delete_config_map(key.namespace, names.config_map_name(key.name), uid)
                    self._cache.deletion_requested(key, uid)
                case contract.DeleteFramework():
                    await self._port.delete_framework(framework)
                    self._cache.framework_deletion_requested(key)
                case contract.LookForObjects():
                    listed = await self._port.list_objects(framework)
                    self._cache.replace_objects(key, listed.config_map, listed.pods, listed.resource_version)
        if creations:
            await self._create_pods(key, framework, creations)
        if deletions:
            await self._delete_pods(key, deletions)

    async def _create_config_map(self, key: FrameworkKey, framework: Framework) -> None:
        manifest = config_map_manifest(framework)
        name = manifest["metadata"]["name"]
        try:
            created = await self._port.create_config_map(key.namespace, manifest)
        except PortError as error:
            if isinstance(error, AlreadyExistsError):
                self._cache.name_taken(key, f"ConfigMap {name} exists already: {error}")
            self._postpone(key, name)
        else:
            self._cache.created_config_map(key, created)

    async def _create_pods(
        self, key: FrameworkKey, framework: Framework, creations: Sequence[CreatePod]
    ) -> None:
        factory = PodFactory(framework)
        tasks = [_task(framework, creation) for creation in creations]
        manifests = [factory.pod(creation.role, creation.index) for creation in creations]
        answers = await self._port.create_pods(key.namespace, manifests)
        for task, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, AlreadyExistsError | UnansweredError):
                self._cache.creation_uncertain(key, task.attempt_status.pod_name)
            task_uid, attempt = task.instance_uid or "", task.attempt_status
            if not isinstance(answer, PortError):
                self._cache.created_pod(key, answer, task_uid, attempt.id)
            elif (
                isinstance(answer, RefusedError)
                and failures.classify_creation_failure(answer.failure) is not None
            ):
                self._cache.refused_pod(key, attempt.pod_name, Refused(answer.failure, task_uid, attempt.id))
            else:
                self._postpone(key, attempt.pod_name)

    async def _delete_pods(self, key: FrameworkKey, deletions: Sequence[DeletePod]) -> None:
        answers = await self._port.delete_pods(key.namespace, deletions)
        failed: PortError | None = None
        for deletion, answer in zip(deletions, answers, strict=True):
            if answer is None:
                self._cache.deletion_requested(key, deletion.uid, force=deletion.force)
            else:
                failed = answer
        if failed is not None:
            raise failed

    def _postpone(self, key: FrameworkKey, name: str) -> None:
        """It cannot be created for now; nothing else has to wait for that."""
        failures_so_far = self._cache.creation_failures(key, name)
        until = self._clock() + queues.backoff(name, failures_so_far)
        self._cache.postponed(key, name, until)
        self._queue.add_at(key, until)


def _task(framework: Framework, creation: CreatePod) -> TaskStatus:
    if framework.status is None:
        raise ValueError("a pod is created for a task that is stored")
    role = next(role for role in framework.status.attempt_status.roles if role.name == creation.role)
    return role.task_statuses[creation.index]
