"""Events of a job and its pods: selection, order and merging."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from builders import NOW
from operated import jobs
from scripted_cluster import Place

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.client import events, history, lookup
from windlass.client.connection import Connection
from windlass.client.events import Event


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def event(seconds: int, message: str, count: int = 1, uid: str = "a", **more: Any) -> Event:
    moment = NOW + timedelta(seconds=seconds)
    fields = {"first": moment, "last": moment, "type": "Normal", "reason": "R", "object": "o", **more}
    return Event(count=count, message=message, uid=uid, **fields)


def test_repeated_events_are_merged() -> None:
    found = events.merge_repeated(
        [event(9, "x", 2), event(5, "y"), event(1, "x"), event(7, "x", uid="b"), event(3, "x", 4)]
    )
    seen = [(each.message, each.uid, each.count, (each.last - each.first).seconds) for each in found]
    assert seen == [("y", "a", 1, 0), ("x", "b", 1, 0), ("x", "a", 7, 8)]


def test_events_of_a_pod_in_the_same_second_are_in_the_order_of_its_life() -> None:
    """The scheduler reports microseconds, the kubelet seconds, and its requests may overtake that of the scheduler."""
    listed = [
        event(5, "", reason="Pulled"),
        event(5, "", reason="AttemptStarted", uid="job"),
        event(5, "", reason="Created"),
        event(5, "", reason="Started"),
        event(5, "", reason="Scheduled", last=NOW + timedelta(seconds=5, microseconds=800_000)),
        event(6, "", reason="Killing"),
        event(4, "", reason="FailedScheduling"),
    ]
    assert history.with_recorded(events.merge_repeated(listed), ()) == events.merge_repeated(listed)
    assert [each.reason for each in events.merge_repeated(listed)] == [
        "FailedScheduling",
        "Scheduled",
        "AttemptStarted",
        "Pulled",
        "Created",
        "Started",
        "Killing",
    ]


def read(place: Place, name: str) -> list[Event]:
    async def work(connection: Connection) -> list[Event]:
        return await events.read(connection, await lookup.find(connection, name))

    return place.use(work)


def post(place: Place, name: str, kind: str, involved: str, reason: str, **more: Any) -> Json:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": kind, "name": involved, "namespace": place.name},
        "reason": reason,
        "message": f"{reason} of {involved}",
        "type": "Warning",
        **more,
    }
    return place.client.post(place.path("events"), body).expect(201).body


def test_events_of_the_job_and_its_pods(place: Place) -> None:
    """Pods are identified by name, since they may be deleted. Other objects are excluded."""
    made = place.submit(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS)))
    place.wait_for_completed("digits")
    place.wait_for_events(made["metadata"]["uid"], "AttemptStarted", "FrameworkCompleted")
    later = "2100-01-01T00:00:{:02}Z".format
    for at, (involved, kind) in enumerate(
        {
            "digits-worker-7": "Pod",
            "digits-worker-x": "Pod",
            "digits-chief-0": "Pod",
            "other-worker-0": "Pod",
            "digits-worker-0-1": "Pod",
            "digits": "Job",
        }.items()
    ):
        times = {"firstTimestamp": later(at), "lastTimestamp": later(at)}
        post(place, f"e{at}", kind, involved, "Odd", count=3, **times)
    post(place, "old", "Pod", "digits-worker-0", "Ancient", lastTimestamp="2000-01-01T00:00:00Z")
    found = read(place, "digits")
    assert "AttemptStarted" in [each.reason for each in found]
    assert (found[-1].object, found[-1].reason, found[-1].count) == ("worker-7", "Odd", 3)
    assert [each.object for each in found if each.reason in ("Odd", "Ancient")] == ["worker-7"]
    assert {each.object for each in found[:-1]} == {"digits"}


def test_events_of_an_earlier_job_are_excluded(place: Place) -> None:
    for run in range(2):
        made = place.submit(jobs.framework("twice", jobs.role(life=jobs.SUCCEEDS)))
        place.wait_for_completed("twice")
        place.wait_for_events(made["metadata"]["uid"], "AttemptStarted", "FrameworkCompleted")
        if run == 0:
            place.delete("twice")
            place.wait_until_gone("twice")
    found = read(place, "twice")
    assert [each.count for each in found if each.reason == "AttemptStarted"] == [1]


def test_follow_yields_existing_new_and_repeated_events(place: Place) -> None:
    place.submit(jobs.framework("live", jobs.role(life=jobs.FOREVER)))
    place.wait_for_running("live", 1)
    seen: list[Event] = []

    async def work() -> None:
        async with place.connected() as connection:
            framework = await lookup.find(connection, "live")
            async with contextlib.aclosing(events.follow(connection, framework)) as coming:
                async for each in coming:
                    seen.append(each)  # noqa: PERF401

    following = asyncio.run_coroutine_threadsafe(work(), place.stage._loop)
    try:
        wait_for("the first", lambda: [each.reason for each in seen] == ["AttemptStarted"])
        when = "2100-01-01T00:00:00Z"
        body = post(place, "one", "Pod", "live-worker-0", "Odd", count=1, lastTimestamp=when)
        wait_for("the next", lambda: [each.reason for each in seen][1:] == ["Odd"])
        patch = {"count": 2, "lastTimestamp": "2100-01-01T00:00:01Z"}
        place.client.patch(place.path("events", body["metadata"]["name"]), patch).expect(200)
        wait_for("it once more", lambda: [each.count for each in seen][1:] == [1, 2])
    finally:
        following.cancel()
        with contextlib.suppress(BaseException):
            following.result(timeout=60)
