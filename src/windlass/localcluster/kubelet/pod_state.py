"""What is kept on disk of a pod, so that a restarted daemon knows what the one before it knew."""

from pathlib import Path

import msgspec

from windlass.localcluster.podlife.records import PodRecord

_FILE = "state.json"


class PodState(msgspec.Struct, frozen=True):
    record: PodRecord
    # The containers that were told to start and have not said anything yet, with the ids of their runs.
    starting: dict[str, str] = {}


def write(folder: Path, state: PodState) -> None:
    beside = folder / f".{_FILE}"
    beside.write_bytes(msgspec.json.encode(state))
    beside.replace(folder / _FILE)


def read(folder: Path) -> PodState | None:
    """None when there is none, or none that can be read: such a pod begins anew."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=PodState)
    except (OSError, msgspec.MsgspecError):
        return None
