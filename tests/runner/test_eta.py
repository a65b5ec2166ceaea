"""The estimated remaining time, and the progress files of tasks."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.client.pods import Pod
from windlass.localcluster.kubelet.pods.directory import PodDirectory
from windlass.runner import eta
from windlass.runner.eta import Pace, ProgressFiles
from windlass.wire.progress import Progress

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)

PACES = {
    "too-few-samples": ([(0, 1, 10)], None),
    "steady": ([(0, 0, 10), (2, 1, 10), (4, 2, 10)], 16.0),
    "no-progress-increases-the-estimate": ([(0, 0, 10), (2, 1, 10), (4, 1, 10)], 36.0),
    "done": ([(0, 0, 10), (5, 10, 10)], 0.0),
    "more-than-done": ([(0, 0, 10), (5, 12, 10)], 0.0),
    "without-a-total": ([(0, 0, 0), (5, 12, 0)], None),
    "restarted": ([(0, 0, 10), (5, 8, 10), (6, 0, 10)], None),
    "restarted-with-progress": ([(0, 0, 10), (5, 8, 10), (6, 0, 10), (8, 1, 10)], 18.0),
    "all-at-once": ([(0, 0, 10), (0, 5, 10)], None),
    "over-the-maximum": ([(0, 0, 10**15), (5, 1, 10**15)], None),
    "only-the-last-steps-count": (
        [(number, number, 1000) for number in range(10)]
        + [(10 + 2 * number, 10 + number, 1000) for number in range(100)],
        2.0 * (1000 - 109),
    ),
}


@pytest.mark.parametrize(("steps", "expected"), PACES.values(), ids=PACES.keys())
def test_estimated_remaining_time(steps: list[tuple[int, int, int]], expected: float | None) -> None:
    pace = Pace()
    found = None
    for seconds, step, total in steps:
        found = pace.remaining(Progress(step, total), BEGAN + timedelta(seconds=seconds))
    assert found == expected


# Progress files


def test_progress_file_is_read_only_after_a_change(tmp_path: Path) -> None:
    file, files = tmp_path / "progress", ProgressFiles()
    assert list(files.changes([file])) == []
    file.write_text("1/10\n")
    assert list(files.changes([file])) == [(file, Progress(1, 10))]
    assert list(files.changes([file])) == []
    with file.open("a") as stream:
        stream.write("2/10\n")
    assert list(files.changes([file])) == [(file, Progress(2, 10))]


def test_progress_file_that_is_not_a_file_is_ignored(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1/10\n")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "nonsense").write_bytes(b"\xff" * 100_000)
    names = ("link", "pipe", "folder", "nonsense", "missing")
    assert list(ProgressFiles().changes([tmp_path / name for name in names])) == []


def pod(mounts: list[dict[str, Any]], volumes: list[dict[str, Any]], value: str) -> Pod:
    container = {"env": [{"name": "WINDLASS_PROGRESS", "value": value}], "volumeMounts": mounts}
    return msgspec.convert(
        {"metadata": {"name": "p"}, "spec": {"containers": [{}, container], "volumes": volumes}}, Pod
    )


STATE = {"name": "state", "mountPath": "/windlass/state"}
EMPTY = {"name": "state", "emptyDir": {}}
PLACES = {
    "empty-dir": (pod([STATE], [EMPTY], "/windlass/state/progress"), "/pods/u/volumes/state/progress"),
    "below": (pod([STATE], [EMPTY], "/windlass/state/a/b"), "/pods/u/volumes/state/a/b"),
    "sub-path": (
        pod([{**STATE, "subPath": "mine"}], [EMPTY], "/windlass/state/progress"),
        "/pods/u/volumes/state/mine/progress",
    ),
    "host-path": (
        pod([STATE], [{"name": "state", "hostPath": {"path": "/srv"}}], "/windlass/state/progress"),
        "/srv/progress",
    ),
    "the-innermost-mount": (
        pod([{"name": "all", "mountPath": "/"}, STATE], [{"name": "all"}, EMPTY], "/windlass/state/p"),
        "/pods/u/volumes/state/p",
    ),
    "network-volume": (pod([STATE], [{"name": "state", "nfs": {}}], "/windlass/state/p"), None),
    "no-volume": (pod([STATE], [EMPTY], "/elsewhere/progress"), None),
    "path-outside": (pod([STATE], [EMPTY], "/windlass/state/../../etc/passwd"), None),
    "no-value": (pod([STATE], [EMPTY], ""), None),
}


@pytest.mark.parametrize(("given", "expected"), PLACES.values(), ids=PLACES.keys())
def test_path_of_progress_file_on_machine(given: Pod, expected: str | None) -> None:
    found = eta.progress_file(given, PodDirectory(Path("/pods/u")))
    assert found == (Path(expected) if expected is not None else None)
