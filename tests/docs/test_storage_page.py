"""The page about storage: every kind of volume has an example."""

import re
from pathlib import Path

import pytest

from windlass.jobfile import volumes

PAGE = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("source", volumes.SOURCES)
def test_every_source_has_an_example(source: str) -> None:
    assert any(f"{source}: " in example for example in EXAMPLES)
    assert f"`{source}`" in PAGE
