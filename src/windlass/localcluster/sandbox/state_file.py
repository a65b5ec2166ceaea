"""Files that save a value for the next process. They are replaced atomically."""

from pathlib import Path
from typing import TypeVar

import msgspec

Value = TypeVar("Value")


def write(path: Path, value: msgspec.Struct) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(msgspec.json.encode(value))
    temporary.replace(path)


def read(path: Path, value_type: type[Value]) -> Value | None:
    """Return the value; None if the file is missing or invalid."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=value_type)
    except (OSError, msgspec.MsgspecError):
        return None
