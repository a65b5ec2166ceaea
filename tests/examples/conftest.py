"""The examples, run as in their READMEs: `make test-examples`.

They train with packages that Windlass itself does not need. Examples whose packages are missing are skipped; with
WINDLASS_TEST_EXAMPLES=required they fail.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def output() -> Iterator[Path]:
    """A folder of the machine for the results of a job."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-output-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
