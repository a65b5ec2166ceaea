"""Only tests on third-party processes are re-run, and the run lists those that needed it."""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
TESTS = """
import pathlib
import pytest

def fails_once(name):
    marker = pathlib.Path(name)
    if not marker.exists():
        marker.touch()
        pytest.fail("first try")

@pytest.mark.live
def test_live_once():
    fails_once("live")

def test_own_once():
    fails_once("own")

@pytest.mark.live
def test_live_always():
    pytest.fail("always")
"""


def test_live_tests_are_rerun_once_and_listed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = live: third-party processes\n")
    listed = tmp_path / "listed"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-p", "reruns"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(SUPPORT), "WINDLASS_RERUNS": str(listed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 1 passed, 2 rerun" in run.stdout
    assert "passed on the second try ===" in run.stdout
    first = run.stdout.partition("first failures of re-run tests ===")[2]
    assert "test_it.py::test_live_once" in first
    assert "Failed: first try" in first
    assert listed.read_text() == "test_it.py::test_live_once\n"
