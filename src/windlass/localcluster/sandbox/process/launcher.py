"""Starting the spawner, from the daemon's side."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.channel import Channel, pair

COMPLAINTS = "spawner.log"

_NAMES = frozenset({"PATH", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR"})
_PREFIXES = ("LC_", "PYTHON", "WINDLASS_TEST_")
"""The last are marks, by which tests know what they have started."""


class SpawnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` keeps what the spawner and the supervisors have to complain about, in a file."""

    folder: Path
    cluster: str
    level: str = "auto"
    network: str = "auto"
    # Of a pipe: the read end. All pods end when its write end is closed.
    lifeline: int | None = None
    # Of pods that live on from before: their user namespace, and the hub of their network.
    namespaces: tuple[int, int] | None = None


class Launched:
    def __init__(self, process: subprocess.Popen[bytes], channel: Channel[messages.FromSpawner]) -> None:
        self.process = process
        self.channel = channel


def launch(wanted: SpawnerOptions) -> Launched:
    ours, theirs = pair(messages.FromSpawner, messages.ToSpawner)
    command = [
        *(sys.executable, "-m", "windlass.localcluster.sandbox.process.spawner"),
        *("--control", str(theirs.fileno())),
        *("--cluster", wanted.cluster),
        *("--level", wanted.level),
        *("--network", wanted.network),
    ]
    passed = [theirs.fileno()]
    if wanted.lifeline is not None:
        command += ["--lifeline", str(wanted.lifeline)]
        passed.append(wanted.lifeline)
    if wanted.namespaces is not None:
        user, hub = wanted.namespaces
        command += ["--user-namespace", str(user), "--hub", str(hub)]
        passed += wanted.namespaces
    with (wanted.folder / COMPLAINTS).open("ab") as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            pass_fds=passed,
            cwd="/",
            env=surroundings(os.environ),
            start_new_session=True,
        )
    theirs.close()
    return Launched(process, ours)


def surroundings(environ: Mapping[str, str]) -> dict[str, str]:
    """The first process of every container is a fork of the spawner, and whoever is in the container may read what that
    was started with: a user's shell may know passwords."""
    return {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
