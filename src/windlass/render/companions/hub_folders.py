"""How a user's folder is called. The hub has this file too, and it alone: it imports nothing of Windlass."""

import hashlib
import string

_AS_THEY_ARE = frozenset(f"{string.ascii_letters}{string.digits}-_.@+")
_LONGEST = 200


def folder_of(user: str) -> str:
    """One name of a folder, another one for each user, whatever they are called."""
    name = "".join(each if each in _AS_THEY_ARE else _escaped(each) for each in user)
    if len(name) > _LONGEST:
        digest = hashlib.sha256(user.encode()).hexdigest()
        name = f"{name[: _LONGEST - len(digest)]}{digest}"
    # Neither hidden, nor the folder above.
    return f"{_escaped('.')}{name[1:]}" if name.startswith(".") else name


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
