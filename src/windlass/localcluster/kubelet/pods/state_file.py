"""The state of a pod on disk, for a restarted daemon."""

from pathlib import Path

import msgspec

from windlass.localcluster.kubelet.lifecycle.records import PodRecord
from windlass.localcluster.sandbox import state_file

_FILE = "state.json"


class PodState(msgspec.Struct, frozen=True):
    record: PodRecord
    # Container name → id of a run that the supervisor was asked to start and has not reported yet.
    starting: dict[str, str] = {}


def write(folder: Path, state: PodState) -> None:
    state_file.write(folder / _FILE, state)


def read(folder: Path) -> PodState | None:
    """Return the saved state; None if there is none."""
    return state_file.read(folder / _FILE, PodState)
