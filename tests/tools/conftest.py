"""Fixtures for the tests of the tools."""

import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    line = Lifeline(tmp_path)
    yield line
    line.close()


@pytest.fixture
def second_waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set when a process waits for a lock."""
    found, lock = threading.Event(), fcntl.flock

    def spy(file: int, how: int) -> None:
        try:
            lock(file, how)
        except BlockingIOError:
            found.set()
            raise

    monkeypatch.setattr(fcntl, "flock", spy)
    return found
