"""The database file of the store: its tables, and the checks when it is opened.

A damaged file is rejected and not changed. The message says how to restore or delete it.
"""

import contextlib
import os
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from windlass.localcluster import private_files
from windlass.localcluster.store_types import StoreError

# The version of the tables below. A file with a higher version was written by a newer release and is rejected.
DATA_VERSION = 1
# The table `forgotten` has one row: the newest version that was deleted from the history.
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

LOAD_ERRORS = (sqlite3.Error, msgspec.MsgspecError, LookupError, TypeError, AttributeError, ValueError)
"""The errors that damaged data can cause while it is loaded."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _StoredObject(msgspec.Struct, frozen=True):
    metadata: _Metadata


def open_database(path: Path, *, must_exist: bool) -> sqlite3.Connection:
    """Open the file, or create it if it does not exist. Raises StoreError.

    With `must_exist`, reject a missing or empty file: without their objects, the running pods would be killed.
    """
    if must_exist and not path.exists():
        raise _uninitialised_error(path, "is missing")
    try:
        private_files.make_folder(path.parent)
        # The file contains secrets. SQLite gives its other files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        if must_exist and not path.stat().st_size:
            raise _uninitialised_error(path, "is empty")
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot use the data directory {path.parent}: {error}") from error
    try:
        _prepare(connection, path, may_create=not must_exist)
    except sqlite3.Error as error:
        connection.close()
        raise _open_error(path, error) from error
    except StoreError:
        connection.close()
        raise
    with reporting_damage(path, connection):
        for (body,) in connection.execute("SELECT body FROM objects"):
            # `decode` checks the whole object, `convert` only the fields of the type.
            msgspec.convert(msgspec.json.decode(body), _StoredObject)
    return connection


@contextlib.contextmanager
def reporting_damage(path: Path, connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection and raise StoreError if reading the tables fails in the block."""
    try:
        yield
    except LOAD_ERRORS as error:
        connection.close()
        raise damaged_error(path, f"it is damaged ({type(error).__name__}: {error})") from error


def damaged_error(path: Path, problem: str) -> StoreError:
    """Return the error for a database that cannot be used. Its message says how to restore or delete it."""
    return StoreError(
        f"cannot use {path}: {problem}. Restore the file from a backup, or run"
        f" `windlass local reset --data-dir {shlex.quote(str(path.parent))}` to delete all data of this cluster."
    )


def write_error(error: BaseException) -> StoreError:
    """Return the error for a failed write. SQLite reports damage as DatabaseError, other problems as a subclass."""
    remedy = (
        "The database is damaged: `windlass local reset` deletes it."
        if type(error) is sqlite3.DatabaseError
        else "Check that the disk of the data directory has free space."
    )
    return StoreError(f"cannot store the object: {error}. {remedy}")


def _uninitialised_error(path: Path, problem: str) -> StoreError:
    return damaged_error(path, f"it {problem}, but the directory contains other data of the cluster")


def _open_error(path: Path, error: sqlite3.Error) -> StoreError:
    if not isinstance(error, sqlite3.OperationalError):
        return damaged_error(path, f"it is damaged or not a Windlass database ({error})")
    if "locked" in str(error):
        return StoreError(
            f"cannot use the data directory {path.parent}: another server is using it. Stop that server first."
        )
    return StoreError(f"cannot use the data directory {path.parent}: {error}")


def _prepare(connection: sqlite3.Connection, path: Path, *, may_create: bool) -> None:
    # An exclusive lock rejects a second server and avoids the shared memory that several readers would need.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found < 0 or (found == 0 and not may_create):
        raise damaged_error(path, "it has no objects, or it is not a Windlass database")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    # 8192 pages are 32 MiB. A checkpoint waits for the disk, so it runs less often than by default (after 4 MiB).
    connection.execute("PRAGMA wal_autocheckpoint = 8192")
    connection.execute("BEGIN EXCLUSIVE")
    (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if problem != "ok":
        # The first line names the database.
        raise sqlite3.DatabaseError(problem.splitlines()[-1])
    if found > DATA_VERSION:
        connection.execute("ROLLBACK")
        raise StoreError(
            f"cannot use {path}: a newer release wrote it (data version {found}, supported: {DATA_VERSION})."
            " Use that release or another data directory."
        )
    if found == 0:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {DATA_VERSION}")
    connection.execute("COMMIT")
    if found == 0:
        # Sync the tables to the disk: after a power failure, a file without tables would be rejected.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
