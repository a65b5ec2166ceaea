"""Signals that stop a run."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.runner import interrupts
from windlass.runner.interrupts import Interrupts
from windlass.runner.local import data_folders


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """Handle the signals as in a shell. The tests themselves may run under nohup."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def sent(*numbers: signal.Signals) -> tuple[bool, bool]:
    """Send signals to a run that can stop gracefully; return whether it stops, and whether it ends at once."""
    found = Interrupts()
    found.can_be_graceful = True
    found.listen()
    for number in numbers:
        os.kill(os.getpid(), number)
        # asyncio reads the number of the signal from a pipe.
        async with asyncio.timeout(60):
            await found.stop.wait()
        for _ in range(3):
            await asyncio.sleep(0)
    return found.stop.is_set(), found.end.is_set()


@pytest.mark.parametrize(
    ("numbers", "ends_at_once"),
    [
        ([signal.SIGTERM], False),
        ([signal.SIGHUP], False),
        ([signal.SIGHUP, signal.SIGHUP], False),
        ([signal.SIGTERM, signal.SIGHUP], False),
        ([signal.SIGHUP, signal.SIGINT], True),
    ],
)
def test_closed_terminal_stops_gracefully(numbers: list[signal.Signals], ends_at_once: bool) -> None:
    assert asyncio.run(sent(*numbers)) == (True, ends_at_once)


def test_sighup_stays_ignored_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts.as_keyboard_interrupts():
        os.kill(os.getpid(), signal.SIGHUP)
        assert asyncio.run(sent()) == (False, False)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_closed_output_after_a_hang_up_is_not_a_second_interrupt() -> None:
    found = Interrupts()
    found.can_be_graceful = True
    found.hang_up()
    found.hang_up()
    assert (found.stop.is_set(), found.end.is_set()) == (True, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_without_event_loop_raise_keyboard_interrupt(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.as_keyboard_interrupts():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_after_the_event_loop_does_not_leave_a_folder(number: signal.Signals, tmp_path: Path) -> None:
    """The closed event loop has restored the default handlers, which end the process at once."""
    with interrupts.as_keyboard_interrupts():
        with contextlib.suppress(KeyboardInterrupt), data_folders.temporary_run_folder(tmp_path) as folder:
            assert asyncio.run(sent()) == (False, False)
            os.kill(os.getpid(), number)
        assert not folder.exists()
    assert signal.getsignal(number) == signal.SIG_DFL


def test_signals_during_the_removal_of_a_folder_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = data_folders.remove

    def remove_with_signals(folder: Path) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        remove(folder)

    monkeypatch.setattr(data_folders, "remove", remove_with_signals)
    with data_folders.temporary_run_folder(tmp_path) as folder:
        pass
    assert not folder.exists()


def test_signal_while_the_event_loop_is_closed_is_not_fatal() -> None:
    class Loop(asyncio.SelectorEventLoop):
        def close(self) -> None:
            super().close()
            os.kill(os.getpid(), signal.SIGHUP)

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return Loop()

    asyncio.set_event_loop_policy(Policy())
    try:
        with interrupts.as_keyboard_interrupts():
            assert asyncio.run(sent()) == (False, False)
    finally:
        asyncio.set_event_loop_policy(None)
