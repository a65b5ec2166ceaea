"""Start the spawner process from the daemon."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.channel import Channel, pair

LOG = "spawner.log"

_INHERITED_VARIABLES = frozenset(
    {
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYTHONUTF8"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONDEVMODE", "PYTHONWARNINGS"),
    }
)
# Tests find their processes by variables with this prefix.
_TEST_PREFIX = "WINDLASS_TEST_"


class SpawnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` contains the log of the spawner and the supervisors."""

    folder: Path
    cluster: str
    level: str = "auto"
    network: str = "auto"
    # Read end of a pipe. All pods end when its write end is closed.
    lifeline: int | None = None
    # Descriptors of the user namespace and of the hub (the network namespace of the bridge) of an earlier spawner,
    # whose pods still run.
    namespaces: tuple[int, int] | None = None


class Launched(NamedTuple):
    process: subprocess.Popen[bytes]
    channel: Channel[messages.FromSpawner]


def launch(options: SpawnerOptions) -> Launched:
    ours, theirs = pair(messages.FromSpawner, messages.ToSpawner)
    command = [
        *(sys.executable, "-m", "windlass.localcluster.sandbox.process.spawner"),
        *("--control", str(theirs.fileno())),
        *("--cluster", options.cluster),
        *("--level", options.level),
        *("--network", options.network),
    ]
    passed = [theirs.fileno()]
    if options.lifeline is not None:
        command += ["--lifeline", str(options.lifeline)]
        passed.append(options.lifeline)
    if options.namespaces is not None:
        user, hub = options.namespaces
        command += ["--user-namespace", str(user), "--hub", str(hub)]
        passed += options.namespaces
    with open(options.folder / LOG, "ab", opener=_open_private) as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=passed,
            cwd="/",
            env=_inherited_environment(),
            start_new_session=True,
        )
    theirs.close()
    return Launched(process, ours)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _inherited_environment() -> dict[str, str]:
    """Return the variables for the spawner. Containers can read them through the init process, a fork of the spawner:
    no other variables are passed, since they may contain passwords."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED_VARIABLES or name.startswith(_TEST_PREFIX)
    }
