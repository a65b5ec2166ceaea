"""The executor's port over HTTP: which request stands for which act, and which answer means what.

No request starts with less of the lease left than it may take (`gate`): a controller that is replaced meanwhile
does nothing any more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from windlass.controller.engine.lease_guard import Gate
from windlass.controller.engine.port import (
    DELETED_AT_ONCE,
    AlreadyExistsError,
    ConflictError,
    Emptied,
    Listed,
    NotFoundError,
    PortError,
    RefusedError,
    UnansweredError,
)
from windlass.decide.types import DeletePod, Reason
from windlass.k8s import metadata
from windlass.kubeapi import answers, errors, requests
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import CONFIG_MAPS, GANGS, PODS, SERVICES, Resource, frameworks
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, ObjectView, PodView
from windlass.model.status import FrameworkStatus
from windlass.wire import codec, status_patch

AT_A_TIME = 50
"""So many pods of one Framework are under way at once: more do not go faster through one API server."""
STANDSTILL_SEC = 30.0

Send = Callable[[Request, float], Awaitable[bytes]]
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
_encoder = msgspec.json.Encoder()


class NoStatusError(PortError):
    """The Framework is there, its status subresource is not: somebody has changed the CustomResourceDefinition."""


class NoGangsError(PortError):
    """Gangs are not defined: the barriers of a Framework wait in vain."""


class Audience(Protocol):
    """Whoever wants to hear of what happens to Frameworks. Never raises, never waits."""

    def announced(self, framework: Framework, reasons: Sequence[Reason]) -> None: ...

    def stored(self, before: Framework, after: Framework) -> None: ...

    def status_is_missing(self, group: str) -> None: ...

    def failed(self, framework: Framework, doing: str, error: PortError) -> None: ...


_object_decoder = msgspec.json.Decoder(ObjectView)


class ApiPort:
    def __init__(
        self,
        send: Send,
        gate: Gate,
        audience: Audience,
        *,
        timeout: float,
        field_manager: str,
        compress: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._send = send
        self._gate = gate
        self._audience = audience
        self._timeout = timeout
        self._field_manager = field_manager
        self._compress = compress
        self._monotonic = monotonic
        self._still_until: dict[str, float] = {}
        """By group, while its Frameworks have no status that could be written."""

    # Frameworks

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        if self._stands_still(framework.group):
            raise NoStatusError(f"the status of Frameworks of {framework.group} cannot be written")
        patch = status_patch.status_patch(framework, status, compress=self._compress)
        try:
            answer = await self._patch_status(framework, patch)
        except NotFoundError as missing:
            await self._explain_missing(framework, missing)
            raise
        except RefusedError as refused:
            if refused.failure.code != 422:
                raise
            # What is stored has another shape than it was read to have, such as compressed task statuses.
            patch = status_patch.whole_status_patch(framework, status, compress=self._compress)
            answer = await self._patch_status(framework, patch)
        self._still_until.pop(framework.group, None)
        version = _understood(metadata.decode_version, answer).metadata.resource_version
        stored = framework.with_status(status, version)
        self._audience.stored(framework, stored)
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
        return await self._ask(request.with_accept(METADATA_ONLY))

    async def _explain_missing(self, framework: Framework, missing: NotFoundError) -> None:
        """A 404 means that the Framework is gone, or that the definition says of no status any more."""
        current = await self.read_framework(framework)
        if current is None or current.uid != framework.uid:
            return
        if not self._stands_still(framework.group):
            self._still_until[framework.group] = self._monotonic() + STANDSTILL_SEC
            self._audience.status_is_missing(framework.group)
        raise NoStatusError(str(missing)) from missing

    def _stands_still(self, group: str) -> bool:
        return self._monotonic() < self._still_until.get(group, 0.0)

    async def read_framework(self, framework: Framework) -> Framework | None:
        request = requests.get(frameworks(framework.group), framework.namespace, framework.name)
        try:
            found = _understood(codec.read_framework, await self._ask(request))
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
        await self._ask(request)

    # ConfigMaps and pods

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView:
        body = _encoder.encode(manifest)
        answer = await self._ask(requests.create(CONFIG_MAPS, namespace, body))
        return _understood(codec.decode_config_map, answer)

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None:
        request = requests.delete(CONFIG_MAPS, namespace, name, uid=uid, propagation="Background")
        await self._ask_to_delete(request)

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        try:
            await self._ask(requests.create(SERVICES, framework.namespace, _encoder.encode(manifest)))
        except AlreadyExistsError as error:
            answer = await self._ask(requests.get(SERVICES, framework.namespace, name))
            found = _understood(_object_decoder.decode, answer)
            if found.controller is None or found.controller.uid != framework.uid or found.is_deleting:
                raise AlreadyExistsError(f"it is not this Framework's: {error}") from error

    async def publish_gang(self, namespace: str, manifest: Json) -> None:
        """A new one as a rule: it is brought up to date only when a task is tried again, or was added."""
        try:
            await self._ask(requests.create(GANGS, namespace, _encoder.encode(manifest)))
        except AlreadyExistsError:
            patch = _encoder.encode({"spec": manifest["spec"]})
            await self._ask(requests.merge_patch(GANGS, namespace, manifest["metadata"]["name"], patch))
        except NotFoundError as error:
            raise NoGangsError(
                f"the definition {GANGS.full_name} is missing ({error}). Run `windlass install --crds-only --apply`"
            ) from error

    async def create_pods(self, namespace: str, manifests: Sequence[Json]) -> Sequence[PodView | PortError]:
        async def create(manifest: Json) -> PodView:
            request = requests.create(PODS, namespace, _encoder.encode(manifest))
            return _understood(codec.decode_pod, await self._ask(request.with_accept(METADATA_ONLY)))

        return await _all_at_once(create, manifests)

    async def delete_pods(self, namespace: str, deletions: Sequence[DeletePod]) -> Sequence[PortError | None]:
        async def delete(deletion: DeletePod) -> None:
            grace = 0 if deletion.force else None
            request = requests.delete(PODS, namespace, deletion.name, uid=deletion.uid, grace_seconds=grace)
            await self._ask_to_delete(request)

        return await _all_at_once(delete, deletions)

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> Emptied:
        request = requests.delete_collection(
            PODS,
            namespace,
            f"{names.ATTEMPT_LABEL}={config_map_uid}",
            # With a limit, a server reads all pods of the namespace from its store.
            limit=0 if not_older_than else DELETED_AT_ONCE,
            continue_token=continue_token,
            not_older_than=not_older_than,
        )
        try:
            page = _understood(answers.decode_page, await self._ask(request))
        except RefusedError as refused:
            is_expired = refused.failure.code == 410 and continue_token
            if not is_expired:
                raise
            return await self.delete_pods_of_attempt(namespace, config_map_uid, "")
        found = tuple(_understood(codec.decode_pod, item) for item in page.objects)
        return Emptied(found, page.metadata.continue_)

    async def list_objects(self, framework: Framework) -> Listed:
        """Two lists; together they are as old as the older one."""
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
            )
            page = _understood(answers.decode_page, await self._ask(request))
            found.extend(_understood(decode, item) for item in page.objects)
            token = page.metadata.continue_
            if not token:
                return found, page.metadata.resource_version

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        self._audience.announced(framework, reasons)

    def failed(self, framework: Framework, doing: str, error: PortError) -> None:
        self._audience.failed(framework, doing, error)

    # Inside

    async def _ask(self, request: Request) -> bytes:
        self._gate.check(self._timeout)
        try:
            return await self._send(request, self._timeout)
        except errors.ApiError as error:
            raise _as_port_error(error) from error

    async def _ask_to_delete(self, request: Request) -> None:
        """Not there any more, or another one of that name by now: it is gone either way."""
        try:
            await self._ask(request)
        except (NotFoundError, ConflictError):
            return


def _understood(decode: Callable[[bytes], R], answer: bytes) -> R:
    """What is said to be done and then not told is as good as no answer."""
    try:
        return decode(answer)
    except (codec.DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnansweredError(f"the answer cannot be read: {error}") from error


def _as_port_error(error: errors.ApiError) -> PortError:
    match error:
        case errors.NotFoundError():
            return NotFoundError(str(error))
        case errors.AlreadyExistsError():
            return AlreadyExistsError(str(error))
        case errors.ConflictError():
            return ConflictError(str(error))
        case errors.NotSentError():
            return PortError(str(error))
        case errors.ServerError():
            return UnansweredError(str(error))
        case errors.AnsweredError():
            return RefusedError(error.failure)
    return UnansweredError(str(error))


async def _all_at_once(act: Callable[[S], Awaitable[R]], subjects: Sequence[S]) -> Sequence[R | PortError]:
    """As many at a time as make sense; an answer for each, in their order."""
    outcomes: dict[int, R | PortError] = {}
    remaining = iter(enumerate(subjects))

    async def work() -> None:
        for position, subject in remaining:
            try:
                outcomes[position] = await act(subject)
            except PortError as error:
                outcomes[position] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_A_TIME, len(subjects))):
            group.create_task(work())
    return [outcomes[position] for position in range(len(subjects))]
