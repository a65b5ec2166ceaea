"""What root may do says nothing of what others may not: for as long as it takes, a test is nobody."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def of_nobody(folder: Path) -> Iterator[None]:
    """The folder, and all that is in it, is nobody's from now on. Who is not root stays who he is."""
    if os.geteuid() != 0:
        yield
        return
    for each in (folder, *folder.rglob("*")):
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
    for above in folder.parents:
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    # All three are changed, so that shells believe it; the last one is the way back.
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
