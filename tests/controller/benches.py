"""An executor with a recording `Api` and a manual clock."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from builders import NOW

from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.api import DeletedPods, Listed, RequestError
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.executor import Executor
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.queue import KeyedQueue
from windlass.decide.types import DeletePod, Reason, Rules
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.states import State
from windlass.model.status import FrameworkStatus
from windlass.objects.pod import PodOptions


class RecordingApi:
    """An `Api` that records all calls and fails where a test says so."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.errors: dict[str, RequestError] = {}
        self.reasons: list[Reason] = []
        self.version = 100
        self.listed = Listed("100", None, ())
        self.continue_tokens: list[str] = []
        self.emptied_as_of: list[str] = []
        self.failures: list[str] = []
        self.stored: Framework | None = None
        self.is_unknown = False
        """Whether Frameworks are not found, as on a server that has just started."""
        self._pods: dict[str, int] = {}
        self.records: list[AttemptRecord] = []
        self.manifests: list[Json] = []
        """The manifests of all creations, including failed ones and repeated Gangs."""

    def _do(self, what: str) -> None:
        self.log.append(what)
        if what in self.errors:
            raise self.errors[what]

    def _metadata(self, manifest: Json, uid: str) -> Json:
        self.version += 1
        metadata = manifest["metadata"] | {"uid": uid, "resourceVersion": str(self.version)}
        return manifest | {"metadata": metadata}

    def _new_uid(self, name: str) -> str:
        """Return a UID that differs for each pod of the same name."""
        self._pods[name] = self._pods.get(name, 0) + 1
        return f"uid-{name}" if self._pods[name] == 1 else f"uid-{name}-{self._pods[name]}"

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        self._do(f"store {status.state}")
        self.version += 1
        return framework.with_status(status, str(self.version))

    async def read_framework(self, framework: Framework | FrameworkKey) -> Framework | None:
        self._do("read")
        found = framework if isinstance(framework, Framework) else None
        return None if self.is_unknown else self.stored or found

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        self.manifests.append(manifest)
        self._do("create ConfigMap")
        return msgspec.convert(self._metadata(manifest, "cm-1"), ConfigMapView)

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        self.manifests.append(manifest)
        self._do("create Service")

    async def publish_gang(self, namespace: str, manifest: Json) -> None:
        self.manifests.append(manifest)
        self._do("publish Gang")

    async def create_record(self, record: AttemptRecord) -> None:
        self.records.append(record)
        self._do(f"record attempt {record.spec.attempt}")

    def report_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:
        self.log.append(f"lost record {attempt_id}")

    async def create_pods(
        self, namespace: str, manifests: Sequence[Json]
    ) -> Sequence[PodView | RequestError]:
        answers: list[PodView | RequestError] = []
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            self.manifests.append(manifest)
            try:
                self._do(f"create {name}")
            except RequestError as error:
                answers.append(error)
            else:
                answers.append(msgspec.convert(self._metadata(manifest, self._new_uid(name)), PodView))
        return answers

    async def delete_pods(
        self, namespace: str, deletions: Sequence[DeletePod]
    ) -> Sequence[RequestError | None]:
        answers: list[RequestError | None] = []
        for deletion in deletions:
            try:
                self._do(f"delete {deletion.name}")
            except RequestError as error:
                answers.append(error)
            else:
                answers.append(None)
        return answers

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> DeletedPods:
        self._do(f"empty {config_map_uid}{continue_token and ' from '}{continue_token}")
        self.emptied_as_of.append(not_older_than)
        return DeletedPods((), self.continue_tokens.pop(0) if self.continue_tokens else "")

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None:
        self._do(f"delete {name} {uid}")

    async def delete_framework(self, framework: Framework) -> None:
        self._do("delete Framework")

    def report_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        self.failures.append(f"{action}: {type(error).__name__}")

    async def list_objects(self, framework: Framework) -> Listed:
        self._do("list")
        return self.listed

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.log.append("announce")
        self.reasons.extend(reasons)


class Bench:
    """An executor with a recording `Api` and a manual clock."""

    def __init__(
        self,
        framework: Framework,
        barrier_image: str = "",
        choose_ports: ChoosePorts | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.api = RecordingApi()
        self.cache = Cache()
        self.queue: KeyedQueue[FrameworkKey] = KeyedQueue()
        self.stored_failures: list[tuple[str, tuple[str, ...]]] = []
        """Pods of failed tasks, with the calls of the pass up to the time at which the executor reported them."""
        self.seconds = 0.0
        self.key = key_of(framework)
        self.steps_back = timedelta(0)
        self.executor = Executor(
            self.api,
            self.cache,
            self.queue,
            self,
            rules or Rules(),
            pod_options=PodOptions(barrier_image),
            choose_ports=choose_ports,
            on_stored=self._record_stored,
        )
        self.cache.put_framework(framework)

    def _record_stored(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.stored_failures += [
            (each.failed_attempt.pod_name, tuple(self.api.log))
            for each in reasons
            if each.failed_attempt is not None
        ]

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds) - self.steps_back

    def run(self) -> list[str]:
        """Run one pass and return the recorded calls."""
        self.api.log.clear()
        self.queue.add(self.key)
        assert self.queue.take(self.seconds) == self.key
        asyncio.run(self.executor.run_pass(self.key))
        self.queue.done(self.key)
        return list(self.api.log)

    def run_when_due(self) -> list[str]:
        """Run one pass after the next timer."""
        due = self.queue.next_time()
        assert due is not None
        self.seconds = max(self.seconds, due)
        return self.run()

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def show(self) -> None:
        """Let the watch confirm all cached objects."""
        observed = self.cache.observe(self.key, NOW, 0.0)
        if observed.config_map is not None:
            self.cache.put(observed.config_map)
        for pod in tuple(observed.pods.values()):
            self.cache.put(pod)

    def set_phases(self, phase: str) -> None:
        for pod in tuple(self.cache.observe(self.key, NOW, 0.0).pods.values()):
            self.set_pod(pod.name, phase=phase)

    def set_pod(self, name: str, **status: Any) -> None:
        """Change the status of a pod, as its kubelet would."""
        pod = self.cache.observe(self.key, NOW, 0.0).pods[name]
        self.api.version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.api.version))
        shown = msgspec.structs.replace(pod.status, **status)
        self.cache.put(msgspec.structs.replace(pod, metadata=metadata, status=shown))

    @property
    def state(self) -> State | None:
        framework = self.cache.framework(self.key)
        return None if framework is None or framework.status is None else framework.status.state

    @property
    def is_due_now(self) -> bool:
        return self.queue.take(self.seconds) is not None
