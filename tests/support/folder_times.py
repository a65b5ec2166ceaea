"""A pytest plugin that ends each run with a table of the time that each folder of tests took.

The reports carry the durations, so the table is complete with pytest-xdist too: there the controller receives every
report, and each worker sends how long its collection took.
"""

import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pytest


@dataclass
class Times:
    seconds: float = 0.0
    tests: int = 0


class FolderTimes:
    def __init__(self) -> None:
        self.folders: dict[str, Times] = defaultdict(Times)
        self.collection = 0.0
        self._began = time.perf_counter()

    def pytest_collection(self) -> None:
        self._began = time.perf_counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collection = max(self.collection, time.perf_counter() - self._began)
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["collection"] = self.collection

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep the slowest collection of all workers; a worker that crashed has sent nothing."""
        self.collection = max(self.collection, getattr(node, "workeroutput", {}).get("collection", 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        times = self.folders[str(PurePosixPath(report.nodeid.split("::")[0]).parent)]
        times.seconds += report.duration
        times.tests += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.folders:
            terminalreporter.section("time per folder")
            terminalreporter.write("\n".join(table(self.folders, self.collection)) + "\n")


def table(folders: dict[str, Times], collection: float) -> list[str]:
    """Return the lines of the table: the slowest folder first, then the total and the collection."""
    slowest_first = sorted(folders.items(), key=lambda each: (-each[1].seconds, each[0]))
    total = Times(
        sum(times.seconds for times in folders.values()), sum(times.tests for times in folders.values())
    )
    return [
        "  seconds  tests  folder",
        *(f"{times.seconds:9.1f} {times.tests:6d}  {name}" for name, times in slowest_first),
        f"{total.seconds:9.1f} {total.tests:6d}  total",
        f"{collection:9.1f}         collection",
    ]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FolderTimes(), "folder times")
