"""What is kept on disk of a pod, so that a restarted daemon knows what the one before it knew."""

from pathlib import Path

import msgspec

from windlass.localcluster.kubelet.lifecycle.records import PodRecord
from windlass.localcluster.sandbox import state_file

_FILE = "state.json"


class PodState(msgspec.Struct, frozen=True):
    record: PodRecord
    # The containers that were told to start and have not said anything yet, with the ids of their runs.
    starting: dict[str, str] = {}


def write(folder: Path, state: PodState) -> None:
    state_file.write(folder / _FILE, state)


def read(folder: Path) -> PodState | None:
    """A pod that has none begins anew."""
    return state_file.read(folder / _FILE, PodState)
