"""Leader election as pure functions: decode a Lease, decide when it may be taken, and encode the next one.

Wall clocks do not matter: the times in a Lease are informational. A candidate measures the lease duration with its own
monotonic clock from the moment when it saw the Lease change. The clock and the requests are in `lease`.
"""

import math
from datetime import datetime, timedelta
from typing import Any

import msgspec

from windlass.k8s import times
from windlass.model.base import Json

JITTER = 0.2
"""Maximum fraction of the retry period that a candidate waits in addition, so that candidates do not poll in step."""
MAX_DURATION = 2**31 - 1
"""Seconds, the limit of a 32-bit field."""
MIN_DURATION_SECONDS = 1


def identity(host: str, unique: str) -> str:
    """Return the identity of a candidate: a restarted process on the same host has another one."""
    return f"{host}_{unique}"


class Timings(msgspec.Struct, frozen=True):
    """The intervals of the election, in seconds."""

    duration: float = 15.0
    """Time after a renewal during which no other candidate takes the lease."""
    renew_deadline: float = 10.0
    """Time without a successful renewal after which a leader stops leading."""
    retry_period: float = 2.0
    """Interval of renewals by the leader and of reads by candidates."""

    def __post_init__(self) -> None:
        is_in_order = (
            MAX_DURATION >= self.duration > self.renew_deadline > self.retry_period * (1 + JITTER) > 0
        )
        if not is_in_order:
            raise ValueError(
                f"a lease needs {MAX_DURATION} >= duration > renew deadline > {1 + JITTER} * retry period > 0, "
                f"in seconds; found duration {self.duration:g}, renew deadline {self.renew_deadline:g}, "
                f"retry period {self.retry_period:g}"
            )

    @property
    def duration_seconds(self) -> int:
        """The duration for the Lease, rounded up so that it is never shorter than the leader assumes."""
        return math.ceil(self.duration)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class LeaseRecord(msgspec.Struct, frozen=True):
    """The fields of a Lease that the election uses, and the object as it was read."""

    holder_identity: str = ""
    """Empty if no candidate holds the Lease."""
    lease_duration_seconds: int = 0
    """0 if the Lease does not contain it."""
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0
    resource_version: str = ""
    """Empty if the Lease is not stored yet."""
    raw: Json = {}

    def with_holder(self, holder: str, duration_seconds: int, now: datetime) -> "LeaseRecord":
        is_renewal = self.holder_identity == holder
        return msgspec.structs.replace(
            self,
            holder_identity=holder,
            lease_duration_seconds=duration_seconds,
            acquire_time=self.acquire_time if is_renewal else now,
            renew_time=self._next_renew_time(now),
            lease_transitions=self.lease_transitions + (0 if is_renewal else 1),
        )

    def without_holder(self, now: datetime) -> "LeaseRecord":
        return msgspec.structs.replace(
            self,
            holder_identity="",
            lease_duration_seconds=MIN_DURATION_SECONDS,
            acquire_time=now,
            renew_time=self._next_renew_time(now),
        )

    def _next_renew_time(self, now: datetime) -> datetime:
        """Return a time that differs from the last renew time: the API server does not store an unchanged object."""
        return now if now != self.renew_time else now + timedelta(microseconds=1)


def new_lease(namespace: str, name: str, holder: str, duration_seconds: int, now: datetime) -> LeaseRecord:
    return LeaseRecord(
        holder_identity=holder,
        lease_duration_seconds=duration_seconds,
        acquire_time=now,
        renew_time=now,
        raw={
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
        },
    )


def decode(body: bytes) -> LeaseRecord:
    """Decode a Lease. Raise msgspec.DecodeError or UnicodeDecodeError if the body is not one."""
    raw = msgspec.json.decode(body, type=dict[str, Any])
    spec = msgspec.convert(raw.get("spec") or {}, _Spec)
    metadata = msgspec.convert(raw.get("metadata"), dict[str, Any])
    return LeaseRecord(
        holder_identity=spec.holder_identity or "",
        lease_duration_seconds=spec.lease_duration_seconds or 0,
        acquire_time=spec.acquire_time,
        renew_time=spec.renew_time,
        lease_transitions=spec.lease_transitions or 0,
        resource_version=msgspec.convert(metadata.get("resourceVersion"), str),
        raw=raw,
    )


def encode(record: LeaseRecord) -> bytes:
    """Encode the Lease, keeping all other fields of the object that was read."""
    spec = {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": _micro_time(record.acquire_time),
        "renewTime": _micro_time(record.renew_time),
        "leaseTransitions": record.lease_transitions,
    }
    return msgspec.json.encode({**record.raw, "spec": {**(record.raw.get("spec") or {}), **spec}})


def _micro_time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_micro_time(moment)


class ObservedLease(msgspec.Struct, frozen=True):
    """The Lease as a candidate has observed it. Times are seconds of the candidate's own monotonic clock."""

    holder: str = ""
    free_at: float = -math.inf
    """When the holder can no longer assume that it leads."""
    resource_version: str = ""

    def is_free_for(self, candidate: str, now: float) -> bool:
        return self.holder in ("", candidate) or now >= self.free_at

    def with_record(self, record: LeaseRecord | None, now: float, default_duration: float) -> "ObservedLease":
        """Return the observation after reading the Lease at `now`. `record` is None if the Lease does not exist.

        Every write counts as a renewal, even one that changes only a label. The holder of a deleted Lease may not have
        noticed the deletion yet, so the duration of that Lease still applies.
        """
        if record is None or record.resource_version == self.resource_version:
            return self
        duration = record.lease_duration_seconds or default_duration
        return ObservedLease(record.holder_identity, now + duration, record.resource_version)
