"""The processes of a task, on whichever cluster of this machine it runs: found by what the controller told them."""

import os
import signal
from pathlib import Path


def kill(framework: str, task: str, program: str) -> None:
    """With SIGKILL, those of `worker-1` whose command line has that word. There must be one."""
    found = of_task(framework, task, program)
    assert found, f"{framework}/{task} runs no {program}"
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def of_task(framework: str, task: str, program: str) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_of(entry, f"FC_POD_NAME={framework}-{task}", program)
    ]


def _is_of(entry: Path, variable: str, program: str) -> bool:
    """Whoever only starts the command has not been told anything."""
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
        arguments = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return False
    return variable.encode() in variables and any(program.encode() in argument for argument in arguments)
