"""Folders nested deeper than recursive functions and paths can reach."""

import os
from pathlib import Path


def make_deep_folder(top: Path, depth: int, name: str = "d") -> None:
    """Create nested folders and a file in the innermost one."""
    top.mkdir(exist_ok=True)
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)
