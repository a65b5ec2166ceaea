"""Errors of the disk (full, read-only, no permission) as the errors that a kubelet reports."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError

LEAST_FREE_BYTES = 4 * 1024**2

ErrorFactory = Callable[[str], SetupError]
"""Function from the text of a disk error to the error to report."""


@contextlib.contextmanager
def reported_as(new_error: ErrorFactory) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise new_error(message(error)) from error


def message(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def sandbox(problem: str) -> SetupError:
    return SetupError(f"Failed to create pod sandbox: {problem}", errors.FAILED_SANDBOX)


def container(problem: str) -> SetupError:
    return SetupError(problem, errors.CREATE_ERROR)


def free_if_short(folder: Path) -> int | None:
    """Return the free bytes of the directory's disk if they are below the threshold; None if there is enough space."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    return free if free < LEAST_FREE_BYTES else None
