"""What the tests of the tools share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    line = Lifeline(tmp_path)
    yield line
    line.close()
