"""Regression tests: each error was found by an attempt to break the server."""

import asyncio
import json
import sqlite3
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server_process import RunningServer, serving
from windlass.k8s import formats
from windlass.localcluster.apiserver import responses, selection, watches
from windlass.localcluster.apiserver.kinds import table
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.apiserver.watches import Watch, Watches
from windlass.localcluster.server import ApiServer
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import StoreError

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, **fields}


def later(_: Any) -> None:
    """A store whose commits are made by the test."""


def watch_of_maps(since: int | None = None) -> Watch:
    kind = next(kind for kind in table.KINDS if kind.plural == "configmaps")
    return Watch(
        kind=kind,
        namespace="",
        selection=selection.parse("", "", kind),
        since=since,
        with_bookmarks=False,
        timeout_seconds=60,
    )


def encoder_of_maps() -> responses.EventEncoder:
    return responses.event_encoder(watch_of_maps(None).kind, responses.DEFAULT, lambda: datetime.now(UTC))


def names_in(lines: bytes) -> list[str]:
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines.splitlines()]


def test_watch_started_before_a_commit_gets_each_change_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.db", schedule=later)
    all_watches = Watches(store)
    store.create("configmaps", "default/a", thing("a"))
    for since in (0, None):
        feed = all_watches.open(watch_of_maps(since), encoder_of_maps())
        store.commit()
        store.create("configmaps", f"default/b{since}", thing(f"b{since}"))
        store.commit()
        told = names_in(asyncio.run(feed.take(0)))
        assert len(told) == len(set(told)) == int(store.version)
    store.close()


def test_watch_from_a_future_version_gets_no_earlier_change(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.db")
    feed = Watches(store).open(watch_of_maps(since=2), encoder_of_maps())
    for name in "abc":
        store.create("configmaps", f"default/{name}", thing(name))

    assert names_in(asyncio.run(feed.take(0))) == ["c"]
    store.close()


def test_history_compacted_in_a_batch_is_reported(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.db", history_bytes=50_000, schedule=later)
    for number in range(8):
        store.create("configmaps", f"default/{number}", thing(str(number), text="x" * 10_000))
        store.create("configmaps", f"default/small-{number}", thing(f"small-{number}"))
        store.commit()
    forgotten = store.compacted_version
    store.close()

    assert forgotten > 0
    again = Store(tmp_path / "cluster.db")
    assert again.compacted_version == forgotten
    assert next(again.changes("configmaps", "", forgotten)).version == forgotten + 1
    again.close()


class Failing:
    """A connection whose next commit fails, as on a full disk."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self._sql = sql
        self.fails = False

    def execute(self, statement: str, *arguments: Any) -> Any:
        if self.fails and statement == "COMMIT":
            self.fails = False
            raise sqlite3.OperationalError("database or disk is full")
        return self._sql.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sql, name)


def test_failed_commit_rolls_back_all_writes_of_its_turn(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.db", schedule=later)
    failing = Failing(store._db)
    store._db = failing  # type: ignore[assignment]
    heard: list[str] = []
    told: list[StoreError | None] = []
    store.listen(lambda change: heard.append(change.key))
    store.create("configmaps", "default/a", thing("a"))
    store.commit()
    failing.fails = True
    store.create("configmaps", "default/b", thing("b"))
    store.create("configmaps", "default/c", thing("c"))
    store.on_commit(told.append)
    store.commit()

    assert isinstance(told[0], StoreError)
    assert heard == ["default/a"]
    assert store.version == store.committed_version == 1
    store.create("configmaps", "default/d", thing("d"))
    store.commit()
    assert heard == ["default/a", "default/d"]
    assert [json.loads(body)["metadata"]["name"] for body in store.page("configmaps").bodies] == ["a", "d"]
    store.close()


def test_garbage_collector_retries_after_a_failed_commit(tmp_path: Path) -> None:
    server = ApiServer(tmp_path)
    failing = Failing(server.store._db)
    server.store._db = failing  # type: ignore[assignment]
    namespaces = server.registry.find("", "v1", "namespaces")
    maps = server.registry.find("", "v1", "configmaps")
    assert namespaces is not None
    assert maps is not None
    server.lifecycle.create(namespaces, "", {"metadata": {"name": "going"}}, WriteOptions())
    server.lifecycle.create(maps, "going", {"metadata": {"name": "in-it"}}, WriteOptions())
    server.lifecycle.delete(namespaces, "", "going", DeleteOptions())
    failing.fails = True
    while server.collector.has_work:
        server.collector.step()

    assert server.store.get("namespaces", "going") is None
    server.store.close()


def test_failing_feed_does_not_affect_others(tmp_path: Path) -> None:
    class FailingEncoder:
        def encoding_key(self, *, is_first: bool) -> str:
            return "failing"

        def encode(self, body: bytes, *, is_first: bool) -> bytes:
            raise ValueError("cannot be shown")

    store = Store(tmp_path / "cluster.db")
    all_watches = Watches(store)
    encoders: list[watches.EventEncoder] = [FailingEncoder(), encoder_of_maps()] * 2
    feeds = [all_watches.open(watch_of_maps(), encoder) for encoder in encoders]
    store.create("configmaps", "default/a", thing("a"))

    assert [feed.is_closed for feed in feeds] == [True, False, True, False]
    assert [names_in(asyncio.run(feed.take(0))) for feed in feeds[1::2]] == [["a"], ["a"]]
    store.close()


def test_line_at_the_timeout_keeps_its_order(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.db")
    feed = Watches(store).open(watch_of_maps(), encoder_of_maps())

    async def take_while_it_comes() -> bytes:
        taking = asyncio.create_task(feed.take(0))
        await asyncio.sleep(0)
        store.create("configmaps", "default/a", thing("a"))
        return await taking or await feed.take(0)

    assert names_in(asyncio.run(take_while_it_comes())) == ["a"]
    store.close()


def test_rejected_names_fill_no_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(30):
            assert formats.dns_subdomain(f"{number}-" + "x" * 1_000_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("data")
    folder.chmod(0o755)
    with serving(folder) as served:
        yield served


def definition(name: str, **schema: Any) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
    }
    kind = plural.capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


@pytest.mark.parametrize(
    "name", ["leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"]
)
def test_definition_cannot_replace_a_built_in_kind(server: RunningServer, name: str) -> None:
    answer = server.ask("POST", DEFINITIONS, definition(name))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert "api-approved.kubernetes.io" in answer.body["message"]


def test_definition_that_cannot_be_compiled_is_not_stored(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    with serving(tmp_path) as first:
        assert first.ask("POST", DEFINITIONS, definition("deep.example.com", **deep)).code in (201, 400, 422)
        any_of: dict[str, Any] = {"anyOf": [{}]}
        for _ in range(300):
            any_of = {"anyOf": [any_of]}
        nested = definition("nested.example.com", properties={"a": {"type": "object", **any_of}})
        assert first.ask("POST", DEFINITIONS, nested).code in (201, 400, 422)
    with serving(tmp_path) as second:
        assert second.ask("GET", "/readyz").code == 200


def test_database_is_private(server: RunningServer) -> None:
    for name in ("cluster.db", "cluster.db-wal"):
        assert (server.data / name).stat().st_mode & 0o777 == 0o600


def test_empty_database_beside_other_data_is_rejected(tmp_path: Path) -> None:
    database = tmp_path / "cluster.db"
    database.touch()
    with serving(tmp_path) as first:
        assert first.ask("GET", "/readyz").code == 200, (
            "the first start may have been killed before its first write"
        )
    database.write_bytes(b"")
    with pytest.raises(StoreError, match="it is empty, but the directory contains other data of the cluster"):
        ApiServer(tmp_path)
    assert database.stat().st_size == 0


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
def test_namespace_is_deleted_by_any_request(server: RunningServer, policy: str) -> None:
    name = f"ns-{policy.lower()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert server.ask("POST", "/api/v1/namespaces", body).code == 201
    path = f"/api/v1/namespaces/{name}"
    assert server.ask("DELETE", f"{path}?propagationPolicy={policy}").code == 200
    end = time.monotonic() + 60
    while server.ask("GET", path).code != 404:
        assert time.monotonic() < end, f"{name} does not go"
        time.sleep(0.01)


def test_namespace_containing_the_word_is_not_terminating(server: RunningServer) -> None:
    body = {
        "metadata": {
            "name": "worded",
            "annotations": {"deletionTimestamp": "x"},
            "labels": {"x": "deletionTimestamp"},
        }
    }
    assert server.ask("POST", "/api/v1/namespaces", body).code == 201
    assert server.ask("POST", "/api/v1/namespaces/worded/configmaps", {"metadata": {"name": "a"}}).code == 201


def test_status_update_with_invalid_metadata_is_rejected(server: RunningServer) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert server.ask("POST", "/api/v1/namespaces/default/pods", pod).code == 201
    patch = {"metadata": {"labels": {"a": "b!"}, "finalizers": ["bad finalizer"]}}
    answer = server.ask(
        "PATCH", "/api/v1/namespaces/default/pods/p/status", patch, "application/merge-patch+json"
    )
    assert answer.code == 422


@pytest.mark.parametrize(
    "binding",
    [
        {"metadata": "x", "target": {"name": "n"}},
        {"metadata": {"annotations": {"a": 1}}, "target": {"name": "n"}},
        {"metadata": {"annotations": {"b b": "x"}}, "target": {"name": "n"}},
        {"target": {"name": "no/such node!"}},
        {"target": []},
    ],
)
def test_binding_is_validated(server: RunningServer, binding: dict[str, Any]) -> None:
    pod = {"metadata": {"name": "bound"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    server.ask("POST", "/api/v1/namespaces/default/pods", pod)
    answer = server.ask("POST", "/api/v1/namespaces/default/pods/bound/binding", binding)
    assert answer.code in (400, 422), answer


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=-1", 200),
        ("limit=100000000000000000000", 400),
        ("limit=x", 400),
        (f"resourceVersion={'9' * 5000}", 400),
        ("watch=1&resourceVersion=999999999999999999999999999999", 400),
        (f"watch=1&resourceVersion=x&timeoutSeconds={'9' * 400}", 400),
    ],
)
def test_unusual_numbers(server: RunningServer, query: str, code: int) -> None:
    assert server.ask("GET", f"{MAPS}?timeoutSeconds=1&{query}").code == code


def test_unwatchable_request_is_rejected_before_it_starts(server: RunningServer) -> None:
    table_of = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    answer = server.ask("GET", f"{MAPS}?watch=1&includeObject=bogus&timeoutSeconds=1", headers=table_of)
    assert answer.code == 400
    lists = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    assert server.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=1", headers=lists).code == 406


def test_first_of_repeated_parameters_counts(server: RunningServer) -> None:
    body = {"metadata": {"name": "dry"}}
    assert server.ask("POST", f"{MAPS}?dryRun=All&dryRun=", body).code == 201
    assert server.ask("GET", f"{MAPS}/dry").code == 404


def test_put_creates_no_object_of_another_name(server: RunningServer) -> None:
    service = {"metadata": {"name": "two"}, "spec": {"ports": [{"port": 80}]}}
    assert server.ask("PUT", "/api/v1/namespaces/default/services/one", service).code == 400
    assert server.ask("GET", "/api/v1/namespaces/default/services/two").code == 404


@pytest.mark.parametrize("metadata", [True, "c", [], 1])
def test_put_with_unusual_metadata(server: RunningServer, metadata: Any) -> None:
    body = {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    assert server.ask("PUT", "/api/v1/namespaces/default/services/odd", body).code == 400


def test_large_integer_is_patched(server: RunningServer) -> None:
    assert (
        server.ask(
            "POST",
            DEFINITIONS,
            definition("numbers.example.com", **{"x-kubernetes-preserve-unknown-fields": True}),
        ).code
        == 201
    )
    path = "/apis/example.com/v1/namespaces/default/numbers"
    one = {"apiVersion": "example.com/v1", "kind": "Numbers", "metadata": {"name": "a"}, "n": 2**70}
    assert server.ask("POST", path, one).code == 201
    patched = server.ask("PATCH", f"{path}/a", {"m": 2**71}, "application/merge-patch+json")
    assert (patched.code, patched.body["n"], patched.body["m"]) == (200, 2**70, 2**71)


def test_longest_grace_period_is_stored(server: RunningServer) -> None:
    pod = {
        "metadata": {"name": "slow"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeName": "n",
            "terminationGracePeriodSeconds": 2**40,
        },
    }
    assert server.ask("POST", "/api/v1/namespaces/default/pods", pod).code == 201
    assert server.ask("DELETE", "/api/v1/namespaces/default/pods/slow").code == 200


def test_field_name_that_is_not_a_header(server: RunningServer) -> None:
    """Warnings are sent in a header, whatever the field name."""
    unknown = {f"f{number}\r\nx: y": 1 for number in range(200)}
    answer = server.ask("POST", MAPS, {"metadata": {"name": "warned"}, **unknown})
    assert answer.code == 201
    assert "Warning" in answer.headers


def test_truncated_token_is_rejected(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    (tmp_path / "token").write_text("")
    with serving(tmp_path) as served:
        assert len(served.token) >= 32
        assert served.ask("GET", "/version", headers={"Authorization": "Bearer "}).code == 401


@pytest.mark.parametrize(
    "host", ["localhost#.evil.com", "localhost/evil", "localhost?evil.com", "user@localhost", "localhost:"]
)
def test_similar_host_names_are_rejected(server: RunningServer, host: str) -> None:
    assert server.ask("GET", "/version", headers={"Host": host}).code in (400, 403)


def test_file_at_the_path_of_the_socket_is_kept(tmp_path: Path) -> None:
    (tmp_path / "socket").write_text("mine")
    with (
        pytest.raises(AssertionError, match="the file exists and is not a socket"),
        serving(tmp_path / "data", "--socket", str(tmp_path / "socket")),
    ):
        pass
    assert (tmp_path / "socket").read_text() == "mine"


def test_ages_in_a_watch_are_current(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watches.BOOKMARK_INTERVAL_SECONDS > 0
    accept = {
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
        "Authorization": f"Bearer {server.token}",
    }
    connection = server.connect()
    connection.request("GET", f"{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=30", headers=accept)
    response = connection.getresponse()
    server.create("aged")
    for line in response:
        cells = json.loads(line)["object"]["rows"][0]["cells"]
        assert cells[-1] != "<invalid>"
        if cells[0] == "aged":
            break
    connection.close()
