"""Folders of users and headers of forwarded requests.

This file is also shipped to the hub, so it imports nothing of Windlass.
"""

import hashlib
import string
from collections.abc import Sequence

_UNESCAPED = frozenset(f"{string.ascii_letters}{string.digits}-_.@+")
_MAX_LENGTH = 200


def folder_of(user: str) -> str:
    """Return a valid folder name, which is different for each user."""
    name = "".join(character if character in _UNESCAPED else _escaped(character) for character in user)
    if len(name) > _MAX_LENGTH:
        digest = hashlib.sha256(user.encode()).hexdigest()
        name = f"{name[: _MAX_LENGTH - len(digest)]}{digest}"
    # The name must not be hidden, nor `..`.
    return f"{_escaped('.')}{name[1:]}" if name.startswith(".") else name


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def forwarded_fields(fields: Sequence[str], peer: str) -> list[str]:
    """Return the header fields with the address of the client.

    Unless the connection becomes a WebSocket, it is closed after the response: the next request may be for another
    server.
    """
    values = {_field_name(field): field.partition(":")[2].strip() for field in fields}
    is_upgraded = "upgrade" in values.get("connection", "").lower()
    replaced = {"x-forwarded-for"} if is_upgraded else {"x-forwarded-for", "connection", "keep-alive"}
    forwarded = [field for field in fields if _field_name(field) not in replaced]
    if not is_upgraded:
        forwarded.append("Connection: close")
    if "x-forwarded-proto" not in values:
        forwarded.append("X-Forwarded-Proto: http")
    clients = [client for client in (values.get("x-forwarded-for"), peer) if client]
    forwarded.append(f"X-Forwarded-For: {', '.join(clients)}")
    return forwarded


def _field_name(field: str) -> str:
    return field.partition(":")[0].strip().lower()
