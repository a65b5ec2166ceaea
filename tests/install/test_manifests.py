"""What is printed, whole, beside golden files; and that the pods fit Pod Security's level "restricted".

`WINDLASS_REGENERATE=1` writes the golden files anew. The definitions are not in them: they stand in docs/crds.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from windlass.cli.commands.controller import controller
from windlass.install import kinds, manifests, plan
from windlass.install.plan import Plan
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.settings import file as settings_file

GOLDEN = Path(__file__).parent / "golden"
IMAGE = "registry.example/windlass:1"
FULL = Plan(
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
    priority_class="system-cluster-critical",
)
PLANS = {"default": Plan(image=IMAGE), "full": FULL}


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    own = [one for one in manifests.all_of(PLANS[name]) if one["kind"] != "CustomResourceDefinition"]
    found = manifests.printed(own)
    if os.environ.get("WINDLASS_REGENERATE"):
        file.write_bytes(found)
    assert found.decode() == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLANS)
def test_printed_is_read_as_it_was_made(name: str) -> None:
    made = manifests.all_of(PLANS[name])
    assert list(yaml.safe_load_all(manifests.printed(made))) == made


@pytest.mark.parametrize("name", PLANS)
def test_everything_is_ours_once_and_after_what_it_needs(name: str) -> None:
    made = manifests.all_of(PLANS[name])
    order = [one["kind"] for one in made]
    keys = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in made]

    assert all(plan.is_ours(one["metadata"]["labels"]) for one in made)
    assert len(set(keys)) == len(keys)
    for earlier, later in (
        ("CustomResourceDefinition", "Namespace"),
        ("Namespace", "ServiceAccount"),
        ("ServiceAccount", "ClusterRoleBinding"),
        ("ClusterRole", "ClusterRoleBinding"),
        ("RoleBinding", "Deployment"),
    ):
        assert order.index(earlier) < order.index(later)
    assert {kinds.resource_of(one).is_namespaced == ("namespace" in one["metadata"]) for one in made} == {
        True
    }


def test_two_installations_share_nothing_but_definitions() -> None:
    first, second = (
        {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in manifests.all_of(wanted)
        }
        for wanted in (Plan(namespace="one", settings=Settings(namespaces=("a",))), Plan(namespace="two"))
    )
    assert {kind for kind, _, _ in first & second} == {"CustomResourceDefinition"}


@pytest.mark.parametrize(
    ("namespace", "is_made"),
    [("windlass-system", True), ("defaults", True), ("default", False), ("kube-x", False)],
)
def test_the_cluster_s_own_namespaces_are_not_made(namespace: str, is_made: bool) -> None:
    made = [
        one["metadata"]["name"]
        for one in manifests.all_of(Plan(namespace=namespace))
        if one["kind"] == "Namespace"
    ]
    assert made == ([namespace] if is_made else [])


def test_another_configuration_makes_other_pods() -> None:
    def template(text: str) -> Any:
        return _of_kind("Deployment", Plan(configuration=text))["spec"]["template"]["metadata"]

    assert template("a: 1") == template("a: 1")
    assert template("a: 1") != template("a: 2")
    assert "annotations" not in template("")


@pytest.mark.parametrize("name", PLANS)
def test_the_controller_understands_its_arguments(name: str) -> None:
    """And comes to the settings that the roles are made for."""
    wanted = PLANS[name]
    (container,) = _of_kind("Deployment", wanted)["spec"]["template"]["spec"]["containers"]
    command, *rest = container["args"]

    flags = controller.make_context(command, rest).params
    has_file = flags.pop("config") is not None

    assert command == controller.name
    file = (wanted.configuration.encode(), "config") if has_file else None
    as_installed = msgspec.structs.replace(wanted.settings, barrier_image=IMAGE)
    assert settings_file.gather(file, {}, flags).settings == as_installed


@pytest.mark.parametrize(
    ("image", "in_the_file", "flags"),
    [
        (plan.DEFAULT_IMAGE, plan.DEFAULT_IMAGE, []),
        (IMAGE, plan.DEFAULT_IMAGE, [f"--barrier-image={IMAGE}"]),
        (IMAGE, "registry.example/barrier:7", []),
        (plan.DEFAULT_IMAGE, "registry.example/barrier:7", []),
    ],
    ids=["nothing said", "the controller's own", "the file's", "the file's alone"],
)
def test_barriers_run_in_the_controller_s_image_unless_the_configuration_names_another(
    image: str, in_the_file: str, flags: list[str]
) -> None:
    wanted = Plan(image=image, settings=Settings(barrier_image=in_the_file))
    (container,) = _of_kind("Deployment", wanted)["spec"]["template"]["spec"]["containers"]
    assert [argument for argument in container["args"] if "barrier" in argument] == flags


def _of_kind(kind: str, wanted: Plan) -> Json:
    (found,) = (one for one in manifests.all_of(wanted) if one["kind"] == kind)
    return found


def _every_container(check: Callable[[Json, Json], bool]) -> Callable[[Json], bool]:
    """The rule of a container, which may leave a field to its pod."""

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
"""The rules of the level, as the Pod Security Standards have them."""


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("rule", RESTRICTED)
def test_pods_are_restricted(name: str, rule: str) -> None:
    assert RESTRICTED[rule](_of_kind("Deployment", PLANS[name])["spec"]["template"]["spec"])


def test_namespace_asks_for_it() -> None:
    labels = _of_kind("Namespace", Plan())["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", PLANS)
def test_workload(name: str) -> None:
    """What a platform team looks for."""
    deployment = _of_kind("Deployment", PLANS[name])
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
