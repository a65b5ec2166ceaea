"""Watches send every change once and in order, with slow clients, disconnects and restarts."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from server_process import RunningServer, serving
from windlass.k8s import metadata
from windlass.localcluster.apiserver import responses, selection, watches
from windlass.localcluster.apiserver.kinds import table
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.printing import tables
from windlass.localcluster.apiserver.watches import Watch, Watches, WatchStream
from windlass.localcluster.server import ApiServer
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import CompactedError

MAPS = "/api/v1/namespaces/default/configmaps"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kind_of(plural: str) -> Kind:
    return next(kind for kind in table.KINDS if kind.plural == plural)


KIND = kind_of("configmaps")
JSON = responses.event_encoder(KIND, responses.DEFAULT, lambda: NOW)


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
    stream = all_watches.open(watch(since=1), JSON)
    store.delete("configmaps", "default/a", expected=1)

    assert taken(stream) == [("ADDED", "b", "2"), ("DELETED", "a", "3")]


def test_object_that_stops_matching_is_deleted_event(store: Store) -> None:
    stream = Watches(store).open(watch(labels="app=blue"), JSON)
    store.create("configmaps", "default/a", config_map("a", {"app": "red"}))
    store.update("configmaps", "default/a", config_map("a", {"app": "blue"}), expected=1)
    store.update("configmaps", "default/a", config_map("a", {"app": "blue"}, data={}), expected=2)
    store.update("configmaps", "default/a", config_map("a", {"app": "red"}), expected=3)
    store.delete("configmaps", "default/a", expected=4)

    assert taken(stream) == [("ADDED", "a", "2"), ("MODIFIED", "a", "3"), ("DELETED", "a", "4")]


def test_watch_of_one_namespace_excludes_others(store: Store) -> None:
    stream = Watches(store).open(watch(namespace="ns"), JSON)
    store.create("configmaps", "ns-a/a", config_map("a"))
    store.create("configmaps", "ns/b", config_map("b"))

    assert taken(stream) == [("ADDED", "b", "2")]


def test_compacted_version_is_expired(store: Store) -> None:
    all_watches = Watches(store)
    for number in range(50):
        store.create("configmaps", f"default/{number}", config_map(str(number)))

    with pytest.raises(CompactedError):
        all_watches.open(watch(since=1), JSON)
    assert (
        len(taken(all_watches.open(watch(since=store.compacted_version), JSON)))
        == 50 - store.compacted_version
    )


def test_slow_client_is_disconnected(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MAX_QUEUED_BYTES", 10_000)
    stream = Watches(store).open(watch(), JSON)
    for number in range(40):
        store.create("configmaps", f"default/{number}", config_map(str(number), data={"x": "x" * 1000}))

    assert stream.is_overflowed
    assert len(asyncio.run(stream.take(0))) < 12_000


def test_closed_watch_is_removed(store: Store) -> None:
    all_watches, asked = Watches(store), watch()
    stream = all_watches.open(asked, JSON)
    all_watches.remove(asked, stream)
    store.create("configmaps", "default/a", config_map("a"))

    assert taken(stream) == []


def test_uncommitted_changes_are_not_sent(tmp_path: Path) -> None:
    scheduled: list[Any] = []
    store = Store(tmp_path / "cluster.db", schedule=scheduled.append)
    stream = Watches(store).open(watch(), JSON)
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


class CountedCalls:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.count = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self.function(*arguments, **options)


def accept(kind: str) -> str:
    return f"application/json;as={kind};g=meta.k8s.io;v=v1"


async def received_events(data: Path, accepts: list[str], query: str = "") -> list[list[dict[str, Any]]]:
    """Create, change and delete an object. Return the three events that each watch receives."""
    server = ApiServer(data)
    await server.start(socket_path=data / "socket")
    connector = aiohttp.UnixConnector(str(data / "socket"), limit=0)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        http = await stack.enter_async_context(aiohttp.ClientSession("http://localhost", connector=connector))
        streams = [
            await stack.enter_async_context(http.get(f"{MAPS}?watch=true{query}", headers={"Accept": one}))
            for one in accepts
        ]
        await http.post(MAPS, json=config_map("a", {"app": "blue"}))
        as_patch = {"Content-Type": "application/merge-patch+json"}
        await http.patch(f"{MAPS}/a", data=b'{"data": {"x": "y"}}', headers=as_patch)
        await http.delete(f"{MAPS}/a")
        return [[json.loads(await stream.content.readline()) for _ in range(3)] for stream in streams]


def test_event_is_encoded_once_for_all_watches_with_the_same_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted = CountedCalls(tables.convert_object)
    monkeypatch.setattr(tables, "convert_object", converted)
    accepts = ["application/json", accept(tables.TABLE), accept(tables.PARTIAL)]
    received = asyncio.run(received_events(tmp_path, accepts * 20))

    # Three events, each as a table and as metadata.
    assert converted.count == 6
    for number, kind in enumerate(["ConfigMap", tables.TABLE, tables.PARTIAL]):
        same = received[number::3]
        assert all(events == same[0] for events in same)
        assert [(event["type"], event["object"]["kind"]) for event in same[0]] == [
            ("ADDED", kind),
            ("MODIFIED", kind),
            ("DELETED", kind),
        ]


def test_selectors_of_all_watches_decode_an_object_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = CountedCalls(metadata.decode_labels)
    monkeypatch.setattr(metadata, "decode_labels", decoded)
    received = asyncio.run(received_events(tmp_path, ["*/*"] * 20, "&labelSelector=app=blue"))

    # The object after its creation, before and after its change, and before its deletion.
    assert decoded.count == 4
    assert {event["object"]["metadata"]["name"] for events in received for event in events} == {"a"}


def test_only_first_table_of_each_watch_has_columns(store: Store) -> None:
    all_watches = Watches(store)
    representation = responses.negotiate(accept(tables.TABLE), {})
    encoder = responses.event_encoder(KIND, representation, lambda: NOW)
    streams = [all_watches.open(watch(), encoder)]
    for name in "abc":
        store.create("configmaps", f"default/{name}", {**config_map(name), "apiVersion": "v1"})
        streams.append(all_watches.open(watch(since=store.version), encoder))

    def have_columns(stream: WatchStream) -> list[bool]:
        lines = asyncio.run(stream.take(0)).splitlines()
        return [json.loads(line)["object"]["columnDefinitions"] is not None for line in lines]

    assert [have_columns(stream) for stream in streams] == [
        [True, False, False],
        [True, False],
        [True],
        [],
    ]


def test_limited_number_of_watches_writes_in_one_iteration(store: Store) -> None:
    """Other requests are served in between. A watch sends the events up to its turn in one write."""

    async def written_events() -> list[list[int]]:
        scheduled: list[Callable[[], None]] = []
        all_watches = Watches(store, schedule=scheduled.append)
        streams = [all_watches.open(watch(), JSON) for _ in range(2 * watches.WAKE_LIMIT + 1)]
        taking = [asyncio.create_task(stream.take(60)) for stream in streams]
        await asyncio.sleep(0)
        turns = []
        for number in range(3):
            # With the second change, no stream is woken out of turn.
            if number < 2:
                store.create("configmaps", f"default/{number}", config_map(str(number)))
            if number:
                scheduled.pop()()
            for _ in range(5):
                await asyncio.sleep(0)
            done = [task for task in taking if task.done()]
            turns.append([task.result().count(b"\n") for task in done])
            taking = [task for task in taking if not task.done()]
        return turns

    limit = watches.WAKE_LIMIT
    assert asyncio.run(written_events()) == [[1] * limit, [2] * limit, [2]]
