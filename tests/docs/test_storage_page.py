"""The page about storage: every example is a valid job file, and every kind of volume has one."""

import re
from pathlib import Path

import pytest

from windlass.jobfile import volumes
from windlass.render import documents

PAGE = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_a_valid_job_file(example: str) -> None:
    found = documents.read(example.encode(), "storage.md")
    assert found.diagnostics == ()
    assert found.submissions


@pytest.mark.parametrize("source", volumes.SOURCES)
def test_every_source_has_an_example(source: str) -> None:
    assert any(f"{source}: " in example for example in EXAMPLES)
    assert f"`{source}`" in PAGE
