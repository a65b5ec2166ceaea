from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import elections
from elections import Cluster, Fate, Sent
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader.lease import LostError
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Verb


def _finish(cluster: Cluster, ending: Coroutine[Any, Any, Any]) -> Any:
    results = []

    async def run() -> None:
        results.append(await ending)

    cluster.world.spawn(run())
    cluster.world.run(60)
    return results[0]


def test_leader_writes_and_candidate_reads_once_per_period() -> None:
    cluster = Cluster()
    cluster.start("a")
    cluster.world.run(1)
    cluster.start("b")
    cluster.world.run(20)
    assert cluster.requests("a") == [Verb.GET, Verb.CREATE, *[Verb.UPDATE] * 10]
    assert cluster.requests("b") == [Verb.GET] * 10
    assert cluster.led == ["a"]
    assert cluster.troubles == []


def test_own_lease_starts_before_the_request() -> None:
    cluster = Cluster(lambda _: Fate(there=1, back=2))
    elector, _ = cluster.start("a")
    cluster.world.run(6)
    assert cluster.led == ["a"]
    assert elector.remaining() == pytest.approx(12)


def test_lease_of_another_starts_at_the_answer() -> None:
    cluster = Cluster()
    _, first = cluster.start("a")
    cluster.world.run(1)
    fates = iter([Fate(there=3.5)])
    cluster.fate = lambda request: next(fates, Fate()) if request.verb is Verb.GET else Fate()
    cluster.start("b")
    cluster.world.run(4)
    cluster.world.kill(first)
    # It renewed while the look was on its way: counted from the question, b would come two seconds too early.
    cluster.world.run(30)
    assert cluster.led == ["a", "b"]


def test_candidate_has_no_remaining_time() -> None:
    cluster = Cluster()
    cluster.start("a")
    elector, _ = cluster.start("b")
    cluster.world.run(5)
    assert elector.remaining() == 0


def _lost_after(cluster: Cluster, change: Callable[[], None]) -> tuple[float, list[Sent]]:
    """When the leader of this cluster gives up after this, and what it asked for meanwhile."""
    elector = cluster.elector("a")
    cluster.world.spawn(cluster.term(elector, "a"))
    cluster.world.run(3)
    change()
    before, began = len(cluster.sent), cluster.world.now
    while not cluster.lost:
        cluster.world.run(0.01)
    assert elector.remaining() == 0
    return cluster.world.now - began, cluster.sent[before:]


@pytest.mark.parametrize(
    "fate", [Fate(arrives=False), Fate(answers=False), Fate(there=30), Fate(code=500), Fate(code=403)]
)
def test_leader_loses_the_lease_at_the_renew_deadline(fate: Fate) -> None:
    cluster = Cluster()

    def break_down() -> None:
        cluster.fate = lambda _: fate

    waited, asked = _lost_after(cluster, break_down)
    renewed = next(sent.at for sent in reversed(cluster.sent) if sent not in asked)
    lost_at = cluster.world.now
    assert lost_at - renewed == pytest.approx(10, abs=0.02)
    assert waited > 8
    assert len(asked) >= 2
    assert all(sent.at + sent.timeout <= renewed + 10.001 for sent in asked)
    assert cluster.lost == ["the lease was not renewed for 10 s"]
    assert cluster.troubles


def test_leader_loses_a_taken_lease_at_the_next_renewal() -> None:
    cluster = Cluster()

    def take() -> None:
        lease = elections.copy_of(cluster.server.lease)
        lease["spec"]["holderIdentity"] = "mallory"
        cluster.server.store(lease)

    waited, asked = _lost_after(cluster, take)
    assert waited < 2
    assert [sent.verb for sent in asked] == [Verb.UPDATE, Verb.GET]
    assert cluster.lost == ["the lease is held by mallory"]


def test_suspended_leader_loses_the_lease() -> None:
    cluster = Cluster()
    naps = iter([0.0, 0.0, 0.0, 12.0])
    cluster.start("a", stall=lambda: next(naps, 0.0))
    cluster.world.run(20)
    assert cluster.lost == ["the lease was not renewed for 10 s"]
    assert cluster.led == ["a", "a"]


def test_keep_without_a_lease_raises() -> None:
    cluster = Cluster()
    with pytest.raises(LostError, match="the lease is not held"):
        _finish(cluster, cluster.elector("a").keep())


def test_lost_answer_of_a_write_is_resolved_by_reading() -> None:
    cluster = Cluster()
    cluster.start("a")
    cluster.world.run(3)
    fates = iter([Fate(answers=False)])
    cluster.fate = lambda _: next(fates, Fate())
    cluster.world.run(9)
    assert cluster.requests("a")[3:] == [Verb.UPDATE, Verb.GET, Verb.UPDATE, Verb.UPDATE]
    assert cluster.lost == []


def test_other_changes_of_a_held_lease_are_kept() -> None:
    cluster = Cluster()
    cluster.start("a")
    cluster.world.run(3)
    cluster.server.touch()
    cluster.world.run(4)
    assert cluster.requests("a")[3:] == [Verb.UPDATE, Verb.GET, Verb.UPDATE, Verb.UPDATE]
    assert cluster.server.lease is not None
    assert cluster.server.lease["metadata"]["labels"] == {"touched": "2"}
    assert cluster.troubles == []


def test_deleted_lease_is_created_again_by_its_holder() -> None:
    cluster = Cluster()
    cluster.start("a")
    cluster.world.run(1)
    cluster.start("b")
    cluster.world.run(2.2)
    cluster.server.lease = None
    cluster.world.run(30)
    assert cluster.server.holder() == "a"
    assert cluster.led == ["a"]


def test_deleted_lease_of_a_dead_leader_is_taken_after_its_duration() -> None:
    cluster = Cluster()
    _, first = cluster.start("a")
    cluster.world.run(1)
    cluster.start("b")
    cluster.world.run(1)
    cluster.world.kill(first)
    cluster.server.lease = None
    cluster.world.run(10)
    assert cluster.led == ["a"]
    cluster.world.run(10)
    assert cluster.led == ["a", "b"]


def test_released_lease_is_taken_at_the_next_read() -> None:
    cluster = Cluster()
    elector, first = cluster.start("a")
    cluster.world.run(1)
    cluster.start("b")
    cluster.world.run(1)
    cluster.world.kill(first)

    async def release() -> None:
        assert await elector.release()

    cluster.world.spawn(release())
    cluster.world.run(3)
    assert cluster.led == ["a", "b"]
    assert elector.remaining() == 0


def test_released_lease_has_no_holder() -> None:
    cluster = Cluster()
    elector, running = cluster.start("a")
    cluster.world.run(1)
    cluster.world.kill(running)
    cluster.server.touch()
    assert _finish(cluster, elector.release()) is True
    assert cluster.server.lease is not None
    spec = cluster.server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert cluster.troubles == []


def test_lease_of_another_is_not_released() -> None:
    cluster = Cluster()
    elector = cluster.elector("b")
    assert _finish(cluster, elector.release()) is False
    cluster.start("a")
    cluster.world.run(1)
    assert _finish(cluster, elector.release()) is False
    assert cluster.server.holder() == "a"


def test_failed_release_returns_false() -> None:
    cluster = Cluster()
    elector, running = cluster.start("a")
    cluster.world.run(1)
    cluster.world.kill(running)
    cluster.fate = lambda _: Fate(arrives=False)
    assert _finish(cluster, elector.release()) is False
    assert [str(trouble) for trouble in cluster.troubles] == ["no answer"]


@pytest.mark.parametrize(
    ("body", "trouble"),
    [(b"<html>", "the response is not a Lease"), (b'{"spec": "\xff"}', "the response is not a Lease")],
)
def test_invalid_answer_raises_no_valid_response_error(body: bytes, trouble: str) -> None:
    cluster = Cluster()
    answers = iter([body])
    really = cluster.server.answer
    cluster.server.answer = lambda request: next(answers, None) or really(request)  # type: ignore[method-assign]
    cluster.start("a")
    cluster.world.run(5)
    assert cluster.led == ["a"]
    assert [str(told).partition(":")[0] for told in cluster.troubles] == [trouble]


def test_rejected_candidate_reports_and_retries() -> None:
    cluster = Cluster(lambda _: Fate(code=403))
    cluster.start("a")
    cluster.world.run(5)
    assert {type(trouble) for trouble in cluster.troubles} == {errors.ForbiddenError}
    cluster.fate = lambda _: Fate()
    cluster.world.run(5)
    assert cluster.led == ["a"]


def test_monotonic_clock_never_decreases() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
