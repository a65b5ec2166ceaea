"""The table that ends each run: seconds and tests of each folder, and the collection."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from folder_times import FolderTimes, Times, table

SUPPORT = Path(__file__).parents[1] / "support"


def test_slowest_folder_comes_first_and_equal_ones_in_order_of_their_names() -> None:
    folders = {
        "tests/wire": Times(0.26, 1569),
        "tests/cli": Times(61.04, 1273),
        "tests/cli/runs": Times(9.0, 2),
        "tests/barrier": Times(9.0, 1),
    }
    assert table(folders, 7.21) == [
        "  seconds  tests  folder",
        "     61.0   1273  tests/cli",
        "      9.0      1  tests/barrier",
        "      9.0      2  tests/cli/runs",
        "      0.3   1569  tests/wire",
        "     79.3   2845  total",
        "      7.2         collection",
    ]


Phase = Literal["setup", "call", "teardown"]


def report(nodeid: str, when: Phase, duration: float) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid, ("", 0, ""), {}, "passed", longrepr=None, when=when, duration=duration, start=0, stop=0
    )


def test_folder_includes_setup_and_teardown_and_counts_each_test_once() -> None:
    times = FolderTimes()
    phases: tuple[tuple[Phase, float], ...] = (("setup", 1.0), ("call", 2.0), ("teardown", 4.0))
    for when, duration in phases:
        times.pytest_runtest_logreport(report("tests/cli/test_run.py::test_a[x/y]", when, duration))
    times.pytest_runtest_logreport(report("tests/cli/test_run.py::test_skipped", "setup", 8.0))
    times.pytest_runtest_logreport(report("tests/wire/test_a.py::TestA::test_a", "call", 16.0))
    assert times.folders == {"tests/cli": Times(15.0, 2), "tests/wire": Times(16.0, 0)}


def test_table_of_a_run_with_xdist_has_the_collection_of_its_workers(tmp_path: Path) -> None:
    for folder in ("one", "one/two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_it.py").write_text(
            "import time\ntime.sleep(0.03)\ndef test_it(): pass\n", encoding="utf-8"
        )
    command = "-m pytest -n 1 --import-mode=importlib -p no:schemathesis -p no:cacheprovider -p folder_times"
    run = subprocess.run(  # noqa: S603 (a pytest of its own)
        [sys.executable, *command.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = re.findall(r"^ +([\d.]+) +(\d*) +(\S+)$", run.stdout, re.MULTILINE)
    assert sorted((tests, name) for _, tests, name in rows) == [
        ("", "collection"),
        ("1", "one"),
        ("1", "one/two"),
        ("2", "total"),
    ]
    assert float(rows[-1][0]) > 0
