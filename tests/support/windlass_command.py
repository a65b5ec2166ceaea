"""Run the real command as a user would."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OWN_PROGRAMS = Path(sys.executable).parent
_TIME = re.compile(r"^\d\d:\d\d:\d\d\.\d\d\d  ", re.MULTILINE)


def windlass(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the finished command. Times at the beginning of lines are removed from its output."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    done.stdout = _TIME.sub("", done.stdout)
    return done


def task_lines(output: str) -> list[str]:
    """Return what the tasks printed."""
    return [line.partition(" | ")[2] for line in output.splitlines() if " | " in line]
