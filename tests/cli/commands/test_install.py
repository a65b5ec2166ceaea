"""`windlass install`: its output, its effect on an API server, and rejected options."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from server_process import RunningServer, serving_in_thread
from windlass.cli.main import main
from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd.manifests import reference_crd

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OF_CONTROLLER = f"{DEFINITIONS}/frameworks.{names.CONTROLLER_GROUP}"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
FRAMEWORKS = f"/apis/{names.CONTROLLER_GROUP}/v1/namespaces/default/frameworks"


def windlass(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with serving_in_thread(tmp_path / "data") as served:
        yield served


def install(server: RunningServer, *options: str | Path) -> Result:
    return windlass("install", "--apply", "--kubeconfig", server.data / "kubeconfig", *options)


def outcomes(result: Result) -> dict[str, set[str]]:
    """Return the kinds by outcome."""
    assert (result.exit_code, result.stderr.partition(": ")[0]) == (0, "cluster")
    found: dict[str, set[str]] = {}
    for line in result.stdout.splitlines():
        what, rest = line.split("/", 1)
        outcome = next(
            word
            for word in ("created", "configured", "unchanged", "deleted", "left", "skipped")
            if word in rest
        )
        found.setdefault(outcome, set()).add(what.partition(".")[0])
    return found


KINDS = {
    "customresourcedefinition",
    "namespace",
    "serviceaccount",
    "clusterrole",
    "clusterrolebinding",
    "role",
    "rolebinding",
    "deployment",
}


def named(manifests: list[Json], kind: str) -> list[str]:
    return [one["metadata"]["name"] for one in manifests if one["kind"] == kind]


def printed(*options: str | Path) -> list[Json]:
    result = windlass("install", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return list(yaml.safe_load_all(result.stdout))


def test_install_prints_without_applying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    found = printed()
    frameworks = [f"frameworks.{group}" for group in names.GROUPS]
    assert named(found, "CustomResourceDefinition") == [*frameworks, "gangs.windlass.dev"]
    assert named(found, "Deployment") == ["windlass-controller"]
    assert {one["kind"].lower() for one in found} == {*KINDS, "poddisruptionbudget"}


def test_crds_only_prints_definitions() -> None:
    assert {one["kind"] for one in printed("--crds-only", "--pod-monitor")} == {"CustomResourceDefinition"}


def test_printing_imports_no_http_client() -> None:
    code = "import sys, windlass.cli.commands.install; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def deployment(found: list[Json]) -> Any:
    (one,) = (one for one in found if one["kind"] == "Deployment")
    return one["spec"]


def test_options_change_the_manifests(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("frameworkCompletedRetainSec: 60\n")
    found = printed(
        *("--namespace", "training", "--image", "registry.example/windlass:1", "--replicas", "3"),
        *("--watch-namespace", "a", "--watch-namespace", "b", "--watch-namespace", "a", "--config", file),
        *("--manage-crds", "--pod-monitor", "--priority-class", "system-cluster-critical"),
        *("--service-monitor", "--network-policy"),
    )
    spec = deployment(found)
    (container,) = spec["template"]["spec"]["containers"]

    assert named(found, "Namespace") == ["training"]
    assert (spec["replicas"], container["image"]) == (3, "registry.example/windlass:1")
    assert container["args"][0] == "controller"
    own_image = "--barrier-image=registry.example/windlass:1"
    assert {"--namespaces=a,b", "--manage-crds", own_image} < set(container["args"])
    assert spec["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
    for kind in ("PodMonitor", "ServiceMonitor", "NetworkPolicy"):
        assert named(found, kind) == ["windlass-controller"]
    (config,) = (one for one in found if one["kind"] == "ConfigMap")
    ((name, text),) = config["data"].items()
    assert text == file.read_text()
    assert f"--config=/etc/windlass/{name}" in container["args"]
    places = sorted(
        (one["metadata"]["name"], one["metadata"]["namespace"]) for one in found if one["kind"] == "Role"
    )
    assert places == [
        ("windlass:training:frameworks", "a"),
        ("windlass:training:frameworks", "b"),
        ("windlass:training:gangs", "a"),
        ("windlass:training:gangs", "b"),
        ("windlass:training:lease", "training"),
    ]


def test_configuration_file_changes_the_manifests(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("namespaces: [team-a]\nleaseName: mine\nmetricsAddress: 'off'\nbarrierImage: mine:1\n")
    found = printed("--config", file, "--image", "registry.example/windlass:1")
    roles = {one["metadata"]["namespace"]: one["rules"] for one in found if one["kind"] == "Role"}

    assert set(roles) == {"team-a", "windlass-system"}
    assert roles["windlass-system"][1]["resourceNames"] == ["mine"]
    arguments = deployment(found)["template"]["spec"]["containers"][0]["args"]
    assert "--metrics-address=:8080" in arguments
    assert not any("barrier" in argument for argument in arguments), "the configuration file sets the image"


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        (("--namespace", "Windlass"), 2, 'found "Windlass", expected lower-case letters'),
        (("--watch-namespace", "a", "--watch-namespace", "b_c"), 2, 'found "b_c"'),
        (("--replicas", "0"), 2, "0 is not in the range"),
        (("--config", "/no/such/file"), 2, "/no/such/file"),
        (("--apply", "--kubeconfig", "/no/such/file"), 1, "/no/such/file"),
    ],
)
def test_invalid_options_are_rejected(options: tuple[str, ...], exit_code: int, words: str) -> None:
    result = windlass("install", *options)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("frameworkCompletedRetainSec: soon\n", "config.yaml:1:30: error: frameworkCompletedRetainSec: "),
        ("workers: 3\n", 'config.yaml:1:1: error: workers: unknown field "workers"'),
        ("leaderElection: false\n", "the configuration disables leaderElection: use --replicas 1"),
    ],
)
def test_invalid_configuration_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    result = windlass("install", "--config", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr


def test_apply_creates_then_leaves_unchanged_then_configures(server: RunningServer) -> None:
    assert outcomes(install(server)) == {"created": KINDS, "skipped": {"poddisruptionbudget"}}
    assert outcomes(install(server)) == {"unchanged": KINDS, "skipped": {"poddisruptionbudget"}}
    changed = outcomes(install(server, "--replicas", "3"))
    assert changed["configured"] == {"deployment"}

    path = "/apis/apps/v1/namespaces/windlass-system/deployments/windlass-controller"
    assert server.ask("GET", path).body["spec"]["replicas"] == 3
    assert server.ask("GET", "/api/v1/namespaces/default/configmaps").body["items"] == []


def test_apply_removes_obsolete_flags_and_permissions(server: RunningServer) -> None:
    """Permissions in the cluster and in namespaces are removed. Additions of others are kept."""
    for name in ("a", "b"):
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    install(server, "--priority-class", "system-cluster-critical")
    path = "/apis/apps/v1/namespaces/windlass-system/deployments/windlass-controller"
    server.ask("PATCH", path, {"metadata": {"labels": {"team": "ml"}}}, "application/merge-patch+json")

    narrowed = install(server, "--watch-namespace", "a", "--watch-namespace", "b")
    assert outcomes(narrowed)["deleted"] == {"clusterrole", "clusterrolebinding"}
    assert outcomes(install(server, "--watch-namespace", "a"))["deleted"] == {"role", "rolebinding"}

    live = server.ask("GET", path).body
    assert "priorityClassName" not in live["spec"]["template"]["spec"]
    assert live["metadata"]["labels"]["team"] == "ml"
    roles = server.ask("GET", f"{ROLES}/roles").body["items"]
    found = sorted((role["metadata"]["namespace"], role["metadata"]["name"]) for role in roles)
    assert found == [
        ("a", "windlass:windlass-system:frameworks"),
        ("a", "windlass:windlass-system:gangs"),
        ("windlass-system", "windlass:windlass-system:lease"),
    ]
    bindings = server.ask("GET", f"{ROLES}/clusterrolebindings").body["items"]
    installed = [name for one in bindings if (name := one["metadata"]["name"]).startswith("windlass:")]
    assert installed == ["windlass:windlass-system:definitions"]


def test_two_installations_coexist(server: RunningServer) -> None:
    install(server, "--namespace", "one", "--watch-namespace", "default")
    second = outcomes(install(server, "--namespace", "two", "--watch-namespace", "default"))
    assert second["unchanged"] == {"customresourcedefinition"}
    assert second["created"] == KINDS - {"customresourcedefinition"}


def test_service_accounts_may_read_gangs(server: RunningServer) -> None:
    """This holds in all namespaces, or in the watched ones."""
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    name = "windlass:windlass-system:gangs"
    install(server)
    everywhere = server.ask("GET", f"{ROLES}/clusterrolebindings/{name}").body
    assert [subject["name"] for subject in everywhere["subjects"]] == ["system:serviceaccounts"]
    rules = server.ask("GET", f"{ROLES}/clusterroles/{name}").body["rules"]
    assert rules == [
        {"apiGroups": ["windlass.dev"], "resources": ["gangs"], "verbs": ["get", "list", "watch"]}
    ]

    install(server, "--watch-namespace", "a")
    there = server.ask("GET", f"{ROLES}/namespaces/a/rolebindings/{name}").body
    assert [subject["name"] for subject in there["subjects"]] == ["system:serviceaccounts:a"]
    assert server.ask("GET", f"{ROLES}/namespaces/a/roles/{name}").body["rules"] == rules
    assert server.ask("GET", f"{ROLES}/clusterrolebindings/{name}").code == 404


def test_install_replaces_the_reference_controller(server: RunningServer) -> None:
    """Its Frameworks and their statuses are kept, and a message says so."""
    assert server.ask("POST", DEFINITIONS, reference_crd()).code == 201
    body = {
        "apiVersion": f"{names.CONTROLLER_GROUP}/v1",
        "kind": "Framework",
        "metadata": {"name": "digits"},
        "spec": {"taskRoles": []},
        "status": {"state": "AttemptRunning"},
    }
    before = server.ask("POST", FRAMEWORKS, body).body

    result = install(server, "--crds-only")

    assert (
        f"frameworks.{names.CONTROLLER_GROUP} configured: taken over from FrameworkController"
        in result.stdout
    )
    assert "with its Frameworks" in result.stdout
    after = server.ask("GET", f"{FRAMEWORKS}/digits/status").body
    assert (after["metadata"]["uid"], after["status"]) == (before["metadata"]["uid"], before["status"])
    assert "FrameworkController" not in install(server, "--crds-only").stdout


def test_existing_namespace_is_not_changed(server: RunningServer) -> None:
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shared"}})
    result = install(server, "--namespace", "shared")
    assert "namespace/shared left unchanged: not created by windlass install" in result.stdout
    labels = server.ask("GET", "/api/v1/namespaces/shared").body["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": "shared"}


def test_foreign_object_is_not_changed(server: RunningServer) -> None:
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shared"}})
    accounts = "/api/v1/namespaces/shared/serviceaccounts"
    before = server.ask("POST", accounts, {"metadata": {"name": "windlass-controller"}}).body

    result = install(server, "--namespace", "shared")

    assert result.exit_code == 1
    assert "already exists, and was not created by windlass install" in result.stderr
    assert server.ask("GET", f"{accounts}/windlass-controller").body == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--watch-namespace", "nowhere"), "namespace nowhere does not exist. Create it first."),
        (
            ("--pod-monitor",),
            "this cluster does not serve PodMonitors. Install the Prometheus operator, or omit --pod-monitor",
        ),
        (
            ("--service-monitor",),
            "this cluster does not serve ServiceMonitors. Install the Prometheus operator, or omit --service-monitor",
        ),
    ],
)
def test_missing_requirements_are_reported(
    server: RunningServer, options: tuple[str, ...], words: str
) -> None:
    result = install(server, *options)
    assert result.exit_code == 1
    assert words in result.stderr
