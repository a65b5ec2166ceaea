"""Headers of forwarded requests. This file is also shipped to the hub, so it imports nothing of Windlass."""

from collections.abc import Sequence


def forwarded_fields(fields: Sequence[str], peer: str) -> list[str]:
    """Return the header fields with the address of the client.

    Unless the connection becomes a WebSocket, it is closed after the response: the next request may be for another
    server.
    """
    named = {_name(field): field.partition(":")[2].strip() for field in fields}
    is_upgraded = "upgrade" in named.get("connection", "").lower()
    replaced = {"x-forwarded-for"} if is_upgraded else {"x-forwarded-for", "connection", "keep-alive"}
    kept = [field for field in fields if _name(field) not in replaced]
    if not is_upgraded:
        kept.append("Connection: close")
    if "x-forwarded-proto" not in named:
        kept.append("X-Forwarded-Proto: http")
    before = named.get("x-forwarded-for")
    kept.append(f"X-Forwarded-For: {before}, {peer}" if before else f"X-Forwarded-For: {peer}")
    return kept


def _name(field: str) -> str:
    return field.partition(":")[0].strip().lower()
