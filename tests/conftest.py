"""Property tests use the same examples everywhere, without time limits.

Machines may be slow, and runs must be reproducible. `HYPOTHESIS_PROFILE=default` explores new examples.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["cheap_passwords", "folder_times", "reruns"]

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# A server on a busy machine may be slow.
os.environ.setdefault("WINDLASS_CONNECT_TIMEOUT", "60s")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# The tests run as in an activated environment: tasks find the Python that has the packages of the tests.
programs = str(Path(sys.executable).parent)
if programs not in os.environ.get("PATH", "").split(os.pathsep):
    os.environ["PATH"] = os.pathsep.join((programs, os.environ.get("PATH", os.defpath)))

# pytest-xdist sets the width of its terminal, to which commands would cut their tables.
os.environ.pop("COLUMNS", None)

# A shell starts background jobs with SIGINT ignored, which programs inherit: Ctrl-C would not end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def restored_signal_handlers() -> Iterator[None]:
    """Restore the handlers after a test that runs a command in this process: `windlass run` keeps its own."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark whole folders; elsewhere a module or a test has the marker `pods` itself."""
    if item.nodeid.startswith(("tests/kubelet/", "tests/local/")):
        item.add_marker("pods")
