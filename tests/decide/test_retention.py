"""Which records are deleted: by count per job, by age, and by bytes per namespace."""

import builders
import pytest

from windlass.decide.retention import RecordEntry, expired
from windlass.model.settings import History


def entry(name: str, age: int, job: str = "a", namespace: str = "n", size: int = 10) -> RecordEntry:
    return RecordEntry(namespace, name, f"uid-{name}", job, builders.at(-age), size)


@pytest.mark.parametrize(
    ("limits", "entries", "found"),
    [
        pytest.param(History(), [entry("x", 1), entry("y", 2)], [], id="within all limits"),
        pytest.param(
            History(records_per_job=1),
            [entry("new", 1), entry("old", 3), entry("middle", 2), entry("other", 9, job="b")],
            ["old", "middle"],
            id="count per job, oldest first",
        ),
        pytest.param(
            History(records_per_job=1),
            [entry("x", 1), entry("y", 2, namespace="m")],
            [],
            id="the same name in another namespace is another job",
        ),
        pytest.param(
            History(retain_sec=60), [entry("x", 60), entry("y", 61)], ["y"], id="age, the limit is included"
        ),
        pytest.param(
            History(records_per_job=1),
            [entry("u-10", 1), entry("u-9", 1)],
            ["u-9"],
            id="attempts of the same second",
        ),
        pytest.param(
            History(bytes_per_namespace=25),
            [entry("x", 1), entry("y", 2), entry("z", 3, job="b"), entry("m", 4, namespace="m")],
            ["z"],
            id="bytes per namespace over all jobs",
        ),
        pytest.param(
            History(bytes_per_namespace=25),
            [entry("x", 1), entry("large", 2, size=100), entry("small", 3, size=1)],
            ["small", "large"],
            id="a large record does not outlive a newer one, nor a small one it",
        ),
        pytest.param(
            History(records_per_job=1, bytes_per_namespace=25),
            [entry("a1", 1), entry("a2", 2), entry("b1", 3, job="b")],
            ["a2"],
            id="deleted records do not count for the bytes",
        ),
    ],
)
def test_records_beyond_the_limits_expire(
    limits: History, entries: list[RecordEntry], found: list[str]
) -> None:
    assert [each.name for each in expired(entries, limits, builders.NOW)] == found
