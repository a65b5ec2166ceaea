"""Callbacks for descriptors and timers run when they are due, and only once."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from windlass.localcluster.sandbox import poll_loop
from windlass.localcluster.sandbox.poll_loop import PollLoop


class Pipe(NamedTuple):
    reader: int
    writer: int

    def fill(self) -> None:
        os.write(self.writer, b"x")

    def empty(self) -> None:
        os.read(self.reader, 9)


class World:
    def __init__(self) -> None:
        self.loop = PollLoop()
        self.done: list[str] = []
        self._pipes: list[Pipe] = []

    def pipe(self) -> Pipe:
        self._pipes.append(Pipe(*os.pipe()))
        return self._pipes[-1]

    def do(self, word: str) -> None:
        self.done.append(word)

    def close(self) -> None:
        self.loop.close()
        for pipe in self._pipes:
            for descriptor in pipe:
                os.close(descriptor)


@pytest.fixture
def world() -> Iterator[World]:
    one = World()
    yield one
    one.close()


def test_readable_descriptor_is_reported_until_it_is_read(world: World) -> None:
    pipe, other = world.pipe(), world.pipe()
    world.loop.add(pipe.reader, lambda: world.do("read"))
    world.loop.add(other.reader, lambda: world.do("other"))
    pipe.fill()
    world.loop.run_once()
    world.loop.run_once()
    assert world.done == ["read", "read"]
    pipe.empty()
    other.fill()
    world.loop.run_once()
    assert world.done == ["read", "read", "other"]


def test_removed_descriptor_is_not_reported(world: World) -> None:
    """Even if it was found together with what removed it, in whichever order."""
    pipes = [world.pipe(), world.pipe()]

    def act(own: Pipe, other: Pipe) -> None:
        world.do("one")
        world.loop.remove(other.reader)

    world.loop.add(pipes[0].reader, lambda: act(*pipes))
    world.loop.add(pipes[1].reader, lambda: act(*reversed(pipes)))
    for pipe in pipes:
        pipe.fill()
    world.loop.run_once()
    assert world.done == ["one"]


def test_reused_descriptor_number_is_another_descriptor(world: World) -> None:
    """An event of the first descriptor does not trigger the callback of the second one."""
    pipes = [world.pipe(), world.pipe()]
    later = world.pipe()

    def replace(other: Pipe) -> None:
        world.do("replaced")
        world.loop.remove(other.reader)
        os.dup2(later.reader, other.reader)
        world.loop.add(other.reader, lambda: world.do("new"))

    world.loop.add(pipes[0].reader, lambda: replace(pipes[1]))
    world.loop.add(pipes[1].reader, lambda: replace(pipes[0]))
    for pipe in pipes:
        pipe.fill()
    world.loop.run_once()
    assert world.done == ["replaced"]


def test_removing_an_unknown_descriptor_is_allowed(world: World) -> None:
    pipe = world.pipe()
    world.loop.remove(pipe.reader)
    world.loop.add(pipe.reader, lambda: world.do("read"))
    pipe.fill()
    world.loop.run_once()
    assert world.done == ["read"]


def test_timers_fire_once_in_order(world: World) -> None:
    world.loop.call_later("late", 0.02, lambda: world.do("late"))
    world.loop.call_later("early", 0, lambda: world.do("early"))
    while len(world.done) < 2:
        world.loop.run_once()
    world.loop.call_later("last", 0, lambda: world.do("last"))
    world.loop.run_once()
    assert world.done == ["early", "late", "last"]


def test_timer_can_be_replaced_or_cancelled(world: World) -> None:
    world.loop.call_later("key", 100000, lambda: world.do("first"))
    world.loop.call_later("other", 0, lambda: world.do("other"))
    world.loop.call_later("key", 0, lambda: world.do("second"))
    world.loop.cancel("other")
    world.loop.cancel("none")
    world.loop.run_once()
    assert world.done == ["second"]


def test_due_timer_may_cancel_another(world: World) -> None:
    def act() -> None:
        world.do("act")
        world.loop.cancel("forgotten")
        world.loop.call_later("act", 0, lambda: world.do("again"))

    world.loop.call_later("act", 0, act)
    world.loop.call_later("forgotten", 0, lambda: world.do("forgotten"))
    world.loop.run_once()
    assert world.done == ["act"]
    world.loop.run_once()
    assert world.done == ["act", "again"]


def test_readable_descriptor_does_not_wait_for_timers(world: World) -> None:
    pipe = world.pipe()
    world.loop.add(pipe.reader, lambda: world.do("read"))
    world.loop.call_later("key", 100000, lambda: world.do("moment"))
    pipe.fill()
    world.loop.run_once()
    assert world.done == ["read"]


@pytest.fixture
def _own_signals() -> Iterator[None]:
    before, wakeup = signal.getsignal(signal.SIGCHLD), signal.set_wakeup_fd(-1)
    yield
    writer = signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, before)
    os.close(writer)


@pytest.mark.usefixtures("_own_signals")
def test_end_of_a_child_wakes_the_loop(world: World) -> None:
    woken = poll_loop.child_exit_descriptor()
    world.loop.add(woken, lambda: world.do("woken"))
    # Without an ended child nothing is readable, and the call does not block.
    poll_loop.drain(woken)
    for _ in range(2):
        with subprocess.Popen(["/bin/sh", "-c", "exit 3"]) as child:
            world.loop.run_once()
            assert child.wait() == 3
        poll_loop.drain(woken)
    assert world.done == ["woken", "woken"]
    os.close(woken)
