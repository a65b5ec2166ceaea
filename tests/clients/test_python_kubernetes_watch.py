"""The official Python client: watches, informers, leases, and the dynamic client."""

# Its models declare every field as optional, and most of its code is untyped.
# mypy: disable-error-code="no-untyped-call, union-attr, index, arg-type, operator"

import datetime
import itertools
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, dynamic, watch
from kubernetes.client import ApiException
from kubernetes.dynamic import exceptions as dynamic_exceptions
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from conformance.waiting import wait_for
from server_process import serving

LONG_ENOUGH = 120
"""Timeout of a watch in seconds, after which the test fails."""


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def first(count: int, watcher: Any, ask: Any, *arguments: Any, **options: Any) -> list[tuple[str, str]]:
    """Return the types and object names of the first events."""
    events = watcher.stream(ask, *arguments, timeout_seconds=LONG_ENOUGH, **options)
    seen = [
        (event["type"], event["raw_object"]["metadata"]["name"]) for event in itertools.islice(events, count)
    ]
    watcher.stop()
    events.close()
    return seen


# Watches


def test_watch_shows_existing_objects_and_changes(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("old"))
    watcher = watch.Watch()
    events = watcher.stream(core.list_namespaced_config_map, namespace, timeout_seconds=LONG_ENOUGH)
    seen = [next(events)]
    core.create_namespaced_config_map(namespace, config_map("new", {"a": "1"}))
    core.patch_namespaced_config_map("new", namespace, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("new", namespace)
    seen += itertools.islice(events, 3)
    watcher.stop()
    events.close()
    assert [(event["type"], event["object"].metadata.name) for event in seen] == [
        ("ADDED", "old"),
        ("ADDED", "new"),
        ("MODIFIED", "new"),
        ("DELETED", "new"),
    ]
    assert [event["object"].data for event in seen] == [None, {"a": "1"}, {"a": "2"}, {"a": "2"}]


def test_watch_resumes_where_another_stopped(core: Any, namespace: str) -> None:
    listed = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, config_map(name))
    core.delete_namespaced_config_map("a", namespace)
    watcher = watch.Watch()
    ask = core.list_namespaced_config_map
    assert first(2, watcher, ask, namespace, resource_version=listed) == [("ADDED", "a"), ("ADDED", "b")]
    left_at = watcher.resource_version
    assert first(2, watch.Watch(), ask, namespace, resource_version=left_at) == [
        ("ADDED", "c"),
        ("DELETED", "a"),
    ]


def test_watch_with_selector_adds_and_deletes(core: Any, namespace: str) -> None:
    listed = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("m"))
    core.patch_namespaced_config_map("m", namespace, {"metadata": {"labels": {"tier": "1"}}})
    core.patch_namespaced_config_map("m", namespace, {"metadata": {"labels": {"tier": "2"}}})
    options = {"label_selector": "tier=1", "resource_version": listed}
    seen = first(2, watch.Watch(), core.list_namespaced_config_map, namespace, **options)
    assert seen == [("ADDED", "m"), ("DELETED", "m")]


def test_watch_ends_after_timeout(core: Any, namespace: str) -> None:
    events = watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1)
    assert list(events) == []


def test_watch_from_compacted_version_is_expired(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--history", "5") as server:
        configuration = client.Configuration(host=server.url)
        configuration.ssl_ca_cert = str(server.data / "server.crt")
        configuration.api_key["authorization"] = f"Bearer {server.token}"
        with client.ApiClient(configuration) as connection:
            core = client.CoreV1Api(connection)
            start = core.create_namespaced_config_map("default", config_map("m0")).metadata.resource_version
            for number in range(1, 50):
                core.create_namespaced_config_map("default", config_map(f"m{number}"))
            with pytest.raises(ApiException) as caught:
                first(1, watch.Watch(), core.list_namespaced_config_map, "default", resource_version=start)
    assert caught.value.status == 410


def test_custom_resources_and_definitions_are_watched(connection: Any, namespace: str) -> None:
    definitions = client.ApiextensionsV1Api(connection)
    listed = definitions.list_custom_resource_definition().metadata.resource_version
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    group = f"{namespace}.example.com"
    definitions.create_custom_resource_definition(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [version],
            },
        }
    )
    watcher = watch.Watch()
    options = {"resource_version": listed, "timeout_seconds": LONG_ENOUGH}
    for event in watcher.stream(definitions.list_custom_resource_definition, **options):
        conditions = event["object"].status.conditions or []
        if any(found.type == "Established" and found.status == "True" for found in conditions):
            watcher.stop()
    custom = client.CustomObjectsApi(connection)
    where = (group, "v1", namespace, "widgets")
    start = custom.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 3}
    custom.create_namespaced_custom_object(*where, widget)
    custom.delete_namespaced_custom_object(*where, "w")
    seen = first(2, watch.Watch(), custom.list_namespaced_custom_object, *where, resource_version=start)
    assert seen == [("ADDED", "w"), ("DELETED", "w")]


def test_informer_cache_follows_changes(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("old"))
    informer = SharedInformer(core.list_namespaced_config_map, namespace=namespace)

    def known() -> set[str]:
        return {key.rpartition("/")[2] for key in informer.cache.list_keys()}

    informer.start()
    try:
        wait_for("the informer to list", lambda: known() == {"old"})
        core.create_namespaced_config_map(namespace, config_map("new"))
        wait_for("the informer to see what was created", lambda: known() == {"old", "new"})
        core.delete_namespaced_config_map("old", namespace)
        wait_for("the informer to see what was deleted", lambda: known() == {"new"})
    finally:
        informer.stop()


# Leases


def lease(holder: str, **metadata: Any) -> Any:
    now = datetime.datetime.now(datetime.UTC)
    spec = client.V1LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=15,
        acquire_time=now,
        renew_time=now,
        lease_transitions=0,
    )
    return client.V1Lease(metadata=client.V1ObjectMeta(name="leader", **metadata), spec=spec)


def test_lease_has_one_holder(connection: Any, namespace: str) -> None:
    leases = client.CoordinationV1Api(connection)
    created = leases.create_namespaced_lease(namespace, lease("a"))
    assert (
        created.spec.renew_time.microsecond
        == leases.read_namespaced_lease("leader", namespace).spec.renew_time.microsecond
    )
    with pytest.raises(ApiException) as second:
        leases.create_namespaced_lease(namespace, lease("b"))
    assert (second.value.status, second.value.reason) == (409, "Conflict")

    version = created.metadata.resource_version
    renewed = leases.replace_namespaced_lease("leader", namespace, lease("a", resource_version=version))
    with pytest.raises(ApiException) as stale:
        leases.replace_namespaced_lease("leader", namespace, lease("b", resource_version=version))
    assert stale.value.status == 409
    assert "the object has been modified" in stale.value.body
    version = renewed.metadata.resource_version
    leases.replace_namespaced_lease("leader", namespace, lease("b", resource_version=version))
    assert leases.read_namespaced_lease("leader", namespace).spec.holder_identity == "b"


def candidate(connection: Any, namespace: str, identity: str) -> Any:
    lock = LeaseLock("election", namespace, identity)
    lock.api_instance = client.CoordinationV1Api(connection)
    config = electionconfig.Config(
        lock,
        lease_duration=3600,
        renew_deadline=1800,
        retry_period=1,
        onstarted_leading=lambda: None,
        onstopped_leading=lambda: None,
    )
    return leaderelection.LeaderElection(config)


def test_leader_election_has_one_leader(connection: Any, namespace: str) -> None:
    first, second = (candidate(connection, namespace, name) for name in ("first", "second"))
    assert first.try_acquire_or_renew()
    assert not second.try_acquire_or_renew()
    assert first.try_acquire_or_renew(), "a leader renews its own lease"
    leases = client.CoordinationV1Api(connection)
    assert leases.read_namespaced_lease("election", namespace).spec.holder_identity == "first"
    leases.delete_namespaced_lease("election", namespace)
    assert second.try_acquire_or_renew()


# The dynamic client


@pytest.fixture
def anything(connection: Any, tmp_path: Path) -> Any:
    """Return the client with a private cache file for discovery; the default one is shared by all users."""
    return dynamic.DynamicClient(connection, cache_file=str(tmp_path / "discovered.json"))


@pytest.mark.parametrize(
    ("version", "kind", "plural", "is_namespaced"),
    [
        ("v1", "Pod", "pods", True),
        ("v1", "Node", "nodes", False),
        ("apps/v1", "Deployment", "deployments", True),
        ("batch/v1", "Job", "jobs", True),
        ("coordination.k8s.io/v1", "Lease", "leases", True),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    ],
)
def test_dynamic_client_discovers_kind(
    anything: Any, version: str, kind: str, plural: str, is_namespaced: bool
) -> None:
    found = anything.resources.get(api_version=version, kind=kind)
    assert (found.name, found.namespaced) == (plural, is_namespaced)
    assert {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} <= set(
        found.verbs
    )


def test_dynamic_client_writes_and_reads_any_kind(anything: Any, namespace: str) -> None:
    services = anything.resources.get(api_version="v1", kind="Service")
    ports = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
    body = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": {"ports": ports}}
    created = services.create(body=body, namespace=namespace)
    assert created.spec.type == "ClusterIP"
    patch = {"spec": {"ports": [{"port": 81, "targetPort": 8081}]}}
    patched = services.patch(body=patch, name="web", namespace=namespace)
    assert [(port.port, port.targetPort) for port in patched.spec.ports] == [(80, 80), (81, 8081)]
    merged = services.patch(
        body={"metadata": {"labels": {"a": "b"}}},
        name="web",
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    changed = merged.to_dict()
    changed["metadata"]["labels"]["a"] = "c"
    services.replace(body=changed, namespace=namespace)
    assert [item.metadata.name for item in services.get(namespace=namespace, label_selector="a=c").items] == [
        "web"
    ]
    services.delete(name="web", namespace=namespace)
    with pytest.raises(dynamic_exceptions.NotFoundError, match="not found"):
        services.get(name="web", namespace=namespace)


def test_dynamic_watch_starts_with_bookmarked_state(anything: Any, core: Any, namespace: str) -> None:
    config_maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    core.create_namespaced_config_map(namespace, config_map("m"))
    watcher = watch.Watch()
    events = config_maps.watch(
        namespace=namespace,
        timeout=LONG_ENOUGH,
        watcher=watcher,
        allow_watch_bookmarks=True,
        send_initial_events=True,
        resource_version_match="NotOlderThan",
    )
    seen = list(itertools.islice(events, 2))
    watcher.stop()
    events.close()
    assert [event["type"] for event in seen] == ["ADDED", "BOOKMARK"]
    assert seen[1]["raw_object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_dynamic_client_apply_is_rejected(anything: Any, namespace: str) -> None:
    config_maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    with pytest.raises(dynamic_exceptions.DynamicApiError) as caught:
        config_maps.server_side_apply(body=body, namespace=namespace, field_manager="tests")
    assert caught.value.status == 415
