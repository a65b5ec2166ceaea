"""Expand `~` in paths from the command line and from job files."""

import os
from pathlib import Path


def expanded(path: str) -> Path:
    """Expand `~` and `~user`. An unknown user is left as it is, so that opening the file fails with a clear message."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 — Path.expanduser raises RuntimeError instead
