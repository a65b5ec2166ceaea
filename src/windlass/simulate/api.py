"""The `Api` of a simulated controller: its requests are effects on the simulated API server."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from windlass.controller.engine import lease_guard
from windlass.controller.engine.api import ConflictError, DeletedPods, Listed, RequestError
from windlass.controller.engine.http_api import HttpApi
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.engine.lease_guard import LeaseGuard, NotLeadingError
from windlass.decide.types import DeletePod, Reason
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord, record_name
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus
from windlass.simulate.api_server import ApiServer, Propagation
from windlass.simulate.encoded_statuses import EncodedStatuses
from windlass.simulate.invariants import RequestInvariants, require
from windlass.simulate.records import Records
from windlass.simulate.virtual_time import Resume, Wait

T = TypeVar("T")
MAX_REQUEST_SEC = 2.0
"""Maximum duration of a request."""
Effect = Callable[[], Any]
"""Function that performs a request at the API server and returns its answer or an error."""
Send = Callable[[Sequence[Effect], Resume], None]
"""Function that sends requests together and resumes the pass with the list of their answers."""


def answer_at_once(effects: Sequence[Effect], resume: Resume) -> None:
    resume([effect() for effect in effects])


class _SilentObserver:
    """Ignores everything that `HttpApi` reports."""

    def on_reasons(self, framework: Framework, reasons: Sequence[Reason]) -> None: ...

    def on_stored(self, before: Framework, after: Framework) -> None: ...

    def on_status_subresource_missing(self, group: str) -> None: ...

    def on_failure(self, framework: Framework, action: str, error: RequestError) -> None: ...

    def on_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None: ...


class SimulatedApi:
    """The `Api` of a controller, in memory."""

    def __init__(
        self,
        server: ApiServer,
        inject_fault: Callable[[str, Framework | None], RequestError | None],
        on_store: Callable[[Framework, FrameworkStatus], None],
        invariants: Callable[[], RequestInvariants | None],
        encoded: EncodedStatuses | None = None,
        compression_threshold: int | None = None,
        *,
        guard: LeaseGuard | None = None,
        send: Send = answer_at_once,
        records: Records | None = None,
    ) -> None:
        """With `encoded`, statuses are stored by JSON patches. Without a threshold, they are not compressed."""
        self._server = server
        self._records = records
        self._guard = guard or lease_guard.unrestricted()
        self._send_effects = send
        self._encoded = encoded
        self._compression_threshold = compression_threshold
        self._invariants = invariants
        self._inject_fault = inject_fault
        self._on_store = on_store
        self.counts: dict[str, int] = {}
        """Number of requests by operation."""
        self.reasons: list[tuple[str, Reason]] = []

    def _request(self, operation: str, framework: Framework | None, do: Callable[[], Any]) -> Effect:
        def effect() -> Any:
            self.counts[operation] = self.counts.get(operation, 0) + 1
            error = self._inject_fault(f"{operation} before", framework)
            if error is not None:
                return error
            try:
                answer = do()
            except (RequestError, ApiError) as refused:
                return refused
            return self._inject_fault(f"{operation} after", framework) or answer

        return effect

    async def _send(
        self, operation: str, do: Callable[[], T | RequestError], framework: Framework | None = None
    ) -> T:
        (answer,) = await self._send_all([self._request(operation, framework, do)])
        if isinstance(answer, RequestError | ApiError):
            raise answer
        result: T = answer
        return result

    async def _send_all(self, effects: Sequence[Effect]) -> Sequence[Any]:
        """Send requests together, unless the lease expires too soon. Return their answers, including errors."""
        try:
            self._guard.check(MAX_REQUEST_SEC)
        except NotLeadingError as error:
            return [error] * len(effects)
        answers: Sequence[Any] = await Wait(partial(self._send_effects, effects))
        return answers

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        self._on_store(framework, status)
        if (invariants := self._invariants()) is not None:
            invariants.check_store(f"{framework.namespace}/{framework.uid}", self._server.now.timestamp())
        if self._encoded is not None:
            return await self._store_encoded(self._encoded, framework, status)
        store = partial(self._server.store_status, framework, status)
        return await self._send("store_status", store, framework)

    async def _store_encoded(
        self, encoded: EncodedStatuses, framework: Framework, status: FrameworkStatus
    ) -> Framework:
        """Store the status with the patches of `HttpApi`, and require that the server decodes the same status."""

        def handle(request: Request) -> bytes:
            answer = encoded.handle(request)
            if request.verb is Verb.PATCH:
                stored = self._server.frameworks[key_of(framework)].status
                require(stored == status, f"{framework.name}: the stored status differs from the decided one")
            return answer

        async def send(request: Request, _timeout: float) -> bytes:
            operation = "store_status" if request.verb is Verb.PATCH else "read_framework"
            return await self._send(operation, partial(handle, request), framework)

        api = HttpApi(
            send,
            lease_guard.unrestricted(),
            _SilentObserver(),
            timeout=1.0,
            field_manager="windlass",
            compress=self._compression_threshold is not None,
            compression_threshold=self._compression_threshold,
            monotonic=self._server.now.timestamp,
        )
        return await api.store_status(framework, status)

    async def read_framework(self, framework: Framework | FrameworkKey) -> Framework | None:
        key = framework if isinstance(framework, FrameworkKey) else key_of(framework)
        read = partial(self._server.frameworks.get, key)
        return await self._send("read_framework", read)

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        create = partial(self._server.create_config_map, namespace, manifest)
        return await self._send("create_config_map", create)

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        create = partial(self._server.create_service, framework, manifest)
        await self._send("create_service", create)

    async def publish_gang(self, namespace: str, manifest: Json) -> None:  # noqa: ARG002
        await self._send("publish_gang", partial(self._server.publish_gang, manifest))

    async def create_record(self, record: AttemptRecord) -> None:
        if self._records is not None:
            await self._send("create_record", partial(self._records.create, record))

    async def create_pods(
        self, namespace: str, manifests: Sequence[Json]
    ) -> Sequence[PodView | RequestError]:
        return await self._send_all(
            [
                self._request("create_pod", None, partial(self._server.create_pod, namespace, manifest))
                for manifest in manifests
            ]
        )

    async def delete_pods(
        self, namespace: str, deletions: Sequence[DeletePod]
    ) -> Sequence[RequestError | None]:
        def delete(deletion: DeletePod) -> None:
            pod = self._server.pod_of(deletion.uid)
            if pod is not None and (invariants := self._invariants()) is not None:
                invariants.check_pod_deletion(pod, force=deletion.force)
            self._server.delete_pod(namespace, deletion.name, deletion.uid, force=deletion.force)

        return await self._send_all(
            [self._request("delete_pod", None, partial(delete, deletion)) for deletion in deletions]
        )

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> DeletedPods:
        def delete() -> DeletedPods:
            if (invariants := self._invariants()) is not None:
                for dependent in self._server.dependents_of(config_map_uid):
                    if isinstance(dependent, PodView):
                        invariants.check_pod_deletion(dependent, force=False)
            return self._server.delete_pods_of_attempt(
                namespace, config_map_uid, continue_token, not_older_than
            )

        return await self._send("delete_pods_of_attempt", delete)

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None:
        def delete() -> None:
            found = self._server.find(uid)
            if isinstance(found, ConfigMapView) and (invariants := self._invariants()) is not None:
                invariants.check_config_map_deletion(found)
            self._server.delete_config_map(namespace, name, uid, Propagation.BACKGROUND)

        await self._send("delete_config_map", delete)

    async def delete_framework(self, framework: Framework) -> None:
        def delete() -> None:
            current = self._server.find(framework.uid)
            if isinstance(current, Framework) and current.metadata != framework.metadata:
                raise ConflictError("the Framework was changed meanwhile")
            if (invariants := self._invariants()) is not None:
                invariants.check_framework_deletion(framework)
            self._server.delete_framework(framework, Propagation.FOREGROUND)

        await self._send("delete_framework", delete)

    async def list_objects(self, framework: Framework) -> Listed:
        return await self._send("list_objects", partial(self._server.list_objects, framework))

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self.reasons.extend((framework.name, reason) for reason in reasons)

    def report_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:  # noqa: ARG002
        if self._records is not None:
            self._records.lost.add(record_name(framework.uid, attempt_id))

    def report_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        """Ignore the failure, which the simulation has caused."""
