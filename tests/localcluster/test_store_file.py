"""Database files that are missing or damaged, beside other data of a cluster."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.localcluster.server import ApiServer
from windlass.localcluster.store_types import StoreError


def run_sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def create_new(path: Path, *statements: str) -> None:
    path.unlink()
    run_sql(path, *statements)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a cluster that was stopped."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    ApiServer(folder).store.close()
    return folder


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (Path.unlink, "it is missing, but the directory contains other data"),
        (lambda path: os.truncate(path, 0), "it is empty, but the directory contains other data"),
        (lambda path: path.write_bytes(b"x"), ""),
        (lambda path: create_new(path, "CREATE TABLE x (a)"), "it has no objects, or it is not a Windlass"),
        (lambda path: run_sql(path, "PRAGMA user_version = 0"), "it has no objects"),
        (lambda path: run_sql(path, "PRAGMA user_version = -1"), "it has no objects"),
    ],
    ids=["missing", "empty", "one byte", "other tables", "no version", "negative version"],
)
def test_database_without_objects_is_rejected_beside_other_data(
    data: Path, damage: Callable[[Path], object], problem: str
) -> None:
    """A new database would have no pods, so that the running ones would be killed."""
    path = data / "cluster.db"
    damage(path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(StoreError) as rejected:
        ApiServer(data)
    message = str(rejected.value)
    assert message.startswith(f"cannot use {path}: {problem}")
    assert f"run `windlass local reset --data-dir {data}`" in message
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE objects",
        "DROP TABLE history",
        "DELETE FROM forgotten",
        "UPDATE objects SET body = x'00ff00ff'",
        "UPDATE objects SET body = x'7b' WHERE resource = 'namespaces'",
        "UPDATE objects SET body = x'6e756c6c'",
        "UPDATE objects SET body = 5",
        "INSERT INTO objects VALUES ('customresourcedefinitions.apiextensions.k8s.io', 'a.b', 1, x'7b7d')",
        """UPDATE objects SET body = CAST(replace(CAST(body AS TEXT), '"uid"', '"uie"') AS BLOB)""",
    ],
)
def test_damage_that_the_check_of_sqlite_does_not_find_is_rejected(data: Path, statement: str) -> None:
    path = data / "cluster.db"
    run_sql(path, statement)
    with pytest.raises(StoreError) as rejected:
        ApiServer(data)
    message = str(rejected.value)
    assert message.startswith(f"cannot use {path}: it is damaged (")
    assert f"run `windlass local reset --data-dir {data}`" in message


def test_damaged_token_is_replaced(data: Path) -> None:
    (data / "token").write_bytes(bytes(range(128, 228)))
    server = ApiServer(data)
    server.store.close()
    assert (data / "token").read_text() == server.credentials.token
    assert len(server.credentials.token) > 32
