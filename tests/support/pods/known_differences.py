"""Known differences between pods on a real and on the embedded cluster, each with its reason. Tests have no other list
of exceptions.

The embedded cluster follows current releases. A test that the real one is known to fail has to fail there: an entry
that is no longer true makes the run fail. Tests are named by their file and their function, and where only one of
its cases differs, by the whole name.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

ALWAYS: Final = 1000
"""No release of Kubernetes is as new as this."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    real: str
    ours: str
    why: str
    before: int = ALWAYS
    """Releases before this minor one differ, and those since do as ours."""
    since: int = 0
    """Releases before this minor one do as ours."""
    may_pass: bool = False
    """The result depends on timing."""
    runs: bool = True
    """False for a test that would wait minutes for something that never happens."""

    def description(self, test: str) -> str:
        return f"{test}: real: {self.real}; ours: {self.ours}; why: {self.why}"


REAL_FAILS: Final[Mapping[str, Difference]] = {
    **dict.fromkeys(
        (
            "test_init_containers.py::test_sidecar_runs_in_parallel_and_ends_last",
            "test_init_containers.py::test_ended_sidecar_is_restarted",
            "test_init_containers.py::test_containers_wait_for_startup_probe_of_a_sidecar",
        ),
        Difference(
            real="drops the restartPolicy of an init container",
            ours="runs it beside the others",
            why="sidecars came with 1.29",
            before=29,
        ),
    ),
    "test_volume_mounts.py::test_memory_volume_has_a_size_limit": Difference(
        real="limits a volume in memory to half of the node's memory",
        ours="limits it to its sizeLimit",
        why="the size of such volumes came with 1.22",
        before=22,
    ),
    "test_pod_logs.py::test_tail_of_a_long_line_is_the_whole_line": Difference(
        real="tailLines counts a line of more than 16 KiB as several",
        ours="a line is a line",
        why="container runtimes store a long line in parts, and the kubelet counts those",
    ),
    "test_pod_logs.py::test_many_lines_before_the_end": Difference(
        real="the end of a long output may be missing",
        ours="the log is whole",
        why="containerd 1.6 was seen to lose up to 100 KB that were written right before the end",
        may_pass=True,
    ),
    "test_terminations.py::test_grace_period_can_be_shortened_later": Difference(
        real="a second deletion with a shorter grace period does not end the pod sooner; grace 0 removes it",
        ours="the pod ends after the shorter grace period",
        why="seen with kubelet 1.37.1 on containerd 1.6; the kubelet of 1.20 ends the pod as ours does",
        since=21,
        runs=False,
    ),
}
"""Tests that a real cluster is known to fail."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a test expects from older and from newer releases."""

    since: int
    older: str
    newer: str
    why: str

    def of(self, minor: int) -> str:
        return self.newer if minor >= self.since else self.older

    def description(self, test: str) -> str:
        return f"{test}: real: {self.older!r}; ours: {self.newer!r}; why: {self.why}"


CHANGES: Final[Mapping[str, Change]] = {
    "test_host_paths.py::test_pod_waits_for_a_missing_path": Change(
        since=31,
        older="hostPath type check failed: {path} {words}",
        newer="hostPath type check failed, {path} {words}, unable to determine its type: "
        'path "{path}" does not exist',
        why="newer releases say what is at the path",
    ),
    "test_pod_events.py::test_start_events[Pulled]": Change(
        since=32,
        older='Container image "{image}" already present on machine',
        newer='Container image "{image}" already present on machine( and can be accessed by the pod)?',
        why="newer releases ask who may use an image",
    ),
    "test_pod_events.py::test_start_events[Created]": Change(
        since=32,
        older="Created container main",
        newer="Created container: main|Container created",
        why="reworded",
    ),
    "test_pod_events.py::test_start_events[Started]": Change(
        since=32,
        older="Started container main",
        newer="Started container main|Container started",
        why="reworded",
    ),
    "test_probing.py::test_slow_probe_times_out": Change(
        since=24,
        older=r"Readiness probe failed: ",
        newer=r"Readiness probe failed: .*(timed out|timeout|DeadlineExceeded).*",
        why="since 1.24, the message says that the probe timed out",
    ),
    "test_status_stages.py::test_conditions_of_a_failure": Change(
        since=27, older="ContainersNotReady", newer="PodFailed", why="a reason of its own since 1.27"
    ),
    "test_terminations.py::test_eviction_deletes_the_pod": Change(
        since=22, older="policy/v1beta1", newer="policy/v1", why="evictions are stable since 1.22"
    ),
}
"""Values of the fixture `by_release`."""


def of_failure(test: str, minor: int) -> Difference | None:
    """Return why a test must fail on a real cluster of that release; None if it must pass."""
    found = REAL_FAILS.get(test)
    return found if found and found.since <= minor < found.before else None


def of_release(names: Iterable[str], minor: int) -> str:
    """Return the entry of a test, by its full name or without its parameters."""
    (found,) = (CHANGES[name] for name in names if name in CHANGES)
    return found.of(minor)


def description(test: str, minor: int) -> str | None:
    """Return the difference to report for a test on a real cluster of that release."""
    found = of_failure(test, minor)
    if found:
        return found.description(test)
    change = CHANGES.get(test)
    return change.description(test) if change and minor < change.since else None
