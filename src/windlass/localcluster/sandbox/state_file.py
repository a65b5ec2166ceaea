"""Values that are kept in files, whole or not at all, for whoever comes after this process."""

from pathlib import Path
from typing import TypeVar

import msgspec

Value = TypeVar("Value")


def write(path: Path, value: msgspec.Struct) -> None:
    beside = path.with_name(f".{path.name}")
    beside.write_bytes(msgspec.json.encode(value))
    beside.replace(path)


def read(path: Path, kind: type[Value]) -> Value | None:
    """None when there is none, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
