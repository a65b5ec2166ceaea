"""lightkube, which shares no code with the official client: typed and generic resources, sync and async."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import yaml
from lightkube import ApiError, AsyncClient, Client, KubeConfig, codecs
from lightkube.core.exceptions import ConditionError
from lightkube.generic_resource import create_namespaced_resource, create_resources_from_crd
from lightkube.models.apps_v1 import DeploymentSpec, DeploymentStatus
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta, OwnerReference
from lightkube.operators import exists, not_equal, not_in
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.autoscaling_v1 import HorizontalPodAutoscaler
from lightkube.resources.core_v1 import ConfigMap, Namespace, Service
from lightkube.types import CascadeType, PatchType

from conformance.waiting import wait_for
from server_process import RunningServer

FRAMEWORKS = (
    Path(__file__).parents[2]
    / "charts/windlass/definitions/frameworks.frameworkcontroller.microsoft.com.yaml"
)
PATIENCE = httpx2.Timeout(120)


@pytest.fixture
def kube(kubeconfig: Path, namespace: str) -> Iterator[Client]:
    config = KubeConfig.from_file(kubeconfig)
    with Client(config, namespace=namespace, timeout=PATIENCE, trust_env=False) as client:
        yield client


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, **metadata), data=data)


def deployment(name: str, *images: str) -> Deployment:
    containers = [Container(name=f"c{number}", image=image) for number, image in enumerate(images)]
    labels = {"app": name}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=containers))
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(matchLabels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


def images_of(found: Deployment) -> list[str | None]:
    assert found.spec is not None
    assert found.spec.template.spec is not None
    return [container.image for container in found.spec.template.spec.containers]


def metadata_of(found: Any) -> ObjectMeta:
    metadata = found.metadata
    assert isinstance(metadata, ObjectMeta)
    return metadata


def names(found: Any) -> list[str | None]:
    return [metadata_of(item).name for item in found]


# Typed resources


def test_config_map_is_created_read_replaced_and_deleted(kube: Client) -> None:
    created = kube.create(config_map("m", {"a": "1"}))
    read = kube.get(ConfigMap, "m")
    assert read.data == {"a": "1"}
    assert metadata_of(read).uid == metadata_of(created).uid
    read.data = {"b": "2"}
    assert kube.replace(read).data == {"b": "2"}
    with pytest.raises(ApiError) as stale:
        kube.replace(created)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    kube.delete(ConfigMap, "m")
    with pytest.raises(ApiError) as missing:
        kube.get(ConfigMap, "m")
    assert missing.value.status.message == 'configmaps "m" not found'


def test_dry_run_stores_nothing(kube: Client) -> None:
    assert metadata_of(kube.create(config_map("m"), dry_run=True)).uid
    assert names(kube.list(ConfigMap)) == []


def test_status_is_written_through_subresource(kube: Client) -> None:
    created = kube.create(deployment("web", "a:1"))
    created.status = DeploymentStatus(replicas=3, observedGeneration=1)
    kube.replace(
        Deployment.Status(metadata=created.metadata, spec=created.spec, status=created.status), "web"
    )
    read = kube.get(Deployment.Status, "web")
    assert read.status is not None
    assert read.status.replicas == 3
    kube.patch(Deployment.Scale, "web", {"spec": {"replicas": 4}}, patch_type=PatchType.MERGE)
    scale = kube.get(Deployment.Scale, "web")
    assert scale.spec is not None
    assert scale.spec.replicas == 4


def test_yaml_documents_are_created(kube: Client) -> None:
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}},
    ]
    for loaded in codecs.load_all_yaml(yaml.safe_dump_all(documents)):
        kube.create(loaded)
    assert kube.get(ConfigMap, "m").data == {"a": "1"}
    service = kube.get(Service, "s")
    assert service.spec is not None
    assert service.spec.type == "ClusterIP"


# Patches


NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c1", "image": "new"}]}}}}


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        (PatchType.STRATEGIC, NEW_IMAGE, ["a", "new"]),
        (PatchType.MERGE, NEW_IMAGE, ["new"]),
        (PatchType.JSON, [{"op": "remove", "path": "/spec/template/spec/containers/0"}], ["b"]),
    ],
    ids=["strategic", "merge", "json"],
)
def test_deployment_is_patched(kube: Client, kind: PatchType, patch: Any, expected: list[str]) -> None:
    kube.create(deployment("web", "a", "b"))
    assert images_of(kube.patch(Deployment, "web", patch, patch_type=kind)) == expected


def test_labels_and_annotations_are_set_and_removed(kube: Client) -> None:
    kube.create(config_map("m", labels={"a": "1", "b": "2"}))
    kube.set(ConfigMap, "m", labels=cast("dict[str, str]", {"a": None}), annotations={"note": "x"})
    changed = metadata_of(kube.get(ConfigMap, "m"))
    assert (changed.labels, changed.annotations) == ({"b": "2"}, {"note": "x"})


@pytest.mark.parametrize("exists_already", [False, True])
def test_server_side_apply_is_rejected_with_explanation(kube: Client, exists_already: bool) -> None:
    if exists_already:
        kube.create(config_map("m"))
    with pytest.raises(ApiError) as caught:
        kube.apply(config_map("m", {"a": "1"}), field_manager="tests")
    status = caught.value.status
    assert (status.code, status.reason) == (415, "UnsupportedMediaType")
    assert status.message
    assert "application/strategic-merge-patch+json" in status.message
    assert names(kube.list(ConfigMap)) == (["m"] if exists_already else [])


def test_unknown_kind_is_not_found(kube: Client) -> None:
    with pytest.raises(ApiError) as caught:
        list(kube.list(HorizontalPodAutoscaler))
    assert caught.value.status.code == 404


# Lists and watches


@pytest.mark.parametrize("size", [1, 2, 100])
def test_list_in_chunks(kube: Client, size: int) -> None:
    for number in range(5):
        kube.create(config_map(f"m{number}"))
    listed = kube.list(ConfigMap, chunk_size=size)
    assert names(listed) == ["m0", "m1", "m2", "m3", "m4"]
    assert listed.resourceVersion


def test_selectors(kube: Client) -> None:
    for name, labels in [("a", {"tier": "1"}), ("b", {"tier": "2"}), ("c", None)]:
        kube.create(config_map(name, labels=labels))
    assert names(kube.list(ConfigMap, labels={"tier": "1"})) == ["a"]
    assert names(kube.list(ConfigMap, labels={"tier": exists()})) == ["a", "b"]
    assert names(kube.list(ConfigMap, labels={"tier": not_in(["2"])})) == ["a", "c"]
    assert names(kube.list(ConfigMap, fields={"metadata.name": not_equal("a")})) == ["b", "c"]
    assert [*names(kube.list(ConfigMap, namespace="*", labels={"tier": "2"}))][-1] == "b"


def test_watch_resumes_when_server_ends_it(kube: Client, server: RunningServer) -> None:
    """The client resumes from the last version that it has seen. No event is repeated or lost."""
    events = kube.watch(ConfigMap, server_timeout=1)
    kube.create(config_map("a"))
    seen = [next(events)]
    kube.patch(ConfigMap, "a", {"data": {"x": "1"}})
    seen.append(next(events))
    another_that_lasts_longer = server.connect()
    another_that_lasts_longer.request(
        "GET",
        "/api/v1/namespaces/none/configmaps?watch=true&timeoutSeconds=2",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    assert another_that_lasts_longer.getresponse().read() == b""
    another_that_lasts_longer.close()
    kube.delete(ConfigMap, "a")
    seen.append(next(events))
    assert [(what, metadata_of(found).name) for what, found in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


def test_wait_for_condition(kube: Client) -> None:
    kube.create(deployment("web", "a"))
    condition = {"type": "Available", "status": "True", "message": "there"}
    kube.patch(Deployment.Status, "web", {"status": {"conditions": [condition]}}, patch_type=PatchType.MERGE)
    assert metadata_of(kube.wait(Deployment, "web", for_conditions=["Available"])).name == "web"
    with pytest.raises(ConditionError, match="there"):
        kube.wait(Deployment, "web", for_conditions=["Progressing"], raise_for_conditions=["Available"])


# Deletion


@pytest.mark.parametrize("cascade", CascadeType)
def test_dependents_follow_propagation_policy(kube: Client, cascade: CascadeType) -> None:
    owner = metadata_of(kube.create(config_map("owner")))
    assert owner.uid
    reference = OwnerReference("v1", "ConfigMap", "owner", owner.uid, blockOwnerDeletion=True)
    kube.create(config_map("child", ownerReferences=[reference]))
    kube.delete(ConfigMap, "owner", cascade=cascade)
    wait_for("the owner to be gone", lambda: "owner" not in names(kube.list(ConfigMap)))
    if cascade is CascadeType.FOREGROUND:
        assert names(kube.list(ConfigMap)) == []
    if cascade is CascadeType.BACKGROUND:
        wait_for("the dependent to be gone", lambda: names(kube.list(ConfigMap)) == [])
    if cascade is CascadeType.ORPHAN:
        wait_for(
            "the reference to be gone",
            lambda: not metadata_of(kube.get(ConfigMap, "child")).ownerReferences,
        )


def test_delete_collection(kube: Client) -> None:
    for name in ("a", "b", "c"):
        kube.create(config_map(name))
    kube.deletecollection(ConfigMap)
    assert names(kube.list(ConfigMap)) == []


def test_delete_namespace_deletes_its_objects(kube: Client, namespace: str) -> None:
    kube.create(config_map("m"))
    kube.delete(Namespace, namespace)

    def is_gone() -> bool:
        return namespace not in names(kube.list(Namespace))

    wait_for("the namespace to be gone", is_gone)
    assert names(kube.list(ConfigMap)) == []


# Generic resources


@pytest.fixture
def frameworks(kube: Client) -> Any:
    definition: Any = CustomResourceDefinition.from_dict(yaml.safe_load(FRAMEWORKS.read_text()))
    kube.create(definition)
    kube.wait(CustomResourceDefinition, str(metadata_of(definition).name), for_conditions=["Established"])
    create_resources_from_crd(definition)
    return create_namespaced_resource("frameworkcontroller.microsoft.com", "v1", "Framework", "frameworks")


def framework(name: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    return {"metadata": {"name": name}, "spec": {"taskRoles": [{"name": "worker", "task": {"pod": pod}}]}}


def test_framework_as_generic_resource(kube: Client, frameworks: Any) -> None:
    created = kube.create(frameworks(**framework("tf")))
    assert created["spec"]["executionType"] == "Start"
    kube.patch(frameworks, "tf", {"spec": {"executionType": "Stop"}}, patch_type=PatchType.MERGE)
    kube.patch(frameworks.Status, "tf", {"status": {"state": "Completed"}}, patch_type=PatchType.MERGE)
    read = kube.get(frameworks, "tf")
    assert (read["spec"]["executionType"], read["status"]["state"]) == ("Stop", "Completed")
    with pytest.raises(ApiError) as caught:
        kube.patch(frameworks, "tf", {"spec": {}})
    assert caught.value.status.code == 415, "what is merged by which key is known of the built-in kinds only"
    kube.delete(frameworks, "tf", cascade=CascadeType.FOREGROUND)
    wait_for("the framework to be gone", lambda: names(kube.list(frameworks)) == [])


# The asynchronous client


def test_asynchronous_client(kubeconfig: Path, namespace: str) -> None:
    async def follow(kube: AsyncClient, listed: str) -> list[tuple[str, str | None]]:
        seen = []
        async for what, found in kube.watch(ConfigMap, resource_version=listed):
            seen.append((what, metadata_of(found).name))
            if what == "DELETED":
                break
        return seen

    async def play() -> list[tuple[str, str | None]]:
        config = KubeConfig.from_file(kubeconfig)
        async with AsyncClient(config, namespace=namespace, timeout=PATIENCE, trust_env=False) as kube:
            for number in range(5):
                await kube.create(config_map(f"m{number}"))
            listing = kube.list(ConfigMap, chunk_size=2)
            assert [metadata_of(item).name async for item in listing] == [f"m{number}" for number in range(5)]
            watching = asyncio.create_task(follow(kube, listing.resourceVersion))
            await asyncio.gather(
                *(kube.set(ConfigMap, f"m{number}", labels={"a": "b"}) for number in range(5))
            )
            with pytest.raises(ApiError) as caught:
                await kube.apply(config_map("m"), field_manager="tests")
            assert caught.value.status.code == 415
            await kube.delete(ConfigMap, "m0", cascade=CascadeType.FOREGROUND)
            return await watching

    seen = asyncio.run(asyncio.wait_for(play(), 120))
    assert sorted(seen[:5]) == [("MODIFIED", f"m{number}") for number in range(5)]
    assert seen[5:] == [("MODIFIED", "m0"), ("DELETED", "m0")], "it waits for dependents, then it goes"
