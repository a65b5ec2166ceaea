"""Whether memory was what ended a container, from texts as kernels write them."""

from typing import Any

import pytest

from windlass.localcluster.sandbox import oom

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
ROLLUP = "00400000-7fff0000 ---p 00000000 00:00 0  [rollup]\nRss:  900 kB\nPss:  {} kB\nPss_Anon:  700 kB\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (V2.format(0), V2.format(1), True),
        (V2.format(1), V2.format(1), False),
        (V1.format(0), V1.format(2), True),
        ("oom_kill_disable 0\nunder_oom 1\n", "oom_kill_disable 0\nunder_oom 1\n", False),
        ("", V2.format(1), True),
        ("", "", False),
    ],
)
def test_was_killed_for_memory(before: str, after: str, expected: bool) -> None:
    assert oom.was_killed_for_memory(before, after) is expected


@pytest.mark.parametrize(
    ("processes", "limit", "expected"),
    [
        ([400, 600], 1000 * 1024, False),
        ([400, 601], 1000 * 1024, True),
        ([400, 601], None, False),
        ([], 1, False),
    ],
)
def test_must_be_killed(processes: list[int], limit: int | None, expected: bool) -> None:
    assert oom.must_be_killed([*map(ROLLUP.format, processes), ""], limit) is expected


def test_all_mappings_of_a_process_are_added() -> None:
    assert oom.proportional_bytes("Pss: 4 kB\nPss_Dirty: 4 kB\nPss: 8 kB\n") == 12 * 1024


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, None),
        ({"resources": {}}, None),
        ({"resources": {"limits": {"cpu": "1"}}}, None),
        ({"resources": {"limits": {"memory": "0"}}}, None),
        ({"resources": {"limits": {"memory": "1.5Gi"}}}, 1536 * 2**20),
    ],
)
def test_memory_limit(container: dict[str, Any], expected: int | None) -> None:
    assert oom.memory_limit(container) == expected
