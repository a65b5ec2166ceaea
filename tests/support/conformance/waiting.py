"""Waiting for asynchronous changes. Requests are not recorded while waiting."""

import time
from collections.abc import Callable
from typing import TypeVar

from conformance.client import SECONDS_TO_WAIT, Answer, Client

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], seconds: float = SECONDS_TO_WAIT) -> T:
    """Return the first true result of `look`."""
    end, pause = time.monotonic() + seconds, 0.01
    while True:
        if seen := look():
            return seen
        assert time.monotonic() < end, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def wait_until_gone(client: Client, path: str) -> None:
    wait_for(f"{path} to be gone", lambda: client.get(path).code == 404)


def wait_until(client: Client, path: str, is_true: Callable[[Answer], bool]) -> Answer:
    def look() -> Answer | None:
        answer = client.get(path)
        return answer if answer.code == 200 and is_true(answer) else None

    return wait_for(f"{path} to change", look)
