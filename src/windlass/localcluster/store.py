"""The objects of the cluster in SQLite. This module and `store_file` are the only ones that contain SQL.

One sequence of versions covers all objects: each write takes the next number, which becomes the object's
resourceVersion. A bounded history keeps the latest changes, each with the object before and after the change. A watch
resumes from the history, and a list that began at some version is continued as of that version.

A write is part of a transaction in a write-ahead log: once committed, it survives a kill of this process. (A power
failure may lose the latest writes, because the log is synced only at checkpoints.) With `schedule`, the store commits
all writes of one iteration of the event loop together. A server waits for the commit with `on_commit` before it
responds; listeners are called after the commit. The store belongs to one thread, and rejects other processes.

The store uses two fields of an object: metadata.resourceVersion, which it writes, and metadata.ownerReferences, by
which dependents are found. A key, in the column `place`, is `namespace/name`, or `name` for cluster-scoped objects.
"""

import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from windlass.localcluster import store_file, store_types
from windlass.localcluster.store_types import (
    AlreadyExistsError,
    Change,
    CompactedError,
    ConflictError,
    NotFoundError,
    Page,
    StoreError,
)

logger = logging.getLogger(__name__)

# Limits of the history. A watch that is further behind cannot resume.
HISTORY_LENGTH = 20_000
HISTORY_BYTES = 64 * 1024 * 1024
# The first change of each object after a version: its `before` is the object as of that version.
_STATE_AT_VERSION = """
SELECT place, before FROM history JOIN (
    SELECT min(version) AS first FROM history
    WHERE version > :version AND resource = :resource AND place >= :start AND place < :end GROUP BY place
) ON version = first
"""

_encode = msgspec.json.Encoder().encode


class Store:
    """The objects in one file. Listeners are called with every change once it is committed."""

    def __init__(
        self,
        path: Path,
        history_length: int = HISTORY_LENGTH,
        history_bytes: int = HISTORY_BYTES,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        *,
        must_exist: bool = False,
    ) -> None:
        """Open the file, or create it unless it `must_exist`. Raises StoreError."""
        self._max_history_length = history_length
        self._max_history_bytes = history_bytes
        self._listeners: list[Callable[[Change], None]] = []
        self._undelivered: deque[Change] = deque()
        self._schedule = schedule
        self._uncommitted: list[Change] = []
        self._commit_callbacks: list[Callable[[StoreError | None], None]] = []
        self._db = store_file.open_database(path, must_exist=must_exist)
        with store_file.reporting_damage(path, self._db):
            self.version = self._first_value("SELECT coalesce(max(version), 0) FROM history")
            # The newest version that is no longer in the history.
            self.compacted_version = self._first_value("SELECT version FROM forgotten")
            # Version and size of each change in the history.
            self._sizes = deque(
                self._db.execute(
                    "SELECT version, coalesce(length(before), 0) + coalesce(length(after), 0)"
                    " FROM history ORDER BY version"
                )
            )
        self._history_bytes = sum(size for _, size in self._sizes)
        # The compacted version after the next commit.
        self._next_compacted_version = self.compacted_version
        self._failure: StoreError | None = None

    def close(self) -> None:
        self.commit()
        self._db.close()

    def listen(self, listener: Callable[[Change], None]) -> None:
        self._listeners.append(listener)

    # Reading

    def get(self, resource: str, key: str) -> bytes | None:
        row = self._row(resource, key)
        return row[0] if row else None

    def _row(self, resource: str, key: str) -> tuple[bytes, int] | None:
        sql = "SELECT body, version FROM objects WHERE resource = ? AND place = ?"
        row: tuple[bytes, int] | None = self._db.execute(sql, (resource, key)).fetchone()
        return row

    def owned_by(self, uid: str) -> list[tuple[str, str]]:
        """Return resource and key of every object that names this uid as an owner."""
        return self._db.execute("SELECT resource, place FROM owners WHERE owner = ?", (uid,)).fetchall()

    def all_owned(self) -> list[tuple[str, str]]:
        """Return resource and key of every object that has an owner."""
        return self._db.execute("SELECT DISTINCT resource, place FROM owners").fetchall()

    def containing(self, text: str) -> list[tuple[str, str]]:
        """Return resource and key of every object whose JSON contains a text. This scans all objects."""
        return self._db.execute(
            "SELECT resource, place FROM objects WHERE instr(body, CAST(? AS BLOB))", (text,)
        ).fetchall()

    def all(self, resource: str, namespace: str = "") -> Iterator[bytes]:
        start, end = store_types.key_range(namespace, "")
        rows = self._db.execute(
            "SELECT body FROM objects WHERE resource = ? AND place >= ? AND place < ? ORDER BY place",
            (resource, start, end),
        )
        return (body for (body,) in rows.fetchall())

    def count(self, resource: str, namespace: str = "", after: str = "") -> int:
        start, end = store_types.key_range(namespace, after)
        sql = "SELECT count(*) FROM objects WHERE resource = ? AND place >= ? AND place < ?"
        return self._first_value(sql, resource, start, end)

    def page(
        self,
        resource: str,
        namespace: str = "",
        *,
        after: str = "",
        limit: int = 0,
        version: int | None = None,
    ) -> Page:
        """Return the objects of a resource after a key, at most `limit` (0: all), now or as of a version."""
        if version is None or version == self.version:
            return self._page_now(resource, namespace, after, limit)
        if version < self.compacted_version or version > self.version:
            raise self._not_in_history(version)
        start, end = store_types.key_range(namespace, after)
        rows = self._db.execute(
            "SELECT place, body FROM objects WHERE resource = ? AND place >= ? AND place < ? AND version <= ?",
            (resource, start, end, version),
        )
        found: dict[str, bytes] = dict(rows.fetchall())
        changed = self._db.execute(
            _STATE_AT_VERSION, {"version": version, "resource": resource, "start": start, "end": end}
        )
        # An object created later did not exist at that version; a deleted object is only in the history.
        found.update((key, before) for key, before in changed if before is not None)
        return store_types.page_of(sorted(found.items()), limit, version)

    def _page_now(self, resource: str, namespace: str, after: str, limit: int) -> Page:
        start, end = store_types.key_range(namespace, after)
        rows = self._db.execute(
            "SELECT place, body FROM objects WHERE resource = ? AND place >= ? AND place < ? ORDER BY place LIMIT ?",
            (resource, start, end, limit + 1 if limit else -1),
        ).fetchall()
        page = store_types.page_of(rows, limit, self.version)
        if page.last is None:
            return page
        return msgspec.structs.replace(page, remaining=self.count(resource, namespace, page.last))

    def changes(self, resource: str, namespace: str, after: int) -> Iterator[Change]:
        """Return every change to the objects of a resource after a version, oldest first."""
        if after < self.compacted_version:
            raise self._not_in_history(after)
        start, end = store_types.key_range(namespace, "")
        rows = self._db.execute(
            "SELECT version, resource, place, before, after FROM history"
            " WHERE version > ? AND resource = ? AND place >= ? AND place < ? ORDER BY version",
            (after, resource, start, end),
        )
        return (Change(*row) for row in rows.fetchall())

    def _not_in_history(self, version: int) -> CompactedError:
        return CompactedError(
            f"version {version} is not in the history, which begins after {self.compacted_version}"
        )

    # Writing

    def create(self, resource: str, key: str, obj: dict[str, Any]) -> bytes:
        """Store a new object and return its JSON."""
        body, version = self._encode_with_next_version(obj)
        with self._transaction():
            try:
                self._db.execute("INSERT INTO objects VALUES (?, ?, ?, ?)", (resource, key, version, body))
            except sqlite3.IntegrityError as error:
                raise AlreadyExistsError(f"{resource} {key} exists") from error
            self._record(Change(version, resource, key, None, body))
        return body

    def update(self, resource: str, key: str, obj: dict[str, Any], expected: int) -> bytes:
        """Replace an object if it is still at the expected version, and return its JSON."""
        body, version = self._encode_with_next_version(obj)
        with self._transaction():
            before = self._read_expected_version(resource, key, expected)
            self._db.execute(
                "UPDATE objects SET version = ?, body = ? WHERE resource = ? AND place = ?",
                (version, body, resource, key),
            )
            self._record(Change(version, resource, key, before, body))
        return body

    def delete(self, resource: str, key: str, expected: int) -> bytes:
        """Delete an object if it is still at the expected version, and return its last JSON."""
        with self._transaction():
            before = self._read_expected_version(resource, key, expected)
            self._db.execute("DELETE FROM objects WHERE resource = ? AND place = ?", (resource, key))
            self._record(Change(self.version + 1, resource, key, before, None))
        return before

    # Committing

    @property
    def committed_version(self) -> int:
        return self.version - len(self._uncommitted)

    @property
    def is_committed(self) -> bool:
        return not self._uncommitted

    def on_commit(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call `callback` when the uncommitted writes are committed (with None) or rolled back (with the error)."""
        self._commit_callbacks.append(callback)

    def commit(self) -> None:
        if not self._uncommitted:
            return
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(error)
            return
        changes, self._uncommitted = self._uncommitted, []
        self._run_commit_callbacks(None)
        for change in changes:
            self._deliver(change)

    def _roll_back(self, error: BaseException) -> StoreError:
        """Discard all uncommitted writes. No client has received a response to them yet."""
        if self._db.in_transaction:
            # Some failures, e.g. a full disk, end the transaction themselves.
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
        self.version = self.committed_version
        self._uncommitted = []
        self._next_compacted_version = self.compacted_version
        failure = store_file.write_error(error)
        self._run_commit_callbacks(failure)
        return failure

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Make a write atomic. Commit it now, or with the other writes of this iteration of the event loop."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            yield
        except StoreError:
            # A rejected request has written nothing, so the uncommitted writes of other requests stay.
            if not self._uncommitted:
                self._db.execute("ROLLBACK")
            raise
        except BaseException as error:
            raise self._roll_back(error) from error
        if len(self._uncommitted) == 1:
            self._commit_or_schedule()

    def _commit_or_schedule(self) -> None:
        self._failure = None
        if self._schedule is None:
            self.commit()
        else:
            self._schedule(self.commit)
        if self._failure is not None:
            raise self._failure

    def _run_commit_callbacks(self, failure: StoreError | None) -> None:
        self._failure = failure
        callbacks, self._commit_callbacks = self._commit_callbacks, []
        for callback in callbacks:
            callback(failure)

    def _record(self, change: Change) -> None:
        self._update_owners(change)
        self._append_to_history(change)
        self._uncommitted.append(change)
        self.version = change.version

    def _encode_with_next_version(self, obj: dict[str, Any]) -> tuple[bytes, int]:
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        return _encode(obj), version

    def _read_expected_version(self, resource: str, key: str, expected: int) -> bytes:
        row = self._row(resource, key)
        if row is None:
            raise NotFoundError(f"{resource} {key} does not exist")
        body, version = row
        if version != expected:
            raise ConflictError(f"{resource} {key} is at version {version}, not {expected}")
        return body

    def _update_owners(self, change: Change) -> None:
        old_owners, new_owners = store_types.owner_uids(change.before), store_types.owner_uids(change.after)
        if old_owners == new_owners:
            return
        for uid in old_owners - new_owners:
            self._db.execute(
                "DELETE FROM owners WHERE owner = ? AND resource = ? AND place = ?",
                (uid, change.resource, change.key),
            )
        for uid in new_owners - old_owners:
            self._db.execute(
                "INSERT OR REPLACE INTO owners VALUES (?, ?, ?)", (uid, change.resource, change.key)
            )

    def _append_to_history(self, change: Change) -> None:
        self._db.execute(
            "INSERT INTO history VALUES (?, ?, ?, ?, ?)",
            (change.version, change.resource, change.key, change.before, change.after),
        )
        is_full = (
            len(self._sizes) >= self._max_history_length
            or self._history_bytes + change.size > self._max_history_bytes
        )
        if is_full:
            self._next_compacted_version = self._compact()

    def _compact(self) -> int:
        """Delete the oldest changes until 10 % of both limits are free, and return the newest deleted version."""
        length, total_bytes = len(self._sizes), self._history_bytes
        newest = self._next_compacted_version
        for version, size in self._sizes:
            if length <= self._max_history_length * 0.9 and total_bytes <= self._max_history_bytes * 0.9:
                break
            newest, length, total_bytes = version, length - 1, total_bytes - size
        self._db.execute("DELETE FROM history WHERE version <= ?", (newest,))
        self._db.execute("UPDATE forgotten SET version = ?", (newest,))
        return newest

    def _deliver(self, change: Change) -> None:
        """Update the sizes kept in memory after a commit, then call the listeners."""
        self._sizes.append((change.version, change.size))
        self._history_bytes += change.size
        self.compacted_version = self._next_compacted_version
        while self._sizes[0][0] <= self.compacted_version:
            self._history_bytes -= self._sizes.popleft()[1]
        self._undelivered.append(change)
        if len(self._undelivered) > 1:
            # A listener made this change: the outer call of this method delivers it after the current change.
            return
        while self._undelivered:
            for listener in self._listeners:
                _call(listener, self._undelivered[0])
            self._undelivered.popleft()

    def _first_value(self, sql: str, *arguments: object) -> int:
        (value,) = self._db.execute(sql, arguments).fetchone()
        return int(value)


def _call(listener: Callable[[Change], None], change: Change) -> None:
    """Call a listener and log its error: the other listeners must still be called."""
    try:
        listener(change)
    except Exception:
        logger.exception("a listener failed on a change of %s %s", change.resource, change.key)
