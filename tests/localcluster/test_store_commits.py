"""Listeners and callbacks are called after the commit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.store import Store
from windlass.localcluster.store_types import StoreError

THING: dict[str, Any] = {"metadata": {"name": "a", "uid": "a"}}


def told_by(store: Store) -> list[str]:
    """Record the calls, and whether the change is committed at that time."""
    told: list[str] = []

    def note(what: str) -> None:
        told.append(f"{what}, {'not committed' if store._db.in_transaction else 'committed'}")

    def settled(failure: StoreError | None) -> None:
        note("settled" if failure is None else "failed")

    store.listen(lambda change: note(f"changed {change.key}"))
    store.on_commit(settled)
    return told


def test_listeners_and_callbacks_are_called_after_the_commit(tmp_path: Path) -> None:
    turn: list[Callable[[], None]] = []
    store = Store(tmp_path / "cluster.db", schedule=turn.append)
    told = told_by(store)
    store.create("things", "a", THING)
    assert told == []
    (commit,) = turn
    commit()
    assert told == ["settled, committed", "changed a, committed"]
    assert store.is_committed
    store.close()


def test_listeners_are_not_called_for_a_failed_commit(tmp_path: Path) -> None:
    turn: list[Callable[[], None]] = []
    store = Store(tmp_path / "cluster.db", schedule=turn.append)
    told = told_by(store)
    store.create("things", "a", THING)
    store._db.execute("ROLLBACK")  # COMMIT fails without a transaction
    turn.pop()()
    assert told == ["failed, committed"]
    assert (store.version, store.get("things", "a")) == (0, None)
    with pytest.raises(StoreError, match="does not exist"):
        store.delete("things", "a", expected=1)
    store.close()
