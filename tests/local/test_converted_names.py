"""Unchanged jobs of other systems on an embedded cluster: the host names of the original resolve."""

import foreign_jobs
import pytest
from pods.commands import Home


@pytest.mark.parametrize("job", foreign_jobs.NAMES)
def test_host_names_of_the_original_resolve(home: Home, job: str) -> None:
    file = home.folder / "job.yaml"
    file.write_text(foreign_jobs.text(job))
    done = home.windlass("run", "--logs", "--network", "isolated", file).expect(0)
    task, _ = foreign_jobs.NAMES[job]
    printed = (line.partition(" | ") for line in done.lines)
    lines = [text for name, _, text in printed if name.rstrip() == task]
    foreign_jobs.assert_names_resolve(job, lines)
