"""What the executor needs from the world, as a Protocol, and how the world may fail.

The operator implements it over HTTP, the Simulation in memory.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.decide.types import DeletePod, Reason
from windlass.model.api_failure import ApiFailure
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus


class PortError(Exception):
    """A request did not do what it was meant to."""


class ConflictError(PortError):
    """Somebody else has written since. Nothing was written."""


class NotFoundError(PortError):
    """There is no such object. Nothing was written."""


class AlreadyExistsError(PortError):
    """The name is in use. Nothing was written."""


class UnansweredError(PortError):
    """No usable answer: a time-out, a cut connection, a 5xx. It may have been written or not."""


class RefusedError(PortError):
    """The API server said no, and why. Nothing was written."""

    def __init__(self, failure: ApiFailure) -> None:
        super().__init__(f"{failure.code} {failure.reason}: {failure.message}")
        self.failure = failure


class Listed(msgspec.Struct, frozen=True):
    """The objects of one Framework, read consistently, and as of which version."""

    resource_version: str
    config_map: ConfigMapView | None
    pods: tuple[PodView, ...]


class Emptied(msgspec.Struct, frozen=True):
    """What one request for the deletion of an attempt's pods came to."""

    found: tuple[PodView, ...]
    """As they were when it found them."""
    continue_token: str = ""
    """Where the next request goes on, if there are more pods than one request takes."""


DELETED_AT_ONCE = 500
"""So many pods one request deletes: the server deletes them one after the other, and a request has little time."""


class Port(Protocol):
    """Every method may raise a PortError. A delete of something that is not there (any more) is a success."""

    async def store_status(self, framework: Framework, status: FrameworkStatus) -> Framework:
        """Writes if the Framework still has its resourceVersion; returns it as it is stored now."""

    async def read_framework(self, framework: Framework) -> Framework | None:
        """As it is stored now; None if it is gone."""

    async def create_config_map(self, namespace: str, manifest: Json) -> ConfigMapView: ...

    async def create_service(self, framework: Framework, manifest: Json) -> None:
        """Also if it is there already and is the Framework's. AlreadyExistsError: it is somebody else's."""

    async def publish_gang(self, namespace: str, manifest: Json) -> None:
        """Makes the Gang, or brings it up to date."""

    async def create_pods(self, namespace: str, manifests: Sequence[Json]) -> Sequence[PodView | PortError]:
        """All at once; an answer for each."""

    async def delete_pods(self, namespace: str, deletions: Sequence[DeletePod]) -> Sequence[PortError | None]:
        """All at once, each with its UID as a precondition; an answer for each."""

    async def delete_pods_of_attempt(
        self, namespace: str, config_map_uid: str, continue_token: str, not_older_than: str = ""
    ) -> Emptied:
        """One request for the pods with that attempt's label, or for as many of them as one request takes. With a
        version, for all of them, as they were then or later: the server need not read every pod that it has."""

    async def delete_config_map(self, namespace: str, name: str, uid: str) -> None: ...

    async def delete_framework(self, framework: Framework) -> None:
        """In the foreground; UID and resourceVersion are preconditions, since its TTL may just have been changed.
        Raises NotFoundError also on a server that does not know Frameworks yet."""

    async def list_objects(self, framework: Framework) -> Listed: ...

    def announce(self, framework: Framework, reasons: Sequence[Reason]) -> None:
        """Events, log lines, snapshots: best effort, and never in the way."""

    def failed(self, framework: Framework, doing: str, error: PortError) -> None:
        """Something could not be done for now, and will be tried again: somebody may wonder why nothing happens."""
