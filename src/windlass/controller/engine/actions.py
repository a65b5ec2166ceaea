"""Run the actions of a decision by API requests, and record their outcomes in the cache."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from windlass.controller.engine import queue as queues
from windlass.controller.engine.adaptive_batching import AdaptiveBatching
from windlass.controller.engine.api import (
    MAX_PODS_PER_DELETE,
    AlreadyExistsError,
    Api,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.expectations import Expectations
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.queue import KeyedQueue
from windlass.controller.engine.related_objects import version
from windlass.decide import failures
from windlass.decide import types as decide_types
from windlass.decide.types import Action, CreatedPod, CreatePod, DeletePod, RecordAttempt, RejectedPod
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.pods import PodView
from windlass.model.status import TaskStatus
from windlass.objects.attempt import config_map as config_map_manifest
from windlass.objects.attempt import gang as gang_manifest
from windlass.objects.attempt import service as service_manifest
from windlass.objects.attempt_record import attempt_record
from windlass.objects.pod import PodFactory, PodOptions

ChoosePorts = Callable[[Framework], Mapping[str, int] | None]
"""Returns the port of the first task of each role, if pods share one network. Further tasks use the following ports.
Raises RequestError when no ports are free."""
MAX_RECORD_ATTEMPTS = 5
"""Number of requests for one record that are throttled or have an unknown outcome, e.g. because a webhook is broken.
After the last one, the job goes on without the record."""
TOO_MANY_REQUESTS = 429


class ActionRunner:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        queue: KeyedQueue[FrameworkKey],
        clock: Clock,
        batching: AdaptiveBatching,
        *,
        pod_options: PodOptions,
        choose_ports: ChoosePorts | None,
    ) -> None:
        self._api = api
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._batching = batching
        self._pod_options = pod_options
        self._choose_ports = choose_ports

    async def run(self, framework: Framework, actions: Sequence[Action]) -> None:
        """Run the actions and record their outcomes. At most one batch of CreatePod and of DeletePod actions is run."""
        batch_size = self._batching.batch_size
        creations = [action for action in actions if isinstance(action, CreatePod)][:batch_size]
        deletions = [action for action in actions if isinstance(action, DeletePod)][:batch_size]
        for action in actions:
            if not isinstance(action, CreatePod | DeletePod):
                await self._run_one(framework, action)
        if creations:
            await self._create_pods(framework, creations)
        if deletions:
            await self._delete_pods(framework, deletions)

    async def _run_one(self, framework: Framework, action: Action) -> None:
        cache, api, namespace = self._cache, self._api, framework.namespace
        match action:
            case decide_types.CreateService():
                await self._create_service(framework)
            case decide_types.CreateConfigMap():
                await self._create_config_map(framework)
            case decide_types.PublishGang(fingerprint):
                await api.publish_gang(namespace, gang_manifest(framework, cache.first_ports(framework)))
                if (expectations := cache.expectations_for(framework)) is not None:
                    expectations.published_gang = fingerprint
            case decide_types.DeleteAttemptPods(config_map_uid):
                await self._delete_attempt_pods(framework, config_map_uid)
            case decide_types.DeleteConfigMap(uid):
                await api.delete_config_map(namespace, names.config_map_name(framework.name), uid)
                if (expectations := cache.expectations_for(framework)) is not None:
                    expectations.record_deletion(uid)
            case decide_types.DeleteFramework():
                await api.delete_framework(framework)
                if (expectations := cache.expectations_for(framework)) is not None:
                    expectations.is_framework_deletion_requested = True
            case RecordAttempt():
                await self._record_attempt(framework, action)
            case decide_types.RelistObjects():
                cache.replace_objects_of(framework, await api.list_objects(framework))

    async def _delete_attempt_pods(self, framework: Framework, config_map_uid: str) -> None:
        expectations = self._cache.expectations_for(framework)
        token = "" if expectations is None else expectations.continue_token(config_map_uid)
        cached = self._cache.pods_of_attempt(framework, config_map_uid)
        # No pod is missing in the cache, because a decision lists the objects again if one might be. A deletion that
        # reads pods at the resourceVersion of the newest pod therefore finds all of them.
        versions = [version(pod.metadata.resource_version) for pod in cached.values()]
        is_one_request = not token and 0 < len(versions) <= MAX_PODS_PER_DELETE
        newest = str(max(versions)) if is_one_request else ""
        deleted = await self._api.delete_pods_of_attempt(framework.namespace, config_map_uid, token, newest)
        self._cache.record_deleted_pods(framework, config_map_uid, deleted, cached)

    async def _record_attempt(self, framework: Framework, action: RecordAttempt) -> None:
        """Write the record of an attempt. Without a record, the job goes on: a rejection is not retried."""
        record = attempt_record(framework, action)
        lost: RequestError | None = None
        try:
            await self._api.create_record(record)
        except AlreadyExistsError:
            pass  # written before the controller was restarted, or by a request that got no answer
        except (RefusedError, NotFoundError, UnknownOutcomeError) as error:
            expectations = self._cache.expectations_for(framework)
            is_throttled = isinstance(error, RefusedError) and error.failure.code == TOO_MANY_REQUESTS
            is_temporary = is_throttled or isinstance(error, UnknownOutcomeError)
            if (
                is_temporary
                and expectations is not None
                and expectations.failures(record.name) + 1 < MAX_RECORD_ATTEMPTS
            ):
                self._postpone(framework, expectations, record.name)
                return
            lost = error
        if lost is not None:
            self._api.report_lost_record(framework, action.attempt, lost)
        if (expectations := self._cache.expectations_for(framework)) is not None:
            expectations.record_attempt_record(record.name, action.attempt)

    async def _create_service(self, framework: Framework) -> None:
        manifest = service_manifest(framework)
        try:
            await self._api.create_service(framework, manifest)
        except RequestError as error:
            self._record_creation_failure(framework, "Service", manifest["metadata"]["name"], error)
        else:
            expectations = self._cache.expectations_for(framework)
            if expectations is not None and framework.status is not None:
                expectations.name_taken_message = ""
                expectations.record_service(manifest["metadata"]["name"], framework.status.attempt_status.id)

    async def _create_config_map(self, framework: Framework) -> None:
        try:
            ports = self._choose_ports(framework) if self._choose_ports else None
            manifest = config_map_manifest(framework, ports)
            created = await self._api.create_config_map(framework.namespace, manifest)
        except RequestError as error:
            self._record_creation_failure(
                framework, "ConfigMap", names.config_map_name(framework.name), error
            )
        else:
            self._cache.record_created_config_map(framework, created)

    def _record_creation_failure(
        self, framework: Framework, kind: str, name: str, error: RequestError
    ) -> None:
        expectations = self._cache.expectations_for(framework)
        if expectations is None:
            return
        if isinstance(error, AlreadyExistsError):
            expectations.name_taken_message = f"{kind} {name} already exists: {error}"
        else:
            self._api.report_failure(framework, f"create the {kind} {name}", error)
        self._postpone(framework, expectations, name)

    async def _create_pods(self, framework: Framework, creations: Sequence[CreatePod]) -> None:
        ports = self._cache.first_ports(framework)
        factory = PodFactory(framework, msgspec.structs.replace(self._pod_options, ports=ports))
        tasks = [_task(framework, creation) for creation in creations]
        manifests = [factory.pod(creation.role, creation.index) for creation in creations]
        began = self._clock.monotonic()
        answers = await self._api.create_pods(framework.namespace, manifests)
        self._batching.record_batch(len(answers), self._clock.monotonic() - began)
        expectations = self._cache.expectations_for(framework)
        if expectations is None:
            return
        expectations.record_batch(has_failed=all(map(_is_temporary, answers)))
        postponed = next(filter(_is_temporary, answers), None)
        if isinstance(postponed, RequestError):
            # One failure is reported for all pods of the batch.
            self._api.report_failure(framework, "create pods", postponed)
        for task, answer in zip(tasks, answers, strict=True):
            task_uid, attempt = task.instance_uid or "", task.attempt_status
            if not isinstance(answer, RequestError):
                self._cache.record_created_pod(
                    framework, answer, CreatedPod(answer.uid, task_uid, attempt.id)
                )
                continue
            if isinstance(answer, AlreadyExistsError | UnknownOutcomeError):
                expectations.uncertain.add(attempt.pod_name)
            if isinstance(answer, RefusedError) and _is_final(answer):
                rejected = RejectedPod(answer.failure, task_uid, attempt.id)
                expectations.rejected[attempt.pod_name] = rejected
            # A task that is retried without limit after a refusal backs off as well.
            self._postpone(framework, expectations, attempt.pod_name)

    async def _delete_pods(self, framework: Framework, deletions: Sequence[DeletePod]) -> None:
        answers = await self._api.delete_pods(framework.namespace, deletions)
        expectations = self._cache.expectations_for(framework)
        failed: RequestError | None = None
        for deletion, answer in zip(deletions, answers, strict=True):
            if answer is not None:
                failed = answer
            elif expectations is not None:
                expectations.record_deletion(deletion.uid, force=deletion.force)
        if failed is not None:
            raise failed

    def _postpone(self, framework: Framework, expectations: Expectations, name: str) -> None:
        """Back off before the next attempt to create the object. Other objects are not delayed."""
        until = self._clock.monotonic() + queues.backoff(name, expectations.failures(name))
        expectations.postpone(name, until)
        self._queue.add_at(key_of(framework), until)


def _is_final(refused: RefusedError) -> bool:
    return failures.classify_creation_failure(refused.failure) is not None


def _is_temporary(answer: PodView | RequestError) -> bool:
    """Return whether the creation failed but may be retried."""
    return isinstance(answer, RequestError) and not (isinstance(answer, RefusedError) and _is_final(answer))


def _task(framework: Framework, creation: CreatePod) -> TaskStatus:
    if framework.status is None:
        raise ValueError("pods are created only for tasks in a stored status")
    role = next(role for role in framework.status.attempt_status.roles if role.name == creation.role)
    return role.task_statuses[creation.index]
