"""What becomes of a request's head on its way through a hub. The hub has this file too, and it alone: it imports
nothing of Windlass."""

from collections.abc import Sequence


def passed_on(fields: Sequence[str], peer: str) -> list[str]:
    """The fields of a head, and from whom it comes. A connection that becomes no WebSocket ends with its answer: the
    next request may be for another server."""
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
