"""Runs the actions of a decision through the port and records their outcomes in the cache."""

from collections.abc import Callable, Mapping, Sequence

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
from windlass.decide import failures
from windlass.decide import types as decide_types
from windlass.decide.types import Action, CreatedPod, CreatePod, DeletePod, RejectedPod
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import PodView
from windlass.model.status import TaskStatus
from windlass.objects.config_map import config_map as config_map_manifest
from windlass.objects.gang import gang as gang_manifest
from windlass.objects.pod import PodFactory, Wiring
from windlass.objects.service import service as service_manifest

ChoosePorts = Callable[[Framework], Mapping[str, int] | None]
"""Returns the port of the first task of each role where pods share one network; further tasks use the ports after it.
Raises PortError when no ports are free."""


class ActionRunner:
    def __init__(
        self,
        port: Port,
        cache: Cache,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        pace: Pace,
        *,
        barrier_image: str,
        choose_ports: ChoosePorts | None,
    ) -> None:
        self._port = port
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._pace = pace
        self._barrier_image = barrier_image
        self._choose_ports = choose_ports

    async def run(self, framework: Framework, actions: Sequence[Action]) -> None:
        """Run the actions and record their outcomes: pods as one batch each, everything else one after the other."""
        at_a_time = self._pace.at_a_time
        creations = [action for action in actions if isinstance(action, CreatePod)][:at_a_time]
        deletions = [action for action in actions if isinstance(action, DeletePod)][:at_a_time]
        for action in actions:
            if not isinstance(action, CreatePod | DeletePod):
                await self._run_one(framework, action)
        if creations:
            await self._create_pods(framework, creations)
        if deletions:
            await self._delete_pods(framework, deletions)

    async def _run_one(self, framework: Framework, action: Action) -> None:
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
            case decide_types.DeleteAttemptPods(config_map_uid):
                await self._empty_attempt(framework, config_map_uid)
            case decide_types.DeleteConfigMap(uid):
                await port.delete_config_map(namespace, names.config_map_name(framework.name), uid)
                if (record := cache.record_of(framework)) is not None:
                    record.deletion_requested(uid)
            case decide_types.DeleteFramework():
                await port.delete_framework(framework)
                if (record := cache.record_of(framework)) is not None:
                    record.framework_deletion_requested()
            case decide_types.RelistObjects():
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
                self._cache.created_pod(framework, answer, CreatedPod(answer.uid, task_uid, attempt.id))
                continue
            if isinstance(answer, AlreadyExistsError | UnansweredError):
                record.uncertain(attempt.pod_name)
            if isinstance(answer, RefusedError) and _is_final(answer):
                record.rejected(attempt.pod_name, RejectedPod(answer.failure, task_uid, attempt.id))
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
