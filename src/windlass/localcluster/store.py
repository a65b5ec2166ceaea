"""Every object of the cluster, in SQLite: the only module that speaks SQL.

There is one sequence of versions for everything: each write takes the next number, and that number is the object's
resourceVersion. Beside the objects stands a bounded history of the last changes, each with the object before and after
it. A watch resumes from it, and a list that was begun at some version is finished as of that version.

A write is part of a transaction in a write-ahead log: once it is committed, the change survives a kill of this process.
(A loss of power may take back the last moments, never more: the log is synced at checkpoints.) Given a `schedule`, the
store commits what was written in one turn of the event loop together, a little later: whoever answers a request asks
`when_settled` first, and nobody hears of a change before. The store belongs to one process, and to one thread of it; a
second one is refused.

What an object means is not known here, but for the few fields of metadata that every object has: resourceVersion,
which is written here, and ownerReferences, by which dependents are found.
"""

import contextlib
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from windlass.localcluster import store_types
from windlass.localcluster.store_types import (
    Change,
    ForgottenError,
    MissingError,
    Page,
    StaleError,
    StoreError,
    TakenError,
)

logger = logging.getLogger(__name__)

# Of the tables below. A file with a greater one was written by a newer release and is left alone.
DATA_VERSION = 1
# How many changes, and how many bytes of them, a watch may lie behind.
HISTORY_LENGTH = 20_000
HISTORY_BYTES = 64 * 1024 * 1024

_TABLES = """
CREATE TABLE objects (
    resource TEXT NOT NULL, place TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, place)
);
CREATE TABLE history (
    version INTEGER PRIMARY KEY, resource TEXT NOT NULL, place TEXT NOT NULL, before BLOB, after BLOB
);
CREATE TABLE owners (
    owner TEXT NOT NULL, resource TEXT NOT NULL, place TEXT NOT NULL,
    PRIMARY KEY (owner, resource, place)
) WITHOUT ROWID;
CREATE TABLE forgotten (version INTEGER NOT NULL);
INSERT INTO forgotten VALUES (0);
"""

# The changes of one kind after a version, as the first of each object: what it was before is what it was then.
_AS_IT_WAS = """
SELECT place, before FROM history JOIN (
    SELECT min(version) AS first FROM history
    WHERE version > :version AND resource = :resource AND place >= :start AND place < :end GROUP BY place
) ON version = first
"""


_encode = msgspec.json.Encoder().encode


class Store:
    """The objects in one file. `listen` to hear of every change once it is stored."""

    def __init__(
        self,
        path: Path,
        history_length: int = HISTORY_LENGTH,
        history_bytes: int = HISTORY_BYTES,
        schedule: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._history_length = history_length
        self._history_bytes = history_bytes
        self._listeners: list[Callable[[Change], None]] = []
        self._unheard: deque[Change] = deque()
        self._schedule = schedule
        self._uncommitted: list[Change] = []
        self._waiting: list[Callable[[StoreError | None], None]] = []
        self._sql = _open(path)
        self.version = self._first("SELECT coalesce(max(version), 0) FROM history")
        # What a watch cannot begin before: the newest version that is no longer in the history.
        self.forgotten = self._first("SELECT version FROM forgotten")
        self._sizes = deque(
            self._sql.execute(
                "SELECT version, coalesce(length(before), 0) + coalesce(length(after), 0) FROM history ORDER BY version"
            )
        )
        self._bytes = sum(size for _, size in self._sizes)
        self._to_forget = self.forgotten
        self._failure: StoreError | None = None

    def close(self) -> None:
        self.commit()
        self._sql.close()

    def listen(self, listener: Callable[[Change], None]) -> None:
        self._listeners.append(listener)

    # Reading

    def get(self, resource: str, place: str) -> bytes | None:
        row = self._sql.execute(
            "SELECT body FROM objects WHERE resource = ? AND place = ?", (resource, place)
        ).fetchone()
        return row[0] if row else None

    def owned_by(self, uid: str) -> list[tuple[str, str]]:
        """Resource and place of every object that names this uid as an owner."""
        rows = self._sql.execute("SELECT resource, place FROM owners WHERE owner = ?", (uid,))
        return rows.fetchall()

    def owned(self) -> list[tuple[str, str]]:
        """Resource and place of every object that has an owner."""
        return self._sql.execute("SELECT DISTINCT resource, place FROM owners").fetchall()

    def mentioning(self, text: str) -> list[tuple[str, str]]:
        """Resource and place of every object in which a text occurs: a slow look at all of them."""
        return self._sql.execute(
            "SELECT resource, place FROM objects WHERE instr(body, CAST(? AS BLOB))", (text,)
        ).fetchall()

    def all(self, resource: str, namespace: str = "") -> Iterator[bytes]:
        start, end = store_types.span(namespace, "")
        rows = self._sql.execute(
            "SELECT body FROM objects WHERE resource = ? AND place >= ? AND place < ? ORDER BY place",
            (resource, start, end),
        )
        return (body for (body,) in rows.fetchall())

    def count(self, resource: str, namespace: str = "", after: str = "") -> int:
        start, end = store_types.span(namespace, after)
        return self._first(
            "SELECT count(*) FROM objects WHERE resource = ? AND place >= ? AND place < ?",
            resource,
            start,
            end,
        )

    def page(
        self,
        resource: str,
        namespace: str = "",
        *,
        after: str = "",
        limit: int = 0,
        version: int | None = None,
    ) -> Page:
        """The objects of one kind after a place, at most `limit` of them (0: all), now or as of a version."""
        if version is None or version == self.version:
            return self._page_now(resource, namespace, after, limit)
        if version < self.forgotten or version > self.version:
            raise ForgottenError(
                f"version {version} is not in the history, which begins after {self.forgotten}"
            )
        start, end = store_types.span(namespace, after)
        rows = self._sql.execute(
            "SELECT place, body FROM objects WHERE resource = ? AND place >= ? AND place < ? AND version <= ?",
            (resource, start, end, version),
        )
        found: dict[str, bytes] = dict(rows.fetchall())
        changed = self._sql.execute(
            _AS_IT_WAS, {"version": version, "resource": resource, "start": start, "end": end}
        )
        # What was created later has no state as of then, and what was deleted since has one in the history only.
        found.update((place, before) for place, before in changed if before is not None)
        return store_types.cut(sorted(found.items()), limit, version)

    def _page_now(self, resource: str, namespace: str, after: str, limit: int) -> Page:
        start, end = store_types.span(namespace, after)
        rows = self._sql.execute(
            "SELECT place, body FROM objects WHERE resource = ? AND place >= ? AND place < ? ORDER BY place LIMIT ?",
            (resource, start, end, limit + 1 if limit else -1),
        ).fetchall()
        page = store_types.cut(rows, limit, self.version)
        if page.last is None:
            return page
        return msgspec.structs.replace(page, remaining=self.count(resource, namespace, page.last))

    def changes(self, resource: str, namespace: str, after: int) -> Iterator[Change]:
        """Every change of one kind after a version, oldest first."""
        if after < self.forgotten:
            raise ForgottenError(
                f"version {after} is not in the history, which begins after {self.forgotten}"
            )
        start, end = store_types.span(namespace, "")
        rows = self._sql.execute(
            "SELECT version, resource, place, before, after FROM history"
            " WHERE version > ? AND resource = ? AND place >= ? AND place < ? ORDER BY version",
            (after, resource, start, end),
        )
        return (Change(*row) for row in rows.fetchall())

    # Writing

    def create(self, resource: str, place: str, obj: dict[str, Any]) -> bytes:
        """Store a new object, and return it as it is stored."""
        body, version = self._stamp(obj)
        with _Transaction(self):
            try:
                self._sql.execute("INSERT INTO objects VALUES (?, ?, ?, ?)", (resource, place, version, body))
            except sqlite3.IntegrityError as error:
                raise TakenError(f"{resource} {place} exists") from error
            self._change(Change(version, resource, place, None, body))
        return body

    def update(self, resource: str, place: str, obj: dict[str, Any], expected: int) -> bytes:
        """Replace an object that is still at the version at which the caller read it."""
        body, version = self._stamp(obj)
        with _Transaction(self):
            before = self._at(resource, place, expected)
            self._sql.execute(
                "UPDATE objects SET version = ?, body = ? WHERE resource = ? AND place = ?",
                (version, body, resource, place),
            )
            self._change(Change(version, resource, place, before, body))
        return body

    def delete(self, resource: str, place: str, expected: int) -> bytes:
        """Remove an object that is still at the version at which the caller read it; return what it was."""
        with _Transaction(self):
            before = self._at(resource, place, expected)
            self._sql.execute("DELETE FROM objects WHERE resource = ? AND place = ?", (resource, place))
            self._change(Change(self.version + 1, resource, place, before, None))
        return before

    # Committing

    @property
    def committed(self) -> int:
        """The version up to which everything is there to stay."""
        return self.version - len(self._uncommitted)

    @property
    def is_settled(self) -> bool:
        return not self._uncommitted

    def when_settled(self, tell: Callable[[StoreError | None], None]) -> None:
        """Call once all that was written until now is committed, or could not be."""
        self._waiting.append(tell)

    def commit(self) -> None:
        if not self._uncommitted:
            return
        try:
            self._sql.execute("COMMIT")
        except sqlite3.Error as error:
            self.undo(error)
            return
        changes, self._uncommitted = self._uncommitted, []
        self._tell(None)
        for change in changes:
            self._announce(change)

    def undo(self, error: BaseException) -> StoreError:
        """Take back all that is not committed. Nobody has been told that it was stored."""
        if self._sql.in_transaction:
            # Some failures, a full disk among them, end the transaction themselves.
            with contextlib.suppress(sqlite3.Error):
                self._sql.execute("ROLLBACK")
        self.version = self.committed
        self._uncommitted = []
        self._to_forget = self.forgotten
        failure = StoreError(f"nothing was stored: {error}. Is there room on the disk of the data directory?")
        self._tell(failure)
        return failure

    def begin(self) -> None:
        if not self._sql.in_transaction:
            self._sql.execute("BEGIN IMMEDIATE")

    def end_if_empty(self) -> None:
        if not self._uncommitted:
            self._sql.execute("ROLLBACK")

    def finish(self) -> None:
        """After a write: commit now, or together with what else comes in this turn."""
        if len(self._uncommitted) > 1:
            return
        self._failure = None
        if self._schedule is None:
            self.commit()
        else:
            self._schedule(self.commit)
        if self._failure is not None:
            raise self._failure

    def _tell(self, failure: StoreError | None) -> None:
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell(failure)

    def _change(self, change: Change) -> None:
        self._own(change)
        self._remember(change)
        self._uncommitted.append(change)
        self.version = change.version

    def _stamp(self, obj: dict[str, Any]) -> tuple[bytes, int]:
        version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        return _encode(obj), version

    def _at(self, resource: str, place: str, expected: int) -> bytes:
        row = self._sql.execute(
            "SELECT body, version FROM objects WHERE resource = ? AND place = ?", (resource, place)
        ).fetchone()
        if row is None:
            raise MissingError(f"{resource} {place} does not exist")
        body, version = row
        if version != expected:
            raise StaleError(f"{resource} {place} is at version {version}, not {expected}")
        return bytes(body)

    def _own(self, change: Change) -> None:
        had, has = store_types.owners(change.before), store_types.owners(change.after)
        if had == has:
            return
        for uid in had - has:
            self._sql.execute(
                "DELETE FROM owners WHERE owner = ? AND resource = ? AND place = ?",
                (uid, change.resource, change.place),
            )
        for uid in has - had:
            self._sql.execute(
                "INSERT OR REPLACE INTO owners VALUES (?, ?, ?)", (uid, change.resource, change.place)
            )

    def _remember(self, change: Change) -> None:
        self._sql.execute(
            "INSERT INTO history VALUES (?, ?, ?, ?, ?)",
            (change.version, change.resource, change.place, change.before, change.after),
        )
        size = len(change.before or b"") + len(change.after or b"")
        is_full = len(self._sizes) >= self._history_length or self._bytes + size > self._history_bytes
        if is_full:
            self._to_forget = self._forget()

    def _forget(self) -> int:
        """Drop the oldest tenth, in count and in bytes, so that this is seldom done; return the newest dropped."""
        length, volume = len(self._sizes), self._bytes
        newest = self._to_forget
        for version, size in self._sizes:
            if length <= self._history_length * 0.9 and volume <= self._history_bytes * 0.9:
                break
            newest, length, volume = version, length - 1, volume - size
        self._sql.execute("DELETE FROM history WHERE version <= ?", (newest,))
        self._sql.execute("UPDATE forgotten SET version = ?", (newest,))
        return newest

    def _announce(self, change: Change) -> None:
        """Once a change is committed, what is kept in memory follows, and then everybody hears of it."""
        size = len(change.before or b"") + len(change.after or b"")
        self._sizes.append((change.version, size))
        self._bytes += size
        self.forgotten = self._to_forget
        while self._sizes[0][0] <= self.forgotten:
            self._bytes -= self._sizes.popleft()[1]
        self._unheard.append(change)
        if len(self._unheard) > 1:
            # A listener wrote: everybody hears of that after what it listened to.
            return
        while self._unheard:
            for listener in self._listeners:
                _call(listener, self._unheard[0])
            self._unheard.popleft()

    def _first(self, sql: str, *arguments: object) -> int:
        (value,) = self._sql.execute(sql, arguments).fetchone()
        return int(value)


class _Transaction:
    """All of a write or nothing of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        try:
            self._store.begin()
        except sqlite3.Error as error:
            raise self._store.undo(error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self._store.finish()
        elif isinstance(error, StoreError):
            # A refusal is noticed before anything is written: what others wrote in this turn stays.
            self._store.end_if_empty()
        else:
            raise self._store.undo(error) from error


def _call(listener: Callable[[Change], None], change: Change) -> None:
    """What one listener does wrong is its own fault: the change is stored, and the others must hear of it."""
    try:
        listener(change)
    except Exception:
        logger.exception("a listener failed at the change of %s %s", change.resource, change.place)


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # There are secrets in it. The files that SQLite puts beside it get the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        sql = sqlite3.connect(path, timeout=0, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the data directory {path.parent} cannot be used: {error}") from error
    try:
        _prepare(sql, path)
    except sqlite3.OperationalError as error:
        sql.close()
        raise _cannot_open(path, error) from error
    except sqlite3.DatabaseError as error:
        sql.close()
        raise StoreError(f"{path} is not a database of this program: {error}. Move it away.") from error
    except StoreError:
        sql.close()
        raise
    return sql


def _cannot_open(path: Path, error: sqlite3.OperationalError) -> StoreError:
    if "locked" in str(error):
        return StoreError(
            f"the data directory {path.parent} is in use by another server: stop that one first"
        )
    return StoreError(f"the data directory {path.parent} cannot be used: {error}")


def _prepare(sql: sqlite3.Connection, path: Path) -> None:
    # An exclusive lock keeps a second server out, and spares the shared memory that several readers would need.
    sql.execute("PRAGMA locking_mode = EXCLUSIVE")
    sql.execute("PRAGMA journal_mode = WAL")
    sql.execute("PRAGMA synchronous = NORMAL")
    # In pages: the log is copied into the tables, which waits for the disk, after 32 MB rather than after 4.
    sql.execute("PRAGMA wal_autocheckpoint = 8192")
    sql.execute("BEGIN EXCLUSIVE")
    (found,) = sql.execute("PRAGMA user_version").fetchone()
    if found > DATA_VERSION:
        sql.execute("ROLLBACK")
        raise StoreError(
            f"{path} was written by a newer release (data version {found}, this release knows {DATA_VERSION}):"
            " use that release, or another data directory"
        )
    if found == 0:
        for statement in _TABLES.split(";"):
            sql.execute(statement)
        sql.execute(f"PRAGMA user_version = {DATA_VERSION}")
    sql.execute("COMMIT")
