"""Unchanged jobs of other systems on Kubernetes: the host names of the original resolve."""

import foreign_jobs
import pytest
from live import jobs
from live.command_line import Console


@pytest.mark.parametrize("job", foreign_jobs.NAMES)
def test_host_names_of_the_original_resolve(console: Console, job: str) -> None:
    console.write({"job.yaml": foreign_jobs.text(job, jobs.IMAGE)})
    console("submit", "job.yaml", "--wait")
    task, _ = foreign_jobs.NAMES[job]
    foreign_jobs.assert_names_resolve(job, console("logs", "names", task).lines)
