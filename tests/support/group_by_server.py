"""A pytest plugin that runs all tests of one server on one worker: `pytest -n 6 -p tests.support.group_by_server`.

A real API server costs ten seconds of CPU time to start. Most tests wait most of the time, so there are more workers
than processors.
"""

import re
from typing import Any, Final, NamedTuple

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

GROUPS: Final = (
    (r"tests/operator/test_kills\.py::(.+)", r"\1"),
    (
        r"tests/operator/test_(configuration|leader_election|api_failures|permissions|takeover)\.py",
        "own servers",
    ),
    (r"tests/clients/kubectl/.+\[(\d\.\d+)\b", r"kubectl \1"),
    (r"tests/cluster/", "conformance"),
    (r"tests/operator/", "the shared server"),
    (r"(.+?)::", r"\1"),
)
"""Patterns of test names and their groups; the first match counts, and its groups start first."""


class Group(NamedTuple):
    rank: int
    name: str


def group_of(nodeid: str) -> Group:
    matches = ((rank, re.match(pattern, nodeid), name) for rank, (pattern, name) in enumerate(GROUPS))
    return next(Group(rank, match.expand(name)) for rank, match, name in matches if match)


class ByServer(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid).name


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    config.option.loadscopereorder = False  # the largest groups are not the slowest ones
    return ByServer(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: group_of(item.nodeid).rank)
