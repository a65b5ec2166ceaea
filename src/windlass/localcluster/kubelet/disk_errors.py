"""What the disk refuses (it is full, or read-only, or somebody else's), in the words that a kubelet has for it."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError

LEAST_FREE_BYTES = 4 * 1024**2

Refusal = Callable[[str], SetupError]
"""The problem in words → the refusal that tells of it."""


@contextlib.contextmanager
def reported_as(refusal: Refusal) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(words(error)) from error


def words(error: OSError) -> str:
    said = error.strerror or str(error)
    return f"{error.filename}: {said}" if error.filename else said


def sandbox(problem: str) -> SetupError:
    return SetupError(f"Failed to create pod sandbox: {problem}", errors.FAILED_SANDBOX)


def container(problem: str) -> SetupError:
    return SetupError(problem, errors.CREATE_ERROR)


def free_if_short(folder: Path) -> int | None:
    """Of the folder's disk, if there is too little: what is written down next may not fit any more. None: enough."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    return free if free < LEAST_FREE_BYTES else None
