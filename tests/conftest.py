"""Property tests use the same examples everywhere, without time limits.

Machines may be slow, and runs must be reproducible. `HYPOTHESIS_PROFILE=default` explores new examples.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["cheap_passwords", "folder_times", "reruns"]

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# A server on a busy machine may be slow.
os.environ.setdefault("WINDLASS_CONNECT_TIMEOUT", "60s")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A shell starts background jobs with SIGINT ignored, which programs inherit: Ctrl-C would not end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark whole folders; elsewhere a module or a test has the marker `pods` itself."""
    if item.nodeid.startswith(("tests/kubelet/", "tests/local/")):
        item.add_marker("pods")
