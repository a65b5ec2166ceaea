"""Implements `Api` over HTTP: sends requests to the API server and converts the responses.

The lease guard rejects a request that might end after the lease has expired: another replica may be the leader then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from windlass.controller.engine.api import (
    MAX_PODS_PER_DELETE,
    AlreadyExistsError,
    ConflictError,
    DeletedPods,
    Listed,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.controller.engine.fair_slots import FairSlots
from windlass.controller.engine.keys import FrameworkKey
from windlass.controller.engine.lease_guard import LeaseGuard
from windlass.decide.types import DeletePod, Reason
from windlass.k8s import metadata
from windlass.k8s.protobuf.encoding import Memo
from windlass.kubeapi import errors, requests, responses
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import (
    ATTEMPT_RECORDS,
    CONFIG_MAPS,
    GANGS,
    PODS,
    SERVICES,
    Resource,
    frameworks,
)
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus
from windlass.wire import attempt_records, codec, status_patch

MAX_PARALLEL_REQUESTS = 25
"""Maximum number of concurrent requests that create or delete one pod each. Frameworks take turns. More concurrent
requests would not increase the throughput of one API server, but delay the requests for other Frameworks."""
NO_STATUS_SUBRESOURCE_RETRY_SEC = 30.0

Send = Callable[[Request, float], Awaitable[bytes]]
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
_encoder = msgspec.json.Encoder()


class NoStatusSubresourceError(RequestError):
    """The Framework exists but has no status subresource: the CustomResourceDefinition was changed."""


class NoGangsError(RequestError):
    """The CustomResourceDefinition of Gangs is missing: a barrier fails unless it may read the Framework."""


class Observer(Protocol):
    """Receives notifications about Frameworks. Its methods do not raise exceptions and do not block."""

    def on_reasons(self, framework: Framework, reasons: Sequence[Reason]) -> None: ...

    def on_stored(self, before: Framework, after: Framework) -> None: ...

    def on_status_subresource_missing(self, group: str) -> None: ...

    def on_failure(self, framework: Framework, action: str, error: RequestError) -> None: ...

    def on_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None: ...


class RecordIndex(Protocol):
    """The known records, so that a restarted controller does not write those of completed Frameworks again."""

    def is_written_or_expired(self, record: AttemptRecord) -> bool:
        """Return whether the record exists, or would be deleted at once by the retention limits."""

    def add(self, found: metadata.ObjectMeta) -> None: ...


class RecordLogs(Protocol):
    """The ends of the logs of failed containers, which are read in the background."""

    def add_to(self, record: AttemptRecord) -> AttemptRecord:
        """Return the record with the text that was read so far."""

    def on_written(self, record: AttemptRecord) -> None: ...


class HttpApi:
    def __init__(
        self,
        send: Send,
        guard: LeaseGuard,
        observer: Observer,
        *,
        timeout: float,
        field_manager: str,
        compress: bool,
        monotonic: Callable[[], float],
        compression_threshold: int | None = None,
        records: RecordIndex | None = None,
        logs: RecordLogs | None = None,
    ) -> None:
        self._records = records
        self._logs = logs
        self._send = send
        self._guard = guard
        self._observer = observer
        self._timeout = timeout
        self._field_manager = field_manager
        self._compress = compress
        self._compression_threshold = compression_threshold
        self._monotonic = monotonic
        self._slots = FairSlots(MAX_PARALLEL_REQUESTS)
        self._blocked_until: dict[str, float] = {}
        """When to write a status again, by group, after the status subresource was missing."""

    # Frameworks

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        if self._is_blocked(framework.group):
            raise NoStatusSubresourceError(f"Frameworks of {framework.group} have no status subresource")
        patch = status_patch.status_patch(
            framework, status, compress=self._compress, threshold=self._compression_threshold
        )
        try:
            answer = await self._patch_status(framework, patch)
        except NotFoundError as missing:
            await self._raise_if_subresource_missing(framework, missing)
            raise
        except RefusedError as refused:
            if refused.failure.code != 422:
                raise
            # The format of the stored status is not the expected one, e.g. its task statuses are compressed.
            patch = status_patch.full_status_patch(
                framework, status, compress=self._compress, threshold=self._compression_threshold
            )
            answer = await self._patch_status(framework, patch)
        self._blocked_until.pop(framework.group, None)
        version = _decoded(metadata.decode_version, answer).metadata.resource_version
        stored = framework.with_status(status, version)
        self._observer.on_stored(framework, stored)
        return stored

    async def _patch_status(self, framework: Framework, patch: bytes) -> bytes:
        request = requests.json_patch(
            frameworks(framework.group),
            framework.namespace,
            framework.name,
            patch,
            subresource="status",
            field_manager=self._field_manager,
        )
        return await self._request(request.with_accept(METADATA_ONLY))

    async def _raise_if_subresource_missing(self, framework: Framework, missing: NotFoundError) -> None:
        """Raise NoStatusSubresourceError if the Framework exists: then only the status subresource is missing."""
        current = await self.read_framework(framework)
        if current is None or current.uid != framework.uid:
            return
        if not self._is_blocked(framework.group):
            self._blocked_until[framework.group] = self._monotonic() + NO_STATUS_SUBRESOURCE_RETRY_SEC
            self._observer.on_status_subresource_missing(framework.group)
        raise NoStatusSubresourceError(str(missing)) from missing

    def _is_blocked(self, group: str) -> bool:
        return self._monotonic() < self._blocked_until.get(group, 0.0)

    async def read_framework(self, framework: Framework | FrameworkKey) -> Framework | None:
        request = requests.get(frameworks(framework.group), framework.namespace, framework.name)
        try:
            found = _decoded(codec.read_framework, await self._request(request))
        except NotFoundError:
            return None
        return found if isinstance(found, Framework) else None

    async def delete_framework(self, framework: Framework) -> None:
        request = requests.delete(
            frameworks(framework.group),
            framework.namespace,
            framework.name,
            uid=framework.uid,
            resource_version=framework.metadata.resource_version,
            propagation="Foreground",
        )
        await self._request(request)

    # ConfigMaps and pods

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        answer = await self._request(requests.create_object(CONFIG_MAPS, namespace, manifest))
        return _decoded(codec.decode_config_map, answer)

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None:
        request = requests.delete(CONFIG_MAPS, namespace, name, uid=uid, propagation="Background")
        await self._send_deletion(request)

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        try:
            await self._request(requests.create_object(SERVICES, framework.namespace, manifest))
        except AlreadyExistsError as error:
            request = requests.get(SERVICES, framework.namespace, name).with_protobuf()
            found = _decoded(codec.decode_service, await self._request(request))
            if found.controller is None or found.controller.uid != framework.uid or found.is_deleting:
                raise AlreadyExistsError(
                    f"it does not belong to this Framework, or is being deleted: {error}"
                ) from error

    async def publish_gang(self, namespace: str, manifest: Json) -> None:
        """Create the Gang, or update its spec if it exists."""
        try:
            await self._request(requests.create(GANGS, namespace, _encoder.encode(manifest)))
        except AlreadyExistsError:
            patch = _encoder.encode({"spec": manifest["spec"]})
            await self._request(requests.merge_patch(GANGS, namespace, manifest["metadata"]["name"], patch))
        except NotFoundError as error:
            raise NoGangsError(
                f"CustomResourceDefinition {GANGS.full_name} is missing ({error}). "
                "Run `windlass install --crds-only --apply`"
            ) from error

    async def create_record(self, record: AttemptRecord) -> None:
        if self._records is not None and self._records.is_written_or_expired(record):
            return
        if self._logs is not None:
            record = self._logs.add_to(record)
        manifest = attempt_records.encode(record)
        request = requests.create(ATTEMPT_RECORDS, record.namespace, _encoder.encode(manifest))
        answer = await self._request(request.with_accept(METADATA_ONLY))
        if self._records is not None:
            self._records.add(_decoded(metadata.decode_meta, answer).metadata)
        if self._logs is not None:
            self._logs.on_written(record)

    async def create_pods(
        self, namespace: str, manifests: Sequence[Json]
    ) -> Sequence[PodView | RequestError]:
        memo: Memo = {}  # the pods of a role share most of their template

        async def create(manifest: Json) -> PodView:
            request = requests.create_object(PODS, namespace, manifest, memo=memo)
            return _decoded(codec.decode_pod, await self._request(request.with_accept(METADATA_ONLY)))

        return await self._in_parallel(create, manifests)

    async def delete_pods(
        self, namespace: str, deletions: Sequence[DeletePod]
    ) -> Sequence[RequestError | None]:
        async def delete(deletion: DeletePod) -> None:
            grace = 0 if deletion.force else None
            request = requests.delete(PODS, namespace, deletion.name, uid=deletion.uid, grace_seconds=grace)
            await self._send_deletion(request)

        return await self._in_parallel(delete, deletions)

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> DeletedPods:
        request = requests.delete_collection(
            PODS,
            namespace,
            f"{names.ATTEMPT_LABEL}={config_map_uid}",
            # With a limit, the server reads all pods of the namespace from its store.
            limit=0 if not_older_than else MAX_PODS_PER_DELETE,
            continue_token=continue_token,
            not_older_than=not_older_than,
        ).with_protobuf()
        try:
            answer = await self._request(request.with_accept(METADATA_ONLY))
            page = _decoded(responses.decode_page, answer)
        except RefusedError as refused:
            is_expired = refused.failure.code == 410 and continue_token
            if not is_expired:
                raise
            return await self.delete_pods_of_attempt(namespace, config_map_uid, "")
        found = tuple(_decoded(codec.decode_pod, item) for item in page.objects)
        return DeletedPods(found, page.metadata.continue_)

    async def list_objects(self, framework: Framework) -> Listed:
        """List the ConfigMaps, then the pods. The resourceVersion is that of the first list."""
        config_maps, version = await self._list(CONFIG_MAPS, framework, codec.decode_config_map)
        pods, _ = await self._list(PODS, framework, codec.decode_pod)
        name = names.config_map_name(framework.name)
        config_map = next((found for found in config_maps if found.name == name), None)
        return Listed(version, config_map, tuple(pods))

    async def _list(
        self, resource: Resource, framework: Framework, decode: Callable[[bytes], T]
    ) -> tuple[list[T], str]:
        selector = f"{names.FRAMEWORK_NAME}={framework.name}"
        found: list[T] = []
        token = ""
        while True:
            request = requests.list_page(
                resource, framework.namespace, label_selector=selector, continue_token=token
            ).with_protobuf()
            page = _decoded(responses.decode_page, await self._request(request))
            found.extend(_decoded(decode, item) for item in page.objects)
            token = page.metadata.continue_
            if not token:
                return found, page.metadata.resource_version

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self._observer.on_reasons(framework, reasons)

    def report_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:
        self._observer.on_lost_record(framework, attempt_id, error)

    def report_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        self._observer.on_failure(framework, action, error)

    # Requests

    async def _request(self, request: Request) -> bytes:
        self._guard.check(self._timeout)
        try:
            return await self._send(request, self._timeout)
        except errors.ApiError as error:
            raise _as_request_error(error) from error

    async def _in_parallel(
        self, act: Callable[[S], Awaitable[R]], subjects: Sequence[S]
    ) -> Sequence[R | RequestError]:
        """Call `act` for all subjects, as many at a time as there are slots. Return the results or errors in order."""
        outcomes: dict[int, R | RequestError] = {}
        remaining = iter(enumerate(subjects))
        batch = object()

        async def work() -> None:
            for position, subject in remaining:
                async with self._slots.slot(batch):
                    try:
                        outcomes[position] = await act(subject)
                    except RequestError as error:
                        outcomes[position] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(MAX_PARALLEL_REQUESTS, len(subjects))):
                group.create_task(work())
        return [outcomes[position] for position in range(len(subjects))]

    async def _send_deletion(self, request: Request) -> None:
        """Send the request. A missing object, or another one with the same name, counts as deleted."""
        try:
            await self._request(request)
        except (NotFoundError, ConflictError):
            return


def _decoded(decode: Callable[[bytes], R], answer: bytes) -> R:
    """Decode a response. Raise UnknownOutcomeError if it is invalid."""
    try:
        return decode(answer)
    except (codec.DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnknownOutcomeError(f"invalid response from the API server: {error}") from error


def _as_request_error(error: errors.ApiError) -> RequestError:
    match error:
        case errors.NotFoundError():
            return NotFoundError(str(error))
        case errors.AlreadyExistsError():
            return AlreadyExistsError(str(error))
        case errors.ConflictError():
            return ConflictError(str(error))
        case errors.NotSentError():
            return RequestError(str(error))
        case errors.ServerError():
            return UnknownOutcomeError(str(error))
        case errors.ResponseError():
            return RefusedError(error.failure)
    return UnknownOutcomeError(str(error))
