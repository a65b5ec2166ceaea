"""Watches send every change once and in order, with slow clients, disconnects and restarts."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from server_process import RunningServer, serving
from windlass.localcluster.apiserver import bodies, selection, watches
from windlass.localcluster.apiserver.kinds import table
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.watches import Watch, Watches, WatchStream
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import CompactedError

MAPS = "/api/v1/namespaces/default/configmaps"


def kind_of(plural: str) -> Kind:
    return next(kind for kind in table.KINDS if kind.plural == plural)


KIND = kind_of("configmaps")


def watch(since: int | None = None, labels: str = "", namespace: str = "") -> Watch:
    return Watch(
        kind=KIND,
        namespace=namespace,
        selection=selection.parse(labels, "", KIND),
        since=since,
        with_bookmarks=False,
        timeout_seconds=60,
    )


def config_map(name: str, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "labels": labels or {}}, **fields}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = Store(tmp_path / "cluster.db", history_length=20)
    yield one
    one.close()


def taken(stream: WatchStream) -> list[tuple[str, str, str]]:
    lines = asyncio.run(stream.take(0)).splitlines()
    events = [json.loads(line) for line in lines]
    return [
        (event["type"], event["object"]["metadata"]["name"], event["object"]["metadata"]["resourceVersion"])
        for event in events
    ]


def test_initial_and_later_events_have_no_gap(store: Store) -> None:
    all_watches = Watches(store)
    store.create("configmaps", "default/a", config_map("a"))
    store.create("configmaps", "default/b", config_map("b"))
    stream = all_watches.open(watch(since=1), bytes)
    store.delete("configmaps", "default/a", expected=1)

    assert taken(stream) == [("ADDED", "b", "2"), ("DELETED", "a", "3")]


def test_object_that_stops_matching_is_deleted_event(store: Store) -> None:
    stream = Watches(store).open(watch(labels="app=blue"), bytes)
    store.create("configmaps", "default/a", config_map("a", {"app": "red"}))
    store.update("configmaps", "default/a", config_map("a", {"app": "blue"}), expected=1)
    store.update("configmaps", "default/a", config_map("a", {"app": "blue"}, data={}), expected=2)
    store.update("configmaps", "default/a", config_map("a", {"app": "red"}), expected=3)
    store.delete("configmaps", "default/a", expected=4)

    assert taken(stream) == [("ADDED", "a", "2"), ("MODIFIED", "a", "3"), ("DELETED", "a", "4")]


def test_watch_of_one_namespace_excludes_others(store: Store) -> None:
    stream = Watches(store).open(watch(namespace="ns"), bytes)
    store.create("configmaps", "ns-a/a", config_map("a"))
    store.create("configmaps", "ns/b", config_map("b"))

    assert taken(stream) == [("ADDED", "b", "2")]


def test_compacted_version_is_expired(store: Store) -> None:
    all_watches = Watches(store)
    for number in range(50):
        store.create("configmaps", f"default/{number}", config_map(str(number)))

    with pytest.raises(CompactedError):
        all_watches.open(watch(since=1), bytes)
    assert (
        len(taken(all_watches.open(watch(since=store.compacted_version), bytes)))
        == 50 - store.compacted_version
    )


def test_slow_client_is_disconnected(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MAX_QUEUED_BYTES", 10_000)
    stream = Watches(store).open(watch(), bytes)
    for number in range(40):
        store.create("configmaps", f"default/{number}", config_map(str(number), data={"x": "x" * 1000}))

    assert stream.is_overflowed
    assert len(asyncio.run(stream.take(0))) < 12_000


def test_closed_watch_is_removed(store: Store) -> None:
    all_watches, asked = Watches(store), watch()
    stream = all_watches.open(asked, bytes)
    all_watches.remove(asked, stream)
    store.create("configmaps", "default/a", config_map("a"))

    assert taken(stream) == []


def test_uncommitted_changes_are_not_sent(tmp_path: Path) -> None:
    scheduled: list[Any] = []
    store = Store(tmp_path / "cluster.db", schedule=scheduled.append)
    stream = Watches(store).open(watch(), bytes)
    store.create("configmaps", "default/a", config_map("a"))
    store.create("configmaps", "default/b", config_map("b"))
    assert taken(stream) == []
    assert len(scheduled) == 1

    scheduled.pop()()
    assert taken(stream) == [("ADDED", "a", "1"), ("ADDED", "b", "2")]
    store.close()


@contextmanager
def watching(served: RunningServer, query: str) -> Iterator[Iterator[dict[str, Any]]]:
    connection = served.connect()
    connection.request(
        "GET", f"{MAPS}?watch=true&{query}", headers={"Authorization": f"Bearer {served.token}"}
    )
    response = connection.getresponse()
    try:
        yield (json.loads(line) for line in response)
    finally:
        connection.close()


def test_watch_resumes_after_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        version = first.create("before").body["metadata"]["resourceVersion"]
        first.create("between")
        first.process.kill()
        first.process.wait()
    with serving(tmp_path) as second, watching(second, f"resourceVersion={version}") as events:
        assert next(events)["object"]["metadata"]["name"] == "between"
        second.create("after")
        assert next(events)["object"]["metadata"]["name"] == "after"


def test_slow_client_does_not_delay_others(tmp_path: Path) -> None:
    """Write more than the kernel buffers for a client that never reads. Other clients are not affected."""
    with serving(tmp_path) as served, watching(served, "resourceVersion=0"):
        for number in range(30):
            assert served.create(f"map-{number}", text="x" * 900_000).code == 201
        with watching(served, "resourceVersion=0") as events:
            seen = [next(events)["object"]["metadata"]["name"] for _ in range(30)]
        assert sorted(seen) == sorted(f"map-{number}" for number in range(30))


def test_transform_is_called_once_per_event(store: Store) -> None:
    shown: list[bytes] = []

    def show(body: bytes) -> bytes:
        shown.append(body)
        return body

    stream = Watches(store).open(watch(), show)
    created = store.create("configmaps", "default/a", config_map("a"))

    assert shown == [created]
    assert bodies.decode_stored(asyncio.run(stream.take(0)).splitlines()[0])["type"] == "ADDED"
