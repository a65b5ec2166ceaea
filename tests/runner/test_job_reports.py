"""The files of the reports about the jobs of a run."""

from pathlib import Path

import pytest

from windlass.runner.job_reports import path_of

A, B, OTHER_A = ("default", "a"), ("default", "b"), ("team", "a")


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([A], ["r.html"]),
        ([A, B], ["r-a.html", "r-b.html"]),
        ([A, B, OTHER_A], ["r-default-a.html", "r-b.html", "r-team-a.html"]),
    ],
)
def test_file_of_each_of_several_jobs_has_its_name(jobs: list[tuple[str, str]], expected: list[str]) -> None:
    assert [path_of(Path("r.html"), job, jobs).name for job in jobs] == expected
