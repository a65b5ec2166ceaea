"""JupyterHub of a job with the real programs: users log in and get servers with the job's data.

On one machine these are processes in the pod of the hub. On a cluster they are pods, which KubeSpawner creates through
the API of the embedded cluster.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from hub_client import KERNEL_PROTOCOL, HubUser
from pods import commands, machine
from pods.commands import Local
from pods.seen import Seen
from tls_proxy import tls_proxy
from web_attacks import OTHER_SITES, check_cookies, check_redirect

from conformance.client import Json
from conformance.objects import path as path_of
from conformance.waiting import wait_for
from examples import SECONDS, needs
from windlass.model.companions import Companion
from windlass.model.job import Job
from windlass.render.companions import hub, passwords
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import ResolvedCompanions

PASSWORD = "  gr\u00fc\u00dfe, 'ana' & \"bo\" $(id)\t\U0001f680  "  # noqa: S105
NAMESPACE = "default"
COOKIES = {
    "_xsrf",
    "jupyterhub-hub-login",
    "jupyterhub-session-id",
    "jupyterhub-user-ana",
    "jupyterhub-user-ana-oauth-state",
}
LOOK = """
import json, os
print(os.environ["WINDLASS_JOB"], os.environ["COLOUR"], *json.loads(os.environ["CLUSTER_CONFIG"])["worker"])
print(open("/output/result").read())
open("kept", "w").write("by ana")
"""
PLURALS = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Local]:
    needs("jupyterhub", "jupyterlab", "kubespawner")
    level = commands.best()
    if not level.has_mounts:
        pytest.skip("pods cannot have mounts of their own on this machine")
    with commands.home(level) as home, commands.local(home) as made:
        yield made


@pytest.fixture
def output() -> Iterator[Path]:
    """Files written by the job."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-output-"))
    folder.chmod(0o777)
    (folder / "result").write_text("accuracy 0.97")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def job(cluster: Local, name: str, output: Path) -> Json:
    return {
        "name": name,
        "runtime": "tensorflow",
        "roles": {"worker": {"tasks": 1}},
        "command": "true",
        "env": {"COLOUR": "{red}", machine.MARKER: cluster.home.mark},
        "volumes": {"output": {"hostPath": str(output), "at": "/output"}},
    }


def place(cluster: Local) -> tuple[str | Path, ...]:
    return "--kubeconfig", cluster.data / "kubeconfig"


def opened(cluster: Local, name: str) -> str:
    """Return the URL of the hub."""
    command = cluster.home.begin("hub", name, "--port", "0", "--timeout", "10m", *place(cluster))
    wait_for("the hub", lambda: "http://" in command.output or command.process.poll() is not None, SECONDS)
    assert "http://" in command.output, command.done()
    return next(word for word in command.output.split() if word.startswith("http://"))


def check_that_it_serves(ana: HubUser, output: Path) -> None:
    """Log in, start a server, and use it."""
    assert ana.log_in(PASSWORD)
    ana.start_server()
    assert ana.names() == ["notebooks", "output"]
    assert ana.names("output") == ["people", "result"]
    assert ana.get("/files/output/result").text == "accuracy 0.97"
    (said,) = ana.execute(LOOK, path="notebooks/look.ipynb")
    assert not said.error
    assert said.output.split()[1] == "{red}"
    assert "accuracy 0.97" in said.output
    assert (output / "people" / "ana" / "kept").read_text() == "by ana"
    made = ana.ask("POST", "/api/kernels", {})
    assert ana.protocol_of(made.json["id"]) == KERNEL_PROTOCOL


def test_users_get_processes_on_one_machine(cluster: Local, output: Path) -> None:
    (cluster.home.folder / "password").write_text(f"{PASSWORD}\n")
    asked = {"users": ["Ana", "bo"], "passwordFrom": {"file": "password"}, "folder": "/output/people"}
    file = cluster.home.file(yaml.safe_dump({**job(cluster, "here", output), "hub": asked}))
    cluster.home.windlass("submit", "--companions-only", *place(cluster), file).expect(0)
    url = opened(cluster, "here")
    refused = {"bo": f"{PASSWORD}!", "eve": PASSWORD, "ana": ""}
    for user, password in refused.items():
        with HubUser(url, user) as somebody:
            assert not somebody.log_in(password), user
    with HubUser(url, "ana") as ana:
        check_that_it_serves(ana, output)
    cluster.home.windlass("delete", "here", *place(cluster)).expect(0)


def test_hub_rejects_attacks(cluster: Local, output: Path) -> None:
    """Other sites, another user and guessed passwords get no access to the server of a user."""
    (cluster.home.folder / "password").write_text(f"{PASSWORD}\n")
    asked = {"users": ["ana", "ben", "eve"], "passwordFrom": {"file": "password"}}
    file = cluster.home.file(yaml.safe_dump({**job(cluster, "attacked", output), "hub": asked}))
    cluster.home.windlass("submit", "--companions-only", *place(cluster), file).expect(0)
    url = opened(cluster, "attacked")
    with HubUser(url, "ana") as ana, HubUser(url, "ben") as ben:
        assert ana.ask_hub("POST", "/hub/login", {"username": "ana", "password": PASSWORD}).code == 403
        assert ana.ask_hub("POST", "/hub/login", {"username": "a" * (2 << 20)}).code == 413
        assert ana.log_in(PASSWORD)
        ana.start_server()
        check_cookies(ana.set_cookies, COOKIES)
        kernel = ana.ask("POST", "/api/kernels", {}).json["id"]
        assert ana.websocket_status(f"/api/kernels/{kernel}/channels", "http://evil.example") == 403
        assert ana.ask_hub("POST", "/hub/api/users/eve", {}).code == 403
        assert ben.log_in(PASSWORD)
        for path in ("/user/ana/api/contents", "/user/ana/lab", "/user/ben/%2e%2e/ana/api/contents"):
            assert ben.visit(path).code in (400, 403), path
    for target in OTHER_SITES:
        with HubUser(url, "ben") as ben:
            check_redirect(ben.try_to_log_in(PASSWORD, target), url)
    with HubUser(url, "eve") as eve:
        assert [eve.try_to_log_in("a guess").code for _ in range(5)] == [403] * 5
        # The delay doubles, so that one of the next attempts is too early on a slow machine, too.
        wait_for("a delay", lambda: eve.try_to_log_in("a guess").code == 429, SECONDS)
    cluster.home.windlass("delete", "attacked", *place(cluster)).expect(0)


def test_all_cookies_are_secure_behind_tls(cluster: Local, output: Path, tmp_path: Path) -> None:
    (cluster.home.folder / "password").write_text(f"{PASSWORD}\n")
    with tls_proxy(tmp_path) as proxy:
        config = f'c.JupyterHub.public_url = "{proxy.url}/"'
        asked = {"users": ["ana"], "passwordFrom": {"file": "password"}, "config": config}
        file = cluster.home.file(yaml.safe_dump({**job(cluster, "tls", output), "hub": asked}))
        cluster.home.windlass("submit", "--companions-only", *place(cluster), file).expect(0)
        proxy.target = opened(cluster, "tls")
        with HubUser(proxy.url, "ana") as ana:
            assert ana.log_in(PASSWORD)
            ana.start_server()
            assert ana.names() == ["notebooks", "output"]
            check_cookies(ana.set_cookies, COOKIES, is_secure=True)
    cluster.home.windlass("delete", "tls", *place(cluster)).expect(0)


def pods(cluster: Local, **labels: str) -> dict[str, Seen]:
    """Return the servers by name."""
    selector = ",".join(f"windlass.dev/{key}={value}" for key, value in labels.items())
    answer = cluster.client.get(path_of("pods", namespace=NAMESPACE), labelSelector=selector).expect(200)
    return {each["metadata"]["name"]: Seen(each) for each in answer.body["items"]}


def crash(cluster: Local) -> None:
    """Kill the hub and wait for its restart."""
    (pod,) = pods(cluster, companion="hub", job="there").values()
    processes = machine.marked(pod.uid, "WINDLASS_POD")
    (process,) = (each for each in processes if any(word.endswith("/jupyterhub") for word in each.command))
    process.kill()

    def is_back() -> bool:
        (found,) = pods(cluster, companion="hub", job="there").values()
        return found.is_ready and found.status["containerStatuses"][0]["restartCount"] == 1

    wait_for("the hub to be back", is_back, SECONDS)


def test_users_get_pods_on_a_cluster(cluster: Local, output: Path) -> None:
    """They survive a crash of the hub and are deleted with it."""
    wanted = msgspec.convert({**job(cluster, "there", output), "hub": {"folder": "/output/people"}}, Job)
    assert wanted.hub is not None
    resolved = ResolvedCompanions(hashes={Companion.HUB: {ALL_USERS: passwords.hub_hash(PASSWORD)}})
    for body in hub.objects(wanted, wanted.hub, resolved, None):
        cluster.client.post(path_of(PLURALS[body["kind"]], namespace=NAMESPACE), body).expect(201)
    with HubUser(opened(cluster, "there"), "ana") as ana:
        check_that_it_serves(ana, output)
        before = pods(cluster, job="there")["there-hub-ana"]
        crash(cluster)
        wait_for("the way to the server", lambda: ana.get("/api/status").code == 200, SECONDS)
    after = pods(cluster, job="there")["there-hub-ana"]
    assert after.uid == before.uid
    cluster.client.delete(path_of("deployments", "there-hub", namespace=NAMESPACE)).expect(200)
    wait_for("the pods to be gone", lambda: not pods(cluster, job="there"), SECONDS)
