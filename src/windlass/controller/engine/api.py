"""The requests that the executor makes, as a Protocol, and the errors that they raise.

`HttpApi` implements the Protocol over HTTP, `SimulatedApi` in memory.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.controller.engine.keys import FrameworkKey
from windlass.decide.types import DeletePod, Reason
from windlass.model.base import Json
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.history import AttemptRecord
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus


class RequestError(Exception):
    """A request failed."""


class ConflictError(RequestError):
    """The object was changed since it was read. Nothing was written."""


class NotFoundError(RequestError):
    """The object does not exist. Nothing was written."""


class AlreadyExistsError(RequestError):
    """The name is in use. Nothing was written."""


class UnknownOutcomeError(RequestError):
    """A timeout, a closed connection, an invalid response or a 5xx response. The object may have been written."""


class RefusedError(RequestError):
    """The API server rejected the request. Nothing was written."""

    def __init__(self, failure: ApiFailure) -> None:
        super().__init__(f"{failure.code} {failure.reason}: {failure.message}")
        self.failure = failure


class Listed(msgspec.Struct, frozen=True):
    """The objects of one Framework as of one resourceVersion or later."""

    resource_version: str
    config_map: ConfigMapView | None
    pods: tuple[PodView, ...]


class DeletedPods(msgspec.Struct, frozen=True):
    """The answer to a request that deletes the pods of an attempt."""

    pods: tuple[PodView, ...]
    """The deleted pods, of which only the metadata before the deletion is valid."""
    continue_token: str = ""
    """Token of the next request, if there are more pods than one request deletes."""


MAX_PODS_PER_DELETE = 500
"""Maximum number of pods per request: the server deletes them one after the other, within the request's timeout."""


class Api(Protocol):
    """Every async method may raise a RequestError. Deleting a pod or ConfigMap that does not exist succeeds."""

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        """Store the status if the resourceVersion of the Framework has not changed. Return the stored Framework."""

    async def read_framework(self, framework: Framework | FrameworkKey) -> Framework | None:
        """Return the Framework as it is stored; None if it does not exist or is invalid."""

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView: ...

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        """Create the Service unless the Framework has it.

        Raise AlreadyExistsError if another owner's Service, or one that is being deleted, has the name.
        """

    async def publish_gang(self, namespace: str, manifest: Json) -> None:
        """Create or update the Gang."""

    async def create_record(self, record: AttemptRecord) -> None:
        """Create the record of an attempt, unless it exists."""

    async def create_pods(
        self, namespace: str, manifests: Sequence[Json]
    ) -> Sequence[PodView | RequestError]:
        """Create pods in parallel. Return a result for each."""

    async def delete_pods(
        self, namespace: str, deletions: Sequence[DeletePod]
    ) -> Sequence[RequestError | None]:
        """Delete pods in parallel, with their UIDs as preconditions. Return a result for each."""

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> DeletedPods:
        """Delete the pods with the attempt's label by one request, at most MAX_PODS_PER_DELETE.

        With `not_older_than`, delete all of them, as of that resourceVersion or later: the server can then use its
        cache and need not read every pod of the namespace.
        """

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None: ...

    async def delete_framework(self, framework: Framework) -> None:
        """Delete the Framework in the foreground, with UID and resourceVersion as preconditions: its TTL may just have
        been changed. Raise NotFoundError if it does not exist, or if the server does not serve Frameworks yet."""

    async def list_objects(self, framework: Framework) -> Listed: ...

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        """Record events, log lines and snapshots. Never waits or raises."""

    def report_lost_record(self, framework: Framework, attempt_id: int, error: RequestError) -> None:
        """Report that the record of an attempt cannot be written, and that the job goes on without it."""

    def report_failure(self, framework: Framework, action: str, error: RequestError) -> None:
        """Report that an action (e.g. "create pods") failed and will be retried."""
