"""The `~` at the beginning of a path that somebody has written down."""

import os
from pathlib import Path


def expanded(path: str) -> Path:
    """That of nobody stays: then there is no such file, and whoever opens it says so."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 — that of Path has no message for people
