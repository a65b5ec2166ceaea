"""The examples, run as somebody runs them who has read their READMEs: `make test-examples`.

They train for real, with packages that Windlass itself does not need. Where one is missing, its examples are skipped
and say so; with WINDLASS_TEST_EXAMPLES=required they fail.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def output() -> Iterator[Path]:
    """A folder of the machine that a job writes its results to."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-output-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
