"""The garbage collector finishes its work after the server was killed."""

from pathlib import Path
from typing import Any

import pytest

from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.server import ApiServer


class Cluster:
    """A server whose garbage collector runs only on request."""

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
        """Return a new server on the same data, without the state in memory."""
        self.server.store.close()
        return Cluster(data)


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_dependents_are_deleted_with_their_owner(tmp_path: Path, propagation: str, is_killed: bool) -> None:
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
def test_orphaned_dependents_stay(tmp_path: Path, is_killed: bool) -> None:
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
def test_dependent_with_another_owner_stays(tmp_path: Path, propagation: str) -> None:
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
def test_ownership_cycle_is_deleted(tmp_path: Path, propagation: str) -> None:
    """Two objects own each other: deleting one deletes both."""
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


def test_dependent_with_finalizer_blocks_its_owner(tmp_path: Path) -> None:
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


def test_owner_of_unknown_kind_counts_as_existing(tmp_path: Path) -> None:
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
def test_namespace_is_deleted_with_its_contents(tmp_path: Path, is_killed: bool) -> None:
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


def test_deletion_of_a_stored_definition_keeps_the_objects_of_a_built_in_kind(tmp_path: Path) -> None:
    """An earlier release accepted definitions in the groups of built-in kinds."""
    cluster = Cluster(tmp_path)
    server, roles = cluster.server, "clusterroles.rbac.authorization.k8s.io"
    version = {
        "name": "v2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    stored = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": roles, "uid": "a", "creationTimestamp": "2024-05-06T07:08:09Z"},
        "spec": {
            "group": "rbac.authorization.k8s.io",
            "scope": "Cluster",
            "names": {"plural": "clusterroles", "kind": "Other"},
            "versions": [version],
        },
        "status": {"conditions": [], "storedVersions": ["v2"]},
    }
    server.store.create("customresourcedefinitions.apiextensions.k8s.io", roles, stored)
    count = server.store.count(roles)
    definitions = server.registry.built_in("customresourcedefinitions.apiextensions.k8s.io")
    server.lifecycle.delete(definitions, "", roles, DeleteOptions())
    cluster.collect()
    assert list(server.lifecycle.objects("apiextensions.k8s.io", "customresourcedefinitions")) == []
    assert server.store.count(roles) == count
