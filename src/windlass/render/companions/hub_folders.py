"""Names of the folders of users. This file is also shipped to the hub, so it imports nothing of Windlass."""

import hashlib
import string

_UNESCAPED = frozenset(f"{string.ascii_letters}{string.digits}-_.@+")
_MAX_LENGTH = 200


def folder_of(user: str) -> str:
    """Return a valid folder name, which is different for each user."""
    name = "".join(each if each in _UNESCAPED else _escaped(each) for each in user)
    if len(name) > _MAX_LENGTH:
        digest = hashlib.sha256(user.encode()).hexdigest()
        name = f"{name[: _MAX_LENGTH - len(digest)]}{digest}"
    # The name must not be hidden, nor `..`.
    return f"{_escaped('.')}{name[1:]}" if name.startswith(".") else name


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
