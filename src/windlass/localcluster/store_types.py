"""The values that the store speaks in: changes, pages, places, and what cannot be done. Pure."""

import msgspec


class StoreError(Exception):
    """The store cannot do what was asked. The message says why, and what to do."""


class MissingError(StoreError):
    """There is no such object."""


class TakenError(StoreError):
    """There is such an object already."""


class StaleError(StoreError):
    """The object is not the one, or not as it was, when the caller looked."""


class ForgottenError(StoreError):
    """The history does not reach back to that version."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write. `before` is None for a creation, and `after` for a deletion."""

    version: int
    resource: str
    place: str
    before: bytes | None
    after: bytes | None


class Page(msgspec.Struct, frozen=True):
    """A part of a list: objects in the order of their places, as of `version`."""

    bodies: list[bytes]
    version: int
    # The place of the last one, when there are more.
    last: str | None = None
    remaining: int = 0


class _Owner(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: list[_Owner] = []


class _Owned(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode_owned = msgspec.json.Decoder(_Owned).decode


def place_of(namespace: str, name: str) -> str:
    """Where an object stands among those of its kind. The order of places is the order of every list."""
    return f"{namespace}/{name}" if namespace else name


def span(namespace: str, after: str) -> tuple[str, str]:
    """From which place, and up to but without which: the character that follows the slash ends a namespace."""
    start, end = (f"{namespace}/", f"{namespace}0") if namespace else ("", "\U0010ffff")
    return (f"{after}\0", end) if after else (start, end)


def cut(rows: list[tuple[str, bytes]], limit: int, version: int) -> Page:
    if not limit or len(rows) <= limit:
        return Page([body for _, body in rows], version)
    return Page([body for _, body in rows[:limit]], version, rows[limit - 1][0], len(rows) - limit)


def owners(body: bytes | None) -> set[str]:
    # Looking for the word is much cheaper than reading the object, and most objects have no owner.
    if body is None or b'"ownerReferences"' not in body:
        return set()
    return {owner.uid for owner in _decode_owned(body).metadata.owner_references}
