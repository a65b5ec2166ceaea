"""Run a test as nobody, because root ignores permissions."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Give a folder and its contents to nobody and become nobody. Without root nothing changes."""
    if os.geteuid() != 0:
        yield
        return
    for each in (folder, *folder.rglob("*")):
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
    for above in folder.parents:
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    # All three IDs are changed, so that shells respect it; the saved one allows the way back.
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
