"""What the garbage collector was about to do when the server was killed, the next server does."""

from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.server import ApiServer


class Cluster:
    """A server whose collector works only when it is told to."""

    def __init__(self, data: Path) -> None:
        self.server = ApiServer(data)
        found = self.server.registry.find("", "v1", "configmaps")
        assert found is not None
        self.maps = found

    def create(self, name: str, *owners: str, blocks: bool = False, **metadata: Any) -> None:
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner,
                "uid": self.uid(owner),
                "blockOwnerDeletion": blocks,
            }
            for owner in owners
        ]
        given = {"metadata": {"name": name, "ownerReferences": references, **metadata}}
        self.server.lifecycle.create(self.maps, "default", given, WriteOptions())

    def uid(self, name: str) -> str:
        return str(self.server.lifecycle.read(self.maps, "default", name)["metadata"]["uid"])

    def delete(self, name: str, propagation: str) -> None:
        self.server.lifecycle.delete(self.maps, "default", name, DeleteOptions(propagation=propagation))

    def names(self) -> list[str]:
        found = self.server.lifecycle.objects("", "configmaps")
        return [obj["metadata"]["name"] for obj in found]

    def owners(self, name: str) -> list[str]:
        meta = self.server.lifecycle.read(self.maps, "default", name)["metadata"]
        return [owner["name"] for owner in meta.get("ownerReferences", ())]

    def collect(self) -> None:
        while self.server.collector.has_work:
            self.server.collector.step()

    def killed(self, data: Path) -> "Cluster":
        """The next server on the same data: whatever waited in this one's memory is lost."""
        self.server.store.close()
        return Cluster(data)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_dependents_go(tmp_path: Path, propagation: str, is_killed: bool) -> None:
    cluster = Cluster(tmp_path)
    cluster.create("owner")
    cluster.create("child", "owner", blocks=True)
    cluster.create("grandchild", "child", blocks=True)
    cluster.create("other")
    cluster.delete("owner", propagation)
    if is_killed:
        cluster = cluster.killed(tmp_path)
    cluster.collect()

    assert cluster.names() == ["other"]
    cluster.server.store.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_orphans_stay(tmp_path: Path, is_killed: bool) -> None:
    cluster = Cluster(tmp_path)
    cluster.create("owner")
    cluster.create("child", "owner")
    cluster.delete("owner", "Orphan")
    if is_killed:
        cluster = cluster.killed(tmp_path)
    cluster.collect()

    assert cluster.names() == ["child"]
    assert cluster.owners("child") == []
    cluster.server.store.close()


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_who_has_another_owner_stays(tmp_path: Path, propagation: str) -> None:
    cluster = Cluster(tmp_path)
    cluster.create("one")
    cluster.create("two")
    cluster.create("child", "one", "two", blocks=True)
    cluster.delete("one", propagation)
    cluster.collect()

    assert cluster.names() == ["child", "two"]
    assert cluster.owners("child") == ["two"]
    cluster.server.store.close()


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_circle_ends(tmp_path: Path, propagation: str) -> None:
    """Two that own each other: whoever is deleted takes the other along, and the collector comes to rest."""
    cluster = Cluster(tmp_path)
    cluster.create("a")
    cluster.create("b", "a", blocks=True)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "b",
        "uid": cluster.uid("b"),
        "blockOwnerDeletion": True,
    }
    cluster.server.lifecycle.amend(
        cluster.maps,
        "default",
        "a",
        lambda obj: {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}},
    )
    cluster.delete("a", propagation)
    cluster.collect()

    assert cluster.names() == []
    cluster.server.store.close()


def test_a_held_dependent_holds_its_owner(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.create("owner")
    cluster.create("child", "owner", blocks=True, finalizers=["example.com/hold"])
    cluster.delete("owner", "Foreground")
    cluster.collect()
    assert cluster.names() == ["child", "owner"]

    cluster.server.lifecycle.amend(
        cluster.maps,
        "default",
        "child",
        lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}},
    )
    cluster.collect()
    assert cluster.names() == []
    cluster.server.store.close()


def test_an_owner_of_an_unknown_kind_is_not_taken_for_gone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    reference = {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "u"}
    cluster.server.lifecycle.create(
        cluster.maps,
        "default",
        {"metadata": {"name": "child", "ownerReferences": [reference]}},
        WriteOptions(),
    )
    cluster.collect()

    assert cluster.names() == ["child"]
    cluster.server.store.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_namespace_goes_with_all_that_is_in_it(tmp_path: Path, is_killed: bool) -> None:
    cluster = Cluster(tmp_path)
    namespaces = cluster.server.registry.find("", "v1", "namespaces")
    assert namespaces is not None
    lifecycle = cluster.server.lifecycle
    lifecycle.create(namespaces, "", {"metadata": {"name": "going"}}, WriteOptions())
    lifecycle.create(cluster.maps, "going", {"metadata": {"name": "in-it"}}, WriteOptions())
    lifecycle.delete(namespaces, "", "going", DeleteOptions())
    if is_killed:
        cluster = cluster.killed(tmp_path)
    cluster.collect()

    assert cluster.names() == []
    assert cluster.server.store.get("namespaces", "going") is None
    cluster.server.store.close()


def test_conditions_of_a_terminating_namespace_follow_the_finalizers_in_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    namespaces = cluster.server.registry.find("", "v1", "namespaces")
    assert namespaces is not None
    lifecycle = cluster.server.lifecycle
    lifecycle.create(namespaces, "", {"metadata": {"name": "going"}}, WriteOptions())
    held = {"name": "held", "finalizers": ["example.com/first", "example.com/second"]}
    lifecycle.create(cluster.maps, "going", {"metadata": held}, WriteOptions())
    lifecycle.delete(namespaces, "", "going", DeleteOptions())
    cluster.collect()

    def without_first(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "metadata": {**old["metadata"], "finalizers": ["example.com/second"]}}

    def message() -> str:
        conditions = lifecycle.read(namespaces, "", "going")["status"]["conditions"]
        return next(
            str(each["message"]) for each in conditions if each["type"] == "NamespaceFinalizersRemaining"
        )

    assert "example.com/first" in message()
    lifecycle.amend(cluster.maps, "going", "held", without_first)
    cluster.collect()
    assert "example.com/first" not in message()
    assert "example.com/second" in message()
    cluster.server.store.close()
