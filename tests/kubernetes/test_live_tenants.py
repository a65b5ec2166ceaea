"""Missing permissions and invalid kubeconfigs are reported in one message; everything else works."""

from pathlib import Path
from typing import Any, Final

import dashboards
import pytest
import yaml
from live.clusters import Cluster
from live.command_line import Console
from live.place import Place
from operated import loop_thread

from conformance.client import Json
from windlass.web.schema import Mode

# Invalid kubeconfigs


@pytest.fixture
def console(cluster: Cluster, tmp_path: Path) -> Console:
    return Console(cluster.kubeconfig, "", tmp_path)


def _with_other_fields(config: Json, *, cluster: Json | None = None, user: Json | None = None) -> Json:
    config["clusters"][0]["cluster"] |= cluster or {}
    config["users"][0]["user"] = user or config["users"][0]["user"]
    return config


def _without_certificate(config: Json) -> Json:
    config["clusters"][0]["cluster"].pop("certificate-authority-data", None)
    return config


BAD_KUBECONFIGS: Final[dict[str, tuple[Any, int, str]]] = {
    "nobody listens there": (
        lambda config: _with_other_fields(config, cluster={"server": "https://127.0.0.1:1"}),
        124,
        "https://127.0.0.1:1",
    ),
    "nobody it knows": (
        lambda config: _with_other_fields(config, user={"token": "wrong"}),
        1,
        "rejected your credentials",
    ),
    "its certificate is not trusted": (_without_certificate, 124, "ertificate"),
}


@pytest.mark.parametrize("case", BAD_KUBECONFIGS)
def test_invalid_kubeconfig_is_reported(case: str, cluster: Cluster, console: Console) -> None:
    change, code, part = BAD_KUBECONFIGS[case]
    changed = change(yaml.safe_load(cluster.kubeconfig.read_text()))
    console.write({"config": yaml.safe_dump(changed)})
    found = console.message("list", "--kubeconfig", "config", code=code)
    assert part in found
    assert changed["current-context"] in found


MISTAKES: Final[dict[str, tuple[tuple[str, ...], int, str]]] = {
    "no such context": (("list", "--context", "nowhere"), 1, "nowhere"),
    "no such kubeconfig": (("list", "--kubeconfig", "/nowhere/config"), 1, "/nowhere/config"),
    "no such job": (("status", "nowhere"), 1, '"nowhere"'),
    "no such namespace": (("submit", "-n", "live-nowhere", "job.yaml"), 1, "live-nowhere"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_user_error_is_reported(case: str, console: Console) -> None:
    arguments, code, part = MISTAKES[case]
    console.write_job("job", command="true")
    assert part in console.message(*arguments, code=code)


# A user with permissions in one namespace

RIGHTS: Final = (
    ("frameworkcontroller.microsoft.com", "frameworks", "create get list watch patch delete"),
    ("launcher.microsoft.com", "frameworks", "get list"),
    ("", "configmaps", "create get delete"),
    ("", "pods", "get list watch"),
    ("", "pods/log", "get"),
    ("", "pods/exec", "get create"),
    ("", "events", "list watch"),
)


@pytest.fixture
def guest(cluster: Cluster, place: Place, tmp_path: Path) -> Console:
    """A service account with a role in the namespace of its kubeconfig's context."""
    folder = tmp_path / "guest"
    folder.mkdir()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    context = {"cluster": config["clusters"][0]["name"], "user": "guest", "namespace": place.name}
    config["users"] = [{"name": "guest", "user": {"token": _token_of_a_guest(place)}}]
    config["contexts"] = [{"name": "guest", "context": context}]
    config["current-context"] = "guest"
    file = folder / "config"
    file.touch(0o600)
    file.write_text(yaml.safe_dump(config))
    return Console(file, "", folder)


def _token_of_a_guest(place: Place) -> str:
    metadata = {"metadata": {"name": "guest"}}
    place.client.post(place.path("serviceaccounts"), metadata).expect(201)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.name}"
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs.split()}
        for group, resource, verbs in RIGHTS
    ]
    place.client.post(f"{rbac}/roles", {**metadata, "rules": rules}).expect(201)
    binding = {
        **metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "guest"},
        "subjects": [{"kind": "ServiceAccount", "name": "guest", "namespace": place.name}],
    }
    place.client.post(f"{rbac}/rolebindings", binding).expect(201)
    path = f"{place.path('serviceaccounts', 'guest')}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    token: str = place.client.post(path, asked).expect(201).body["status"]["token"]
    return token


def test_user_with_permissions_in_one_namespace(guest: Console, place: Place) -> None:
    file = guest.write_job("job", runtime="tensorflow")
    guest("submit", file)
    guest("wait", "job", "--for", "running")
    for command in (("list",), ("status", "job"), ("describe", "job"), ("why", "job"), ("events", "job")):
        said = guest(*command)
        assert "orbidden" not in said.text + said.errors, command
    assert "TF_CONFIG" in guest("env", "job/worker-0").text
    guest("scale", "job", "worker=1")
    guest.end("job/worker-0")
    assert guest("logs", "-f", "job", "worker-0").lines[-1] == "the end of worker-0"
    guest("wait", "job")
    assert guest("logs", "job", "worker-0").lines[0] == "worker-0 begins"
    guest("submit", file, "--rerun")
    guest("suspend", "job")
    guest("resume", "job")
    guest("stop", "job")
    guest("delete", "job")
    assert not place.pods()

    for arguments in (
        ("list", "-n", "default"),
        ("list", "-A"),
        ("submit", "-n", "default", file),
        ("logs", "-n", "default", "job"),
    ):
        message = guest.message(*arguments, code=1)
        assert "system:serviceaccount:" in message, message
        assert "Ask for a role" in message, message


def test_viewer_of_the_dashboard_sees_one_namespace(cluster: Cluster, place: Place, tmp_path: Path) -> None:
    console = Console(cluster.kubeconfig, place.name, tmp_path)
    console("submit", console.write_job("job", command="echo hello"))
    console("wait", "job")
    with (
        loop_thread.running() as stage,
        dashboards.serving(
            dashboards.ServedPlace(stage, cluster.kubeconfig, place.name), Mode.TOKEN
        ) as dashboard,
        dashboard.browser() as browser,
    ):
        session = browser.send("POST", "session", {"token": _token_of_a_guest(place)}).expect(200).body
        assert session["user"] == f"system:serviceaccount:{place.name}:guest"
        assert session["cluster"]["kind"] == "kubernetes"
        jobs = browser.get(f"jobs?namespace={place.name}").expect(200).body["items"]
        assert [(job["name"], job["state"]) for job in jobs] == [("job", "Succeeded")]
        detail = browser.get(f"jobs/{place.name}/job").expect(200).body
        assert (detail["permissions"]["delete"], detail["permissions"]["logs"]) == (True, True)
        assert browser.get("namespaces").expect(200).body["all"] is False
        for path in ("jobs?namespace=*", "jobs?namespace=default", "jobs/kube-system/job"):
            browser.get(path).expect(403)
        overview = browser.get("cluster").expect(200).body
        assert overview["nodes"] is None
        assert overview["reasons"]
