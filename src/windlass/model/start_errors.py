"""Describe why a container could not start, and what to do, from the messages of container runtimes."""

import re
from typing import NamedTuple

START_REASONS = (
    "ContainerCannotRun",
    "StartError",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
)
"""Reasons that Docker, containerd, CRI-O and the kubelet give for a container that never ran."""

_COMMAND = re.compile(
    r'exec:? \\?"(?P<command>[^"\\]+)\\?": (?:stat [^:]+: )?(?P<cause>executable file not found|[a-z ]+)|'
    r"executable file [`'\"](?P<missing>[^`'\"]+)[`'\"] not found",
    re.IGNORECASE,
)
"""runc and the embedded cluster name the command first; crun only names one that it does not find."""
_FOLDER = re.compile(r'chdir to cwd \(\\?"(?P<folder>[^"\\]+)\\?"\)[^:]*: (?P<cause>[^:\n]+)', re.IGNORECASE)
_NOT_FOUND = "command not found"
_ADVICE = {
    _NOT_FOUND: "Check the spelling of the command, and whether it is installed {where}.",
    "no such file or directory": "Check the path, and the interpreter in the first line if it is a script. "
    "A job file sends scripts to its tasks with `code: .`.",
    "permission denied": "Make it executable (`chmod +x {command}`), or start it with its interpreter.",
    "exec format error": "It is neither a program for the CPU of the node nor a script whose first line names an "
    "interpreter, e.g. `#!/bin/sh`.",
    "is a directory": "Give the path of a program.",
}


class StartError(NamedTuple):
    text: str
    """The cause, e.g. `train: command not found`."""
    advice: str = ""
    """What to do; empty if that is unknown."""


def describe(reason: str, message: str, image: str = "") -> StartError:
    """Describe the error of a container by the reason and the message of its status. `image` is empty for the programs
    of this machine."""
    if found := _COMMAND.search(message):
        command = found["command"] or found["missing"]
        cause = (found["cause"] or _NOT_FOUND).strip().lower()
        cause = _NOT_FOUND if cause.startswith("executable file not found") else cause
        where = f"in the image {image}" if image else "on this machine"
        return StartError(f"{command}: {cause}", _ADVICE.get(cause, "").format(command=command, where=where))
    if found := _FOLDER.search(message):
        folder, cause = found["folder"], found["cause"].strip().lower()
        return StartError(
            f"working directory {folder}: {cause}", "Check `workingDir` in the pod of the role."
        )
    lines = message.strip().splitlines()
    return StartError(lines[0] if lines else reason)
