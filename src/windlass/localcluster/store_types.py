"""The values and errors of the store's interface."""

import msgspec

from windlass.k8s.metadata import decode_owners


class StoreError(Exception):
    """A store operation failed. The message contains the cause."""


class NotFoundError(StoreError):
    """The object does not exist."""


class AlreadyExistsError(StoreError):
    """An object with this key already exists."""


class ConflictError(StoreError):
    """The object is not at the expected version."""


class CompactedError(StoreError):
    """The version is no longer in the history."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write. `before` is None for a creation, `after` for a deletion."""

    version: int
    resource: str
    key: str
    before: bytes | None
    after: bytes | None

    @property
    def size(self) -> int:
        return len(self.before or b"") + len(self.after or b"")


class Page(msgspec.Struct, frozen=True):
    """A list or a part of it: objects in the order of their keys, as of `version`."""

    bodies: list[bytes]
    version: int
    # The key of the last object, if more follow.
    last: str | None = None
    # The number of objects that follow.
    remaining: int = 0


def object_key(namespace: str, name: str) -> str:
    """Return the key that identifies an object of a resource. Lists are ordered by key."""
    return f"{namespace}/{name}" if namespace else name


def key_range(namespace: str, after: str) -> tuple[str, str]:
    """Return the half-open range of the keys of a namespace (empty: of all namespaces) that follow the key `after`.

    `0` is the character after `/`, so all keys of a namespace are less than `{namespace}0`.
    """
    start, end = (f"{namespace}/", f"{namespace}0") if namespace else ("", "\U0010ffff")
    return (f"{after}\0", end) if after else (start, end)


def page_of(rows: list[tuple[str, bytes]], limit: int, version: int) -> Page:
    if not limit or len(rows) <= limit:
        return Page([body for _, body in rows], version)
    return Page([body for _, body in rows[:limit]], version, rows[limit - 1][0], len(rows) - limit)


def owner_uids(body: bytes | None) -> set[str]:
    # Searching for the field name is much cheaper than decoding, and most objects have no owner.
    if body is None or b'"ownerReferences"' not in body:
        return set()
    return {owner.uid for owner in decode_owners(body).metadata.owner_references}
