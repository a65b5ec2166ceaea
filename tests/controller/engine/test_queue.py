"""The queue: one pass at a time per key, timers, back-off, gathering."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controller.engine import queue as queues
from windlass.controller.engine.queue import KeyedQueue


def drain(queue: KeyedQueue[str], seconds: float) -> list[str]:
    """Everything that is due then, each with a pass that does nothing."""
    taken = []
    while (key := queue.take(seconds)) is not None:
        taken.append(key)
        queue.done(key)
    return taken


def test_keys_are_taken_in_order() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert len(queue) == 3
    assert drain(queue, 0) == ["b", "a", "c"]


def test_changes_during_a_pass_lead_to_one_more_pass() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    assert queue.take(0) == "a"
    queue.add("a")
    queue.add("a")
    assert queue.take(0) is None
    queue.done("a")
    assert drain(queue, 0) == ["a"]


def test_earliest_timer_fires_when_due() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_at("a", 10)
    queue.add_at("a", 5)
    queue.add_at("a", 20)
    assert queue.next_time() == 5
    assert drain(queue, 4.9) == []
    assert drain(queue, 5) == ["a"]
    assert queue.next_time() is None
    assert drain(queue, 60) == []


def test_forgotten_key_has_no_timer() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_at("a", 5)
    queue.forget("a")
    assert queue.next_time() is None
    assert drain(queue, 10) == []


def test_timer_during_a_pass_leads_to_one_more_pass() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    queue.add_at("a", 1)
    assert queue.take(0) == "a"
    assert queue.take(2) is None
    queue.done("a")
    assert drain(queue, 2) == ["a"]


def test_changes_of_a_held_key_are_processed_once_after_the_hold() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.hold("a", 1)
    assert queue.next_time() is None, "nothing happened, so nothing is due"
    queue.add("a")
    queue.add("a")
    assert drain(queue, 0.9) == []
    assert drain(queue, 1) == ["a"]
    queue.add("a")
    assert drain(queue, 1) == ["a"], "the hold is over"


def test_key_held_at_the_end_of_its_pass_waits() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    queue.take(0)
    queue.add("a")
    queue.hold("a", 1)
    queue.done("a")
    assert drain(queue, 0.5) == []
    assert drain(queue, 1) == ["a"]


def test_timer_fires_for_a_held_key() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.hold("a", 10)
    queue.add_at("a", 1)
    assert drain(queue, 1) == ["a"]


def test_failures_back_off_and_a_success_resets() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    waits = []
    for _ in range(12):
        queue.retry("a", 0)
        due = queue.next_time()
        assert due is not None
        waits.append(due)
        drain(queue, 1e6)
    assert waits[0] <= queues.INITIAL_BACKOFF
    assert waits[-1] <= queues.MAX_BACKOFF
    assert waits[-1] >= queues.MAX_BACKOFF / 2
    queue.succeeded("a")
    queue.retry("a", 0)
    assert queue.next_time() == waits[0]


def test_changes_do_not_shorten_the_backoff() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.retry("a", 0)
    due = queue.next_time()
    assert due is not None
    queue.add("a")
    assert drain(queue, due - 0.001) == []
    assert drain(queue, due) == ["a"]


def test_replaced_timers_are_removed() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for number in range(10 * queues.MAX_STALE_TIMERS):
        queue.add_at("a", 1e6 - number)
    assert len(queue._timers) <= queues.MAX_STALE_TIMERS + 3


@pytest.mark.parametrize("failures", [0, 1, 5, 10, 100, 10**6])
def test_backoff_has_a_jitter_of_up_to_half(failures: int) -> None:
    full = min(queues.MAX_BACKOFF, queues.INITIAL_BACKOFF * 2 ** min(failures, 20))
    assert full / 2 <= queues.backoff("a", failures) <= full


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "at", "take", "done", "hold"]))))
def test_no_key_is_lost_or_processed_twice_at_once(steps: list[tuple[str, str]]) -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    running: set[str] = set()
    wanted: set[str] = set()
    for number, (key, step) in enumerate(steps):
        now = number
        match step:
            case "add":
                queue.add(key)
                wanted.add(key)
            case "at":
                queue.add_at(key, now + 2)
                wanted.add(key)
            case "hold":
                queue.hold(key, now + 3)
            case "take":
                taken = queue.take(now)
                if taken is not None:
                    assert taken not in running
                    running.add(taken)
                    wanted.discard(taken)
            case _:
                if key in running:
                    running.discard(key)
                    queue.done(key)
    for key in running:
        queue.done(key)
    assert wanted <= set(drain(queue, len(steps) + 10))
