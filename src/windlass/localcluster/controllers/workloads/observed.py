"""The fields of pods that workload decisions need. No function has side effects."""

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from windlass.k8s import times
from windlass.k8s.metadata import OwnedObjectMeta
from windlass.model.base import Json

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pod that has not been counted yet."""
_MAX_CACHED_PODS = 2048
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct, frozen=True):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    restart_count: int = 0
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Body(msgspec.Struct, frozen=True):
    metadata: OwnedObjectMeta
    spec: _Spec
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Body).decode


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    phase: str = "Pending"
    created: datetime
    ready_since: datetime | None = None
    """The time when the pod became ready; None if it is not ready."""
    ended: datetime | None = None
    """The time of the latest end of a container, if known."""
    restarts: int = 0
    has_node: bool = False
    restarts_on_failure: bool = False
    deleted: datetime | None = None
    """The time of the delete request."""
    is_tracked: bool = False
    """Whether the pod still has to be counted by its Job."""
    controller: str = ""
    """The uid of its controller."""

    @property
    def is_terminating(self) -> bool:
        return self.deleted is not None

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ending(self) -> bool:
        """Whether the pod has been deleted, but its containers have not ended yet."""
        return self.is_terminating and not self.is_finished

    @property
    def is_active(self) -> bool:
        return not self.is_finished and not self.is_terminating

    @property
    def is_ready(self) -> bool:
        return self.ready_since is not None

    def is_available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Return whether the pod has been ready for `min_ready_seconds` and is not terminating."""
        if self.ready_since is None or self.is_terminating:
            return False
        return now >= self.ready_since + timedelta(seconds=min_ready_seconds)


@functools.lru_cache(maxsize=_MAX_CACHED_PODS)
def pod(body: bytes) -> Pod:
    """Decode a pod. Results are cached, because few pods change between two calls."""
    decoded = _decode(body)
    meta, spec, status = decoded.metadata, decoded.spec, decoded.status
    ready = next((one for one in status.conditions or () if one.type == "Ready"), _Condition())
    created = meta.creation_timestamp or _LONG_AGO
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    ends = [times.parse_time(one.state.terminated.finished_at) for one in containers if one.state.terminated]
    is_ready = ready.status == "True"
    grace_period = timedelta(seconds=meta.deletion_grace_period_seconds)
    return Pod(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        phase=status.phase,
        created=created,
        ready_since=(times.parse_time(ready.last_transition_time) or created) if is_ready else None,
        ended=max(filter(None, ends), default=None),
        restarts=sum(one.restart_count for one in containers),
        has_node=bool(spec.node_name),
        restarts_on_failure=spec.restart_policy == "OnFailure",
        # The deletionTimestamp is the end of the grace period.
        deleted=meta.deletion_timestamp and meta.deletion_timestamp - grace_period,
        is_tracked=TRACKING in meta.finalizers,
        controller=next((one.uid for one in meta.owner_references if one.controller), ""),
    )


def next_available(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> datetime | None:
    """Return when the next of the ready pods becomes available; None if all of them are available."""
    delay = timedelta(seconds=min_ready_seconds)
    times_available = (one.ready_since + delay for one in pods if one.ready_since is not None)
    return min((time for time in times_available if time > now), default=None)


def by_deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods in the order of deletion: without a node first, then not ready, then the newest."""
    return sorted(pods, key=lambda pod: (pod.has_node, pod.is_ready, -pod.created.timestamp(), pod.name))


def read_duration(spec: Json, field: str) -> timedelta | None:
    value = spec.get(field)
    return None if value is None else timedelta(seconds=value)
