"""Who leads, as values and decisions: what a Lease says, when it may be taken, and what is written into it.

Nobody's wall clock decides anything: the times in a Lease are for people to read. A candidate waits as long as the
Lease says, by its own clock that never steps back, from the moment at which it saw the Lease written anew. Here no
clock is read and nothing is sent; `lease` does both.
"""

import math
from datetime import datetime, timedelta
from typing import Any

import msgspec

from windlass.k8s import times
from windlass.model.base import Json

JITTER = 0.2
"""A candidate waits for up to so much of a retry period longer, so that many do not ask in step."""
LONGEST_DURATION = 2**31 - 1
"""In seconds: the API has 32 bits for it."""
SHORTEST_DURATION_SECONDS = 1


def identity(host: str, unique: str) -> str:
    """Who a candidate is. A process that was started anew is somebody else, though its host is the same."""
    return f"{host}_{unique}"


class Timings(msgspec.Struct, frozen=True):
    """In seconds."""

    duration: float = 15.0
    """For so long after a renewal nobody else takes the lease."""
    renew_deadline: float = 10.0
    """A leader that could not renew for so long gives up."""
    retry_period: float = 2.0
    """So often a leader renews, and a candidate looks."""

    def __post_init__(self) -> None:
        is_in_order = (
            LONGEST_DURATION >= self.duration > self.renew_deadline > self.retry_period * (1 + JITTER) > 0
        )
        if not is_in_order:
            raise ValueError(
                f"a lease needs {LONGEST_DURATION} >= duration > renew deadline > {1 + JITTER} * retry period > 0, "
                f"in seconds; found duration {self.duration:g}, renew deadline {self.renew_deadline:g}, "
                f"retry period {self.retry_period:g}"
            )

    @property
    def duration_seconds(self) -> int:
        """As it is written into the Lease: never less than the leader itself reckons with."""
        return math.ceil(self.duration)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class LeaseRecord(msgspec.Struct, frozen=True):
    """A Lease: what an election reads and writes of it, and all the rest as it came."""

    holder_identity: str = ""
    """Empty: nobody's."""
    lease_duration_seconds: int = 0
    """0: not said."""
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int = 0
    resource_version: str = ""
    """Empty: not stored yet."""
    raw: Json = {}

    def with_holder(self, holder: str, duration_seconds: int, now: datetime) -> "LeaseRecord":
        is_renewal = self.holder_identity == holder
        return msgspec.structs.replace(
            self,
            holder_identity=holder,
            lease_duration_seconds=duration_seconds,
            acquire_time=self.acquire_time if is_renewal else now,
            renew_time=self._another_time(now),
            lease_transitions=self.lease_transitions + (0 if is_renewal else 1),
        )

    def without_holder(self, now: datetime) -> "LeaseRecord":
        return msgspec.structs.replace(
            self,
            holder_identity="",
            lease_duration_seconds=SHORTEST_DURATION_SECONDS,
            acquire_time=now,
            renew_time=self._another_time(now),
        )

    def _another_time(self, now: datetime) -> datetime:
        """A server stores nothing when nothing differs, and then nobody would see that the lease was renewed."""
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
    """Raises msgspec.DecodeError, or UnicodeDecodeError, if this is no Lease."""
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
    """Laid over the object that was read: what others wrote into it stays."""
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


class Seen(msgspec.Struct, frozen=True):
    """What a candidate knows of the lease by looking, in seconds of its own clock."""

    holder: str = ""
    free_at: float = -math.inf
    """Until then its holder may believe that it leads."""
    resource_version: str = ""

    def is_free_for(self, candidate: str, now: float) -> bool:
        return self.holder in ("", candidate) or now >= self.free_at

    def with_look(self, record: LeaseRecord | None, now: float, default_duration: float) -> "Seen":
        """After an answer that came `now`; None: there is no Lease.

        Every write counts as a renewal, even one that touched a label only: rather too late than too early. Who held a
        Lease that somebody deleted has not heard of it yet, so its time is waited out.
        """
        if record is None or record.resource_version == self.resource_version:
            return self
        duration = record.lease_duration_seconds or default_duration
        return Seen(record.holder_identity, now + duration, record.resource_version)
