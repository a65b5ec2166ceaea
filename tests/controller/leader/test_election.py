import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from windlass.controller.leader import election
from windlass.controller.leader.election import LeaseRecord, ObservedLease, Timings

_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_LATER = _NOON + timedelta(seconds=2)


def _object(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "windlass", "namespace": "system", "resourceVersion": "7", "labels": {"team": "ml"}}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _decoded(**spec: Any) -> LeaseRecord:
    return election.decode(json.dumps(_object(**spec)).encode())


def _encoded(record: LeaseRecord) -> Any:
    return json.loads(election.encode(record))


def test_identity_has_host_and_unique_part() -> None:
    assert election.identity("node-1", "5c1b") == "node-1_5c1b"


@pytest.mark.parametrize(
    ("timings", "seconds"),
    [
        (Timings(), 15),
        (Timings(duration=15.01), 16),
        (Timings(duration=0.9, renew_deadline=0.5, retry_period=0.1), 1),
        (Timings(duration=2**31 - 1), 2**31 - 1),
    ],
)
def test_duration_is_rounded_up_to_seconds(timings: Timings, seconds: int) -> None:
    assert timings.duration_seconds == seconds


@pytest.mark.parametrize(
    ("duration", "renew_deadline", "retry_period"),
    [
        (10, 10, 2),
        (15, 2.4, 2),
        (15, 10, 0),
        (15, 10, -1),
        (2**31, 10, 2),
        (math.inf, 10, 2),
        (math.nan, 10, 2),
        (15, math.nan, 2),
        (15, 10, math.nan),
    ],
)
def test_invalid_timings_are_rejected(duration: float, renew_deadline: float, retry_period: float) -> None:
    message = r"2147483647 >= duration > renew deadline > 1\.2 \* retry period > 0.* found duration"
    with pytest.raises(ValueError, match=message):
        Timings(duration, renew_deadline, retry_period)


_TIME = "2026-03-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("spec", "record"),
    [
        (
            {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": _TIME,
                "renewTime": "2026-03-01T12:00:02.000000Z",
                "leaseTransitions": 3,
            },
            LeaseRecord("a", 15, _NOON, _LATER, 3, "7"),
        ),
        ({"renewTime": "2026-03-01T13:00:02+01:00"}, LeaseRecord(renew_time=_LATER, resource_version="7")),
        ({"holderIdentity": None, "renewTime": None}, LeaseRecord(resource_version="7")),
        ({}, LeaseRecord(resource_version="7")),
    ],
)
def test_lease_is_decoded(spec: dict[str, Any], record: LeaseRecord) -> None:
    assert _decoded(**spec) == msgspec.structs.replace(record, raw=_object(**spec))


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"metadata": {}}', b'{"metadata": {"resourceVersion": "1"}, "spec": 3}'],
)
def test_invalid_lease_raises(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        election.decode(body)


def test_new_lease_is_complete() -> None:
    elsewhere = _NOON.astimezone(timezone(timedelta(hours=5)))
    assert _encoded(election.new_lease("system", "windlass", "a", 15, elsewhere)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "system", "name": "windlass"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": _TIME,
            "renewTime": _TIME,
            "leaseTransitions": 0,
        },
    }


def test_other_fields_of_a_lease_are_kept() -> None:
    record = _decoded(holderIdentity="b", strategy="OldestEmulationVersion")
    written = _encoded(record.with_holder("a", 15, _NOON))
    assert written["metadata"] == _object()["metadata"]
    assert written["spec"]["strategy"] == "OldestEmulationVersion"
    assert written["spec"]["holderIdentity"] == "a"
    assert record.raw["spec"]["holderIdentity"] == "b"


_OF_A = LeaseRecord("a", 15, _NOON, _NOON, 3, "7")


@pytest.mark.parametrize(
    ("before", "holder", "now", "after"),
    [
        pytest.param(_OF_A, "a", _LATER, LeaseRecord("a", 20, _NOON, _LATER, 3, "7"), id="renewed"),
        pytest.param(_OF_A, "b", _LATER, LeaseRecord("b", 20, _LATER, _LATER, 4, "7"), id="taken"),
        pytest.param(
            LeaseRecord(lease_transitions=3, resource_version="7"),
            "b",
            _NOON,
            LeaseRecord("b", 20, _NOON, _NOON, 4, "7"),
            id="no previous holder",
        ),
        pytest.param(
            _OF_A,
            "a",
            _NOON,
            LeaseRecord("a", 20, _NOON, _NOON + timedelta(microseconds=1), 3, "7"),
            id="a renewal shows even when the clock stands still",
        ),
    ],
)
def test_claim_sets_holder_and_times(
    before: LeaseRecord, holder: str, now: datetime, after: LeaseRecord
) -> None:
    assert before.with_holder(holder, 20, now) == after


def test_released_lease_has_no_holder_and_minimal_duration() -> None:
    assert _OF_A.without_holder(_LATER) == LeaseRecord("", 1, _LATER, _LATER, 3, "7")


def _seen(*looks: tuple[float, LeaseRecord | None]) -> ObservedLease:
    seen = ObservedLease()
    for now, record in looks:
        seen = seen.with_record(record, now, default_duration=30)
    return seen


_LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
_FAR_AHEAD = datetime(2090, 1, 1, tzinfo=UTC)
_RENEWED = msgspec.structs.replace(_OF_A, resource_version="8")
_RELEASED = LeaseRecord("", 1, resource_version="9")


@pytest.mark.parametrize(
    ("looks", "free_at"),
    [
        pytest.param([], -math.inf, id="never looked"),
        pytest.param([(100, None)], -math.inf, id="there is none"),
        pytest.param([(100, _OF_A)], 115, id="as long as the lease says, from when it was seen"),
        pytest.param(
            [(100, LeaseRecord("a", 0, resource_version="7"))], 130, id="or as long as ours would last"
        ),
        pytest.param([(100, _OF_A), (110, _OF_A)], 115, id="seen again unchanged"),
        pytest.param([(100, _OF_A), (110, _RENEWED)], 125, id="renewed"),
        pytest.param(
            [(100, msgspec.structs.replace(_OF_A, renew_time=_LONG_AGO))], 115, id="its clock is behind"
        ),
        pytest.param(
            [(100, msgspec.structs.replace(_OF_A, renew_time=_FAR_AHEAD))], 115, id="its clock is ahead"
        ),
        pytest.param([(100, _OF_A), (101, _RELEASED)], -math.inf, id="released"),
        pytest.param([(100, _OF_A), (110, None)], 115, id="deleted, which the holder does not know"),
    ],
)
def test_lease_is_free_after_its_duration(
    looks: list[tuple[float, LeaseRecord | None]], free_at: float
) -> None:
    seen = _seen(*looks)
    if free_at > -math.inf:
        assert not seen.is_free_for("b", math.nextafter(free_at, 0))
        assert seen.is_free_for("b", free_at)
    assert seen.is_free_for("b", 1000 if free_at > -math.inf else 0)
    assert seen.is_free_for("a", 0)
