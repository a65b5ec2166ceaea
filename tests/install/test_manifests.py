"""The manifests compared with golden files, and with the "restricted" Pod Security Standard.

`WINDLASS_REGENERATE=1` rewrites the golden files. The definitions are in charts/windlass/definitions instead.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from windlass.cli.commands.controller import controller
from windlass.cli.commands.ui import ui
from windlass.install import kinds, manifests, options
from windlass.install.options import InstallOptions
from windlass.model.base import Json
from windlass.model.settings import History, Settings
from windlass.wire.settings import file as settings_file

GOLDEN = Path(__file__).parent / "golden"
IMAGE = "registry.example/windlass:1"
FULL = InstallOptions(
    namespace="training",
    image=IMAGE,
    replicas=3,
    settings=Settings(
        namespaces=("team-a", "team-b"),
        manage_crds=True,
        lease_name="training",
        framework_completed_retain_sec=60,
    ),
    configuration="frameworkCompletedRetainSec: 60\nleaseName: training\n",
    has_pod_monitor=True,
    has_service_monitor=True,
    has_network_policy=True,
    priority_class="system-cluster-critical",
    has_ui=True,
    ui_token_header="X-Forwarded-Access-Token",  # noqa: S106 — a header
    ui_hosts=("windlass.example",),
)
UI = InstallOptions(image=IMAGE, has_ui=True)
HISTORY = InstallOptions(
    image=IMAGE,
    settings=Settings(history=History(enabled=True, read_logs=True)),
    resources={"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "1Gi"}},
    pod_fields={
        "nodeSelector": {"kubernetes.io/os": "linux", "pool": "system"},
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "control-plane", "operator": "Exists"}],
    },
    container_fields={"imagePullPolicy": "Always"},
)
DASHBOARD = InstallOptions(
    image=IMAGE,
    has_ui=True,
    ui_hosts=("windlass.example", "windlass.example:8443"),
    ui_resources={"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
    has_network_policy=True,
    monitoring_peers=[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    ui_peers=[{"podSelector": {"matchLabels": {"app": "proxy"}}}],
)
SINGLE = InstallOptions(
    image=f"registry.example/windlass@sha256:{hashlib.sha256().hexdigest()}",
    replicas=1,
    settings=Settings(barrier_image="registry.example/barrier:7", events=False, leader_election=False),
    configuration="barrierImage: registry.example/barrier:7\nevents: false\nleaderElection: false\n",
    has_disruption_budget=False,
)
OPTIONS = {
    "default": InstallOptions(image=IMAGE),
    "full": FULL,
    "history": HISTORY,
    "dashboard": DASHBOARD,
    "single": SINGLE,
}
"""The chart is rendered with the values of the same names (tests/charts)."""


@pytest.mark.parametrize("name", OPTIONS)
def test_manifests_match_golden_file(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    own = [one for one in manifests.all_of(OPTIONS[name]) if one["kind"] != "CustomResourceDefinition"]
    found = manifests.dump(own)
    if os.environ.get("WINDLASS_REGENERATE"):
        file.write_bytes(found)
    assert found.decode() == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", OPTIONS)
def test_yaml_parses_to_the_same_manifests(name: str) -> None:
    made = manifests.all_of(OPTIONS[name])
    assert list(yaml.safe_load_all(manifests.dump(made))) == made


@pytest.mark.parametrize("name", OPTIONS)
def test_objects_are_owned_unique_and_in_creation_order(name: str) -> None:
    made = manifests.all_of(OPTIONS[name])
    order = [one["kind"] for one in made]
    keys = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in made]

    assert all(options.is_created_by_install(one["metadata"]["labels"]) for one in made)
    assert len(set(keys)) == len(keys)
    for earlier, later in (
        ("CustomResourceDefinition", "Namespace"),
        ("Namespace", "ServiceAccount"),
        ("ServiceAccount", "ClusterRoleBinding"),
        ("ClusterRole", "ClusterRoleBinding"),
        ("ClusterRoleBinding", "Deployment"),
        ("ClusterRoleBinding", "RoleBinding"),
        ("RoleBinding", "Deployment"),
    ):
        assert earlier not in order or later not in order or order.index(earlier) < order.index(later)
    assert {kinds.resource_of(one).is_namespaced == ("namespace" in one["metadata"]) for one in made} == {
        True
    }


def test_two_installations_share_only_definitions() -> None:
    first, second = (
        {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in manifests.all_of(choices)
        }
        for choices in (
            InstallOptions(namespace="one", settings=Settings(namespaces=("a",))),
            InstallOptions(namespace="two"),
        )
    )
    assert {kind for kind, _, _ in first & second} == {"CustomResourceDefinition"}


@pytest.mark.parametrize(
    ("namespace", "is_created"),
    [("windlass-system", True), ("defaults", True), ("default", False), ("kube-x", False)],
)
def test_namespaces_of_kubernetes_are_not_created(namespace: str, is_created: bool) -> None:
    made = [
        one["metadata"]["name"]
        for one in manifests.all_of(InstallOptions(namespace=namespace))
        if one["kind"] == "Namespace"
    ]
    assert made == ([namespace] if is_created else [])


def test_changed_configuration_replaces_pods() -> None:
    def template(text: str) -> Any:
        return _of_kind("Deployment", InstallOptions(configuration=text))["spec"]["template"]["metadata"]

    assert template("a: 1") == template("a: 1")
    assert template("a: 1") != template("a: 2")
    assert "annotations" not in template("")


@pytest.mark.parametrize("name", OPTIONS)
def test_controller_parses_its_arguments_to_the_settings_of_the_roles(name: str) -> None:
    choices = OPTIONS[name]
    (container,) = _of_kind("Deployment", choices)["spec"]["template"]["spec"]["containers"]
    command, *rest = container["args"]

    flags = controller.make_context(command, rest).params
    has_configuration = flags.pop("config") is not None

    assert command == controller.name
    file = (choices.configuration.encode(), "config") if has_configuration else None
    used = settings_file.load(file, {}, flags).settings
    is_set = choices.settings.barrier_image != options.DEFAULT_IMAGE
    image = choices.settings.barrier_image if is_set else choices.image
    assert used == msgspec.structs.replace(choices.settings, barrier_image=image)


@pytest.mark.parametrize(
    ("image", "configured", "flags"),
    [
        (options.DEFAULT_IMAGE, options.DEFAULT_IMAGE, []),
        (IMAGE, options.DEFAULT_IMAGE, [f"--barrier-image={IMAGE}"]),
        (IMAGE, "registry.example/barrier:7", []),
        (options.DEFAULT_IMAGE, "registry.example/barrier:7", []),
    ],
    ids=["defaults", "image of the controller", "both set", "configured image"],
)
def test_barrier_image_is_the_controllers_unless_the_configuration_sets_one(
    image: str, configured: str, flags: list[str]
) -> None:
    choices = InstallOptions(image=image, settings=Settings(barrier_image=configured))
    (container,) = _of_kind("Deployment", choices)["spec"]["template"]["spec"]["containers"]
    assert [argument for argument in container["args"] if "barrier" in argument] == flags


def _of_kind(kind: str, choices: InstallOptions) -> Json:
    """Return the object of the controller."""
    (found,) = (
        one
        for one in manifests.all_of(choices)
        if one["kind"] == kind and one["metadata"]["name"] != options.UI_NAME
    )
    return found


def _every_container(check: Callable[[Json, Json], bool]) -> Callable[[Json], bool]:
    """Return a rule that checks each container. A container inherits fields of its pod."""

    def holds(pod: Json) -> bool:
        own: Json = pod.get("securityContext", {})
        containers = [*pod["containers"], *pod.get("initContainers", ())]
        return all(check(one.get("securityContext", {}), own) for one in containers)

    return holds


VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
RESTRICTED: dict[str, Callable[[Json], bool]] = {
    "no host namespaces": lambda pod: not {"hostNetwork", "hostPID", "hostIPC"} & set(pod),
    "volume types": lambda pod: all(set(one) - {"name"} <= VOLUMES for one in pod.get("volumes", ())),
    "no host ports": lambda pod: (
        not any("hostPort" in port for one in pod["containers"] for port in one["ports"])
    ),
    "no odd proc mount": _every_container(lambda own, _: own.get("procMount", "Default") == "Default"),
    "no SELinux or AppArmor of its own": _every_container(
        lambda own, pod: not {"seLinuxOptions", "appArmorProfile"} & {*own, *pod}
    ),
    "no sysctls": _every_container(lambda _, pod: "sysctls" not in pod),
    "not privileged": _every_container(lambda own, _: not own.get("privileged")),
    "no escalation": _every_container(lambda own, _: own.get("allowPrivilegeEscalation") is False),
    "not root": _every_container(lambda own, pod: own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True),
    "not user 0": _every_container(lambda own, pod: own.get("runAsUser", pod.get("runAsUser")) != 0),
    "seccomp": _every_container(
        lambda own, pod: (
            (own.get("seccompProfile") or pod["seccompProfile"])["type"] in {"RuntimeDefault", "Localhost"}
        )
    ),
    "no capabilities": _every_container(
        lambda own, _: own["capabilities"]["drop"] == ["ALL"] and "add" not in own["capabilities"]
    ),
}
"""The rules of the "restricted" Pod Security Standard."""


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rule", RESTRICTED)
def test_pods_meet_restricted_pod_security(name: str, rule: str) -> None:
    deployments = [one for one in manifests.all_of(OPTIONS[name]) if one["kind"] == "Deployment"]
    assert all(RESTRICTED[rule](one["spec"]["template"]["spec"]) for one in deployments)


def test_namespace_enforces_restricted_pod_security() -> None:
    labels = _of_kind("Namespace", InstallOptions())["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", OPTIONS)
def test_deployment_has_probes_resources_and_read_only_root(name: str) -> None:
    deployment = _of_kind("Deployment", OPTIONS[name])
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert (
        container["livenessProbe"]["httpGet"]["path"],
        container["readinessProbe"]["httpGet"]["path"],
    ) == (
        "/healthz",
        "/readyz",
    )
    assert container["ports"][0]["name"] == container["livenessProbe"]["httpGet"]["port"] == "metrics"
    mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
    assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


# The dashboard


def test_dashboard_has_no_permissions() -> None:
    made = manifests.all_of(UI)
    subjects = [each for one in made if one["kind"].endswith("Binding") for each in one["subjects"]]
    assert options.UI_NAME not in {each["name"] for each in subjects}
    (pod,) = [
        one["spec"]["template"]["spec"]
        for one in made
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", options.UI_NAME)
    ]
    assert pod["automountServiceAccountToken"] is False
    (kubeconfig,) = [one["data"]["kubeconfig"] for one in made if one["kind"] == "ConfigMap"]
    assert "user" not in kubeconfig


def test_arguments_of_the_dashboard_are_accepted() -> None:
    for each in (UI, FULL):
        made = {(one["kind"], one["metadata"]["name"]): one for one in manifests.all_of(each)}
        container = made["Deployment", options.UI_NAME]["spec"]["template"]["spec"]["containers"][0]
        command, *arguments = container["args"]
        assert command == "ui"
        with ui.make_context("ui", arguments) as context:
            assert bool(context.params["token_login"]) is not bool(each.ui_token_header)
            assert context.params["hosts"] == each.ui_hosts
