"""The official Python client: typed objects, patches, lists, deletion and errors, over verified TLS."""

# Its models declare every field as optional, and most of its code is untyped.
# mypy: disable-error-code="no-untyped-call, union-attr, index"

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, utils
from kubernetes.client import ApiException

from conformance.waiting import wait_for
from server_process import RunningServer

FRAMEWORKS = (
    Path(__file__).parents[2]
    / "charts/windlass/definitions/frameworks.frameworkcontroller.microsoft.com.yaml"
)
GROUP = "frameworkcontroller.microsoft.com"
PATCH_KINDS = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


@pytest.fixture
def frameworks(connection: Any) -> Any:
    """Return the custom objects API after the definition is established."""
    definitions = client.ApiextensionsV1Api(connection)
    body = yaml.safe_load(FRAMEWORKS.read_text())
    name = body["metadata"]["name"]
    if name not in {item.metadata.name for item in definitions.list_custom_resource_definition().items}:
        created = definitions.create_custom_resource_definition(body)
        assert created.spec.names.short_names == ["fw"]

    def is_established() -> bool:
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        return any(found.type == "Established" and found.status == "True" for found in conditions)

    wait_for("the definition to be established", is_established)
    return client.CustomObjectsApi(connection)


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def pod_template(*images: str) -> Any:
    containers = [client.V1Container(name=f"c{n}", image=image) for n, image in enumerate(images)]
    spec = client.V1PodSpec(containers=containers, restart_policy="Always")
    return client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=spec)


def deployment(name: str, *images: str) -> Any:
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1DeploymentSpec(replicas=2, selector=selector, template=pod_template(*images))
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def framework(name: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}
    roles = [{"name": "worker", "taskNumber": 2, "task": {"pod": pod}}]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {"executionType": "Start", "taskRoles": roles},
    }


def owned_by(owner: Any, kind: str, version: str = "v1") -> Any:
    return client.V1OwnerReference(
        api_version=version,
        kind=kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        block_owner_deletion=True,
    )


def refusal(error: ApiException) -> dict[str, Any]:
    """Return the body of an error, which is a Status."""
    body: dict[str, Any] = json.loads(error.body or "")
    assert (body["apiVersion"], body["kind"], body["status"]) == ("v1", "Status", "Failure")
    assert body["code"] == error.status
    return body


# Connecting


def test_client_without_ca_rejects_certificate(server: RunningServer) -> None:
    """The client verifies the certificate."""
    configuration = client.Configuration(host=server.url)
    configuration.retries = False
    configuration.api_key["authorization"] = f"Bearer {server.token}"
    with (
        client.ApiClient(configuration) as opened,
        pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.CoreV1Api(opened).list_namespace()


def test_missing_token_is_unauthorized(server: RunningServer, kubeconfig: Path) -> None:
    configuration = client.Configuration()
    config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    configuration.api_key.clear()
    with client.ApiClient(configuration) as opened, pytest.raises(ApiException) as caught:
        client.CoreV1Api(opened).list_namespace()
    assert refusal(caught.value)["reason"] == "Unauthorized"


def test_versions_and_groups(connection: Any) -> None:
    version = client.VersionApi(connection).get_code()
    assert version.git_version.startswith(f"v{version.major}.")
    assert "v1" in client.CoreApi(connection).get_api_versions().versions
    groups = {group.name for group in client.ApisApi(connection).get_api_versions().groups}
    assert {"apps", "batch", "coordination.k8s.io", "apiextensions.k8s.io"} <= groups
    plurals = {resource.name for resource in client.AppsV1Api(connection).get_api_resources().resources}
    assert {"deployments", "deployments/status", "deployments/scale", "statefulsets"} <= plurals


# The typed APIs


def test_config_map_is_created_read_replaced_and_deleted(core: Any, namespace: str) -> None:
    created = core.create_namespaced_config_map(namespace, config_map("first", {"a": "1"}))
    read = core.read_namespaced_config_map("first", namespace)
    assert read == created
    read.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("first", namespace, read)
    assert replaced.data == {"a": "1", "b": "2"}
    assert replaced.metadata.resource_version != created.metadata.resource_version
    status = core.delete_namespaced_config_map("first", namespace)
    assert (status["status"], status["details"]["uid"]) == ("Success", created.metadata.uid)
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_config_map("first", namespace)
    assert caught.value.status == 404


def test_pod_gets_defaults_and_status(core: Any, namespace: str) -> None:
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=pod_template("busybox").spec)
    created = core.create_namespaced_pod(namespace, pod)
    assert created.status.phase == "Pending"
    assert created.spec.dns_policy == "ClusterFirst"
    assert created.spec.containers[0].termination_message_path == "/dev/termination-log"
    running = {"status": {"phase": "Running", "podIP": "127.0.0.9"}}
    assert core.patch_namespaced_pod_status("p", namespace, running).status.pod_ip == "127.0.0.9"
    core.patch_namespaced_pod("p", namespace, {"status": {"phase": "Failed"}})
    assert core.read_namespaced_pod_status("p", namespace).status.phase == "Running"


def test_secret_data_is_preserved(core: Any, namespace: str) -> None:
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"password": "ångström"})
    created = core.create_namespaced_secret(namespace, secret)
    assert created.data == {"password": "w6VuZ3N0csO2bQ=="}
    assert created.type == "Opaque"


def test_deployment_is_scaled(connection: Any, namespace: str) -> None:
    apps = client.AppsV1Api(connection)
    created = apps.create_namespaced_deployment(namespace, deployment("web", "a:1"))
    assert (created.metadata.generation, created.spec.strategy.type) == (1, "RollingUpdate")
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    scale.spec.replicas = 5
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 7}})
    after = apps.read_namespaced_deployment("web", namespace)
    assert (after.spec.replicas, after.metadata.generation) == (7, 3)


def test_stateful_set_and_job_are_created(connection: Any, namespace: str) -> None:
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1StatefulSetSpec(selector=selector, service_name="web", template=pod_template("a:1"))
    body = client.V1StatefulSet(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    created = client.AppsV1Api(connection).create_namespaced_stateful_set(namespace, body)
    assert created.spec.pod_management_policy == "OrderedReady"

    template = pod_template("a:1")
    template.spec.restart_policy = "Never"
    job = client.V1Job(metadata=client.V1ObjectMeta(name="once"), spec=client.V1JobSpec(template=template))
    batch = client.BatchV1Api(connection)
    made = batch.create_namespaced_job(namespace, job)
    assert made.spec.template.metadata.labels["batch.kubernetes.io/job-name"] == "once"
    batch.patch_namespaced_job_status("once", namespace, {"status": {"succeeded": 1}})
    assert batch.read_namespaced_job_status("once", namespace).status.succeeded == 1


def test_event_is_selected_by_its_object(core: Any, namespace: str) -> None:
    about = client.V1ObjectReference(kind="Pod", name="p", namespace=namespace, uid="1")
    metadata = client.V1ObjectMeta(generate_name="p.")
    event = client.CoreV1Event(
        metadata=metadata, involved_object=about, reason="Started", message="Started it"
    )
    core.create_namespaced_event(namespace, event)
    found = core.list_namespaced_event(namespace, field_selector="involvedObject.name=p,reason=Started").items
    assert [item.message for item in found] == ["Started it"]
    assert not core.list_namespaced_event(namespace, field_selector="involvedObject.name=q").items


def test_roles_are_stored(connection: Any, namespace: str) -> None:
    rbac = client.RbacAuthorizationV1Api(connection)
    rule = client.V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["get", "list"])
    rbac.create_namespaced_role(
        namespace, client.V1Role(metadata=client.V1ObjectMeta(name="reader"), rules=[rule])
    )
    assert rbac.read_namespaced_role("reader", namespace).rules == [rule]


# Custom resources


def test_framework_is_defaulted_patched_and_deleted(frameworks: Any, namespace: str) -> None:
    where = (GROUP, "v1", namespace, "frameworks")
    created = frameworks.create_namespaced_custom_object(*where, framework("tf"))
    assert created["spec"]["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": 0}
    frameworks.patch_namespaced_custom_object(*where, "tf", {"spec": {"retryPolicy": {"maxRetryCount": 3}}})
    status = {"status": {"state": "AttemptRunning"}}
    frameworks.patch_namespaced_custom_object_status(*where, "tf", status)
    read = frameworks.get_namespaced_custom_object(*where, "tf")
    assert (read["spec"]["retryPolicy"]["maxRetryCount"], read["status"]["state"]) == (3, "AttemptRunning")
    assert [
        item["metadata"]["name"] for item in frameworks.list_namespaced_custom_object(*where)["items"]
    ] == ["tf"]
    frameworks.delete_namespaced_custom_object(*where, "tf")
    assert frameworks.list_namespaced_custom_object(*where)["items"] == []


def test_invalid_framework_is_rejected(frameworks: Any, namespace: str) -> None:
    body = framework("tf")
    body["spec"]["taskRoles"][0]["taskNumber"] = "two"
    with pytest.raises(ApiException) as caught:
        frameworks.create_namespaced_custom_object(GROUP, "v1", namespace, "frameworks", body)
    status = refusal(caught.value)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.taskRoles[0].taskNumber"


# Patches


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        ("json", [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ("json", [{"op": "remove", "path": "/data/b"}], {"a": "1"}),
        ("merge", {"data": {"b": None, "c": "3"}}, {"a": "1", "c": "3"}),
        ("strategic", {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
    ],
)
def test_config_map_is_patched(
    core: Any, namespace: str, kind: str, patch: Any, expected: dict[str, str]
) -> None:
    core.create_namespaced_config_map(namespace, config_map("m", {"a": "1", "b": "2"}))
    answer = core.patch_namespaced_config_map("m", namespace, patch, _content_type=PATCH_KINDS[kind])
    assert answer.data == expected


@pytest.mark.parametrize(
    ("kind", "images"), [("strategic", ["new:1", "b:1"]), ("merge", ["new:1"])], ids=["by-name", "whole"]
)
def test_list_is_patched(connection: Any, namespace: str, kind: str, images: list[str]) -> None:
    apps = client.AppsV1Api(connection)
    apps.create_namespaced_deployment(namespace, deployment("web", "a:1", "b:1"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c0", "image": "new:1"}]}}}}
    answer = apps.patch_namespaced_deployment("web", namespace, patch, _content_type=PATCH_KINDS[kind])
    assert [container.image for container in answer.spec.template.spec.containers] == images


def test_server_side_apply_is_rejected_with_explanation(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as caught:
        core.patch_namespaced_config_map(
            "m",
            namespace,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}},
            field_manager="tests",
            _content_type="application/apply-patch+yaml",
        )
    status = refusal(caught.value)
    assert (status["code"], status["reason"]) == (415, "UnsupportedMediaType")


# Lists


def test_selectors(core: Any, namespace: str) -> None:
    for name, labels in [("a", {"tier": "1"}), ("b", {"tier": "2"}), ("c", None)]:
        core.create_namespaced_config_map(namespace, config_map(name, labels=labels))

    def names(**options: str) -> list[str]:
        return [item.metadata.name for item in core.list_namespaced_config_map(namespace, **options).items]

    assert names(label_selector="tier=1") == ["a"]
    assert names(label_selector="tier in (1, 2),tier!=1") == ["b"]
    assert names(label_selector="!tier") == ["c"]
    assert names(field_selector="metadata.name!=b") == ["a", "c"]
    assert names(label_selector="tier", field_selector="metadata.name=b") == ["b"]


def test_pages_show_one_resource_version(core: Any, namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"m{number}"))
    pages = [core.list_namespaced_config_map(namespace, limit=2)]
    core.create_namespaced_config_map(namespace, config_map("m9"))
    while pages[-1].metadata._continue:
        pages.append(
            core.list_namespaced_config_map(namespace, limit=2, _continue=pages[-1].metadata._continue)
        )
    names = [item.metadata.name for page in pages for item in page.items]
    assert names == ["m0", "m1", "m2", "m3", "m4"]
    assert [page.metadata.remaining_item_count for page in pages] == [3, 1, None]
    assert len({page.metadata.resource_version for page in pages}) == 1


# Deletion


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
def test_dependents_follow_propagation_policy(core: Any, namespace: str, policy: str) -> None:
    owner = core.create_namespaced_config_map(namespace, config_map("owner"))
    references = [owned_by(owner, "ConfigMap")]
    core.create_namespaced_config_map(namespace, config_map("child", owner_references=references))
    options = client.V1DeleteOptions(propagation_policy=policy)
    core.delete_namespaced_config_map("owner", namespace, body=options)

    def left() -> dict[str, Any]:
        return {item.metadata.name: item for item in core.list_namespaced_config_map(namespace).items}

    wait_for("the owner to be gone", lambda: "owner" not in left())
    if policy == "Foreground":
        assert not left(), "an owner deleted in the foreground is gone after its dependents"
    if policy == "Background":
        wait_for("the dependent to be gone", lambda: not left())
    if policy == "Orphan":
        wait_for("the reference to be gone", lambda: not left()["child"].metadata.owner_references)


def test_foreground_deletion_waits_for_dependents(core: Any, namespace: str) -> None:
    owner = core.create_namespaced_config_map(namespace, config_map("owner"))
    child = config_map("child", owner_references=[owned_by(owner, "ConfigMap")], finalizers=["tests/hold"])
    core.create_namespaced_config_map(namespace, child)
    options = client.V1DeleteOptions(propagation_policy="Foreground")
    core.delete_namespaced_config_map("owner", namespace, body=options)
    waiting = core.read_namespaced_config_map("owner", namespace).metadata
    assert waiting.finalizers == ["foregroundDeletion"]
    assert waiting.deletion_timestamp is not None
    wait_for(
        "the dependent to be deleted",
        lambda: core.read_namespaced_config_map("child", namespace).metadata.deletion_timestamp,
    )
    core.patch_namespaced_config_map("child", namespace, {"metadata": {"finalizers": None}})
    wait_for("both to be gone", lambda: not core.list_namespaced_config_map(namespace).items)


def test_delete_with_other_uid_conflicts(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("m"))
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    with pytest.raises(ApiException) as caught:
        core.delete_namespaced_config_map("m", namespace, body=options)
    assert refusal(caught.value)["reason"] == "Conflict"


def test_delete_collection_by_label(core: Any, namespace: str) -> None:
    for name, attempt in [("a", "1"), ("b", "1"), ("c", "2")]:
        core.create_namespaced_config_map(namespace, config_map(name, labels={"attempt": attempt}))
    core.delete_collection_namespaced_config_map(namespace, label_selector="attempt=1")
    assert [item.metadata.name for item in core.list_namespaced_config_map(namespace).items] == ["c"]


# Errors

STALE = config_map("taken", resource_version="1")


@pytest.mark.parametrize(
    ("ask", "code", "reason"),
    [
        (lambda core, ns: core.read_namespaced_config_map("none", ns), 404, "NotFound"),
        (lambda core, ns: core.create_namespaced_config_map(ns, config_map("taken")), 409, "AlreadyExists"),
        (lambda core, ns: core.create_namespaced_config_map(ns, config_map("Not_A_Name")), 422, "Invalid"),
        (lambda core, ns: core.create_namespaced_config_map(f"{ns}-no", config_map("m")), 404, "NotFound"),
        (lambda core, ns: core.replace_namespaced_config_map("taken", ns, STALE), 409, "Conflict"),
        (lambda core, ns: core.list_namespaced_config_map(ns, label_selector="a in"), 400, "BadRequest"),
        (lambda core, ns: core.list_namespaced_config_map(ns, resource_version="x"), 400, "BadRequest"),
    ],
    ids=["missing", "taken", "name", "namespace", "stale", "selector", "version"],
)
def test_errors_are_status_objects(core: Any, namespace: str, ask: Any, code: int, reason: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("taken"))
    with pytest.raises(ApiException) as caught:
        ask(core, namespace)
    status = refusal(caught.value)
    assert (status["code"], status["reason"]) == (code, reason)
    assert status["message"]


# From files


def test_create_from_yaml_file(connection: Any, core: Any, namespace: str, tmp_path: Path) -> None:
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "two"},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
    ]
    path = tmp_path / "documents.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    utils.create_from_yaml(connection, str(path), namespace=namespace)
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1"}
    assert core.read_namespaced_service("two", namespace).spec.cluster_ip == "None"
    with pytest.raises(utils.FailToCreateError, match="already exists"):
        utils.create_from_yaml(connection, str(path), namespace=namespace)
