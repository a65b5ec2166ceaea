"""A pytest plugin that re-runs failed tests on third-party processes once, and lists the tests that then passed. It
prints why each re-run test failed first: pytest itself reports only the last failure.

A test with the marker `live` runs a real Kubernetes, TensorFlow, Jupyter or another third-party program; no other test
is re-run. The list is printed at the end of the run, and appended to the file that WINDLASS_RERUNS names, so that CI
can count the entries of several runs.
"""

import os
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
LIVE_FOLDERS: Final = (
    TESTS / "kubernetes",
    TESTS / "examples",
    TESTS / "launchers",
    TESTS / "clients" / "kubectl",
)
FILE: Final = "WINDLASS_RERUNS"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    is_real_server = os.environ.get("WINDLASS_TEST_CLUSTER") == "real"
    for item in items:
        if is_real_server or any(item.path.is_relative_to(folder) for folder in LIVE_FOLDERS):
            item.add_marker(pytest.mark.live)
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rerun = {report.nodeid: report for report in terminalreporter.stats.get("rerun", ())}
    if rerun:
        terminalreporter.section("first failures of re-run tests")
    for nodeid, report in rerun.items():
        terminalreporter.write_line(f"{nodeid}\n{report.longreprtext}\n")
    failed = {
        report.nodeid for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, ())
    }
    passed = sorted(rerun.keys() - failed)
    if not passed:
        return
    terminalreporter.section("passed on the second try")
    for nodeid in passed:
        terminalreporter.write_line(nodeid)
    if name := os.environ.get(FILE):
        with Path(name).open("a") as file:
            file.writelines(f"{nodeid}\n" for nodeid in passed)
