"""Exit codes of containers with injected faults."""

import signal

import pytest

from windlass.localcluster.kubelet.fault_injection import FaultInjector
from windlass.localcluster.sandbox.messages import Ended

KILLED = Ended("run", 1.0, 0, signal.SIGKILL)
ENDS = {
    "code": (3, KILLED, Ended("run", 1.0, 3)),
    "success": (0, KILLED, Ended("run", 1.0, 0)),
    "a-kill-like-any-other": (137, KILLED, KILLED),
    "it-had-ended-before": (3, Ended("run", 1.0, 7), Ended("run", 1.0, 7)),
    "it-had-succeeded-before": (3, Ended("run", 1.0, 0), Ended("run", 1.0, 0)),
    "another-signal-was-first": (
        3,
        Ended("run", 1.0, 0, signal.SIGSEGV),
        Ended("run", 1.0, 0, signal.SIGSEGV),
    ),
    "out-of-memory": (3, Ended("run", 1.0, 0, 9, True), Ended("run", 1.0, 0, 9, True)),
    "another-run": (3, Ended("other", 1.0, 0, 9), Ended("other", 1.0, 0, 9)),
}


@pytest.mark.parametrize(("code", "end", "reported"), ENDS.values(), ids=ENDS)
def test_injected_exit_code_replaces_a_kill(code: int, end: Ended, reported: Ended) -> None:
    done = FaultInjector()
    done.set_exit_code("run", code)
    assert done.apply(end) == reported


def test_injected_exit_code_is_reported_once() -> None:
    done = FaultInjector()
    done.set_exit_code("run", 3)
    done.apply(KILLED)
    assert done.apply(KILLED) == KILLED


def test_without_faults_nothing_changes() -> None:
    assert FaultInjector().apply(KILLED) == KILLED
    assert FaultInjector().start_delay({"metadata": {}}) == 0.0
