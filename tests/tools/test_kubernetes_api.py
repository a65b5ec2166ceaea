"""Starting an API server, with fake programs."""

import http.server
import json
import stat
import threading
from pathlib import Path

import pytest
import yaml

import kubernetes_api
import kubernetes_binaries
import programs


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for fake programs; leftovers of a start would be next to it."""
    folder = tmp_path / "assets"
    folder.mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return folder


def pretend(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


FAILURES = {
    "etcd says why": ("echo the disk is on fire; exit 2", "exit code 2.*\n    the disk is on fire", 1),
    "the port is always taken": ("echo listen: address already in use; exit 1", "address already in use", 3),
}


@pytest.mark.parametrize(("script", "message", "attempts"), FAILURES.values(), ids=FAILURES.keys())
def test_failed_start_shows_the_log_and_leaves_nothing(
    assets: Path, script: str, message: str, attempts: int
) -> None:
    pretend(assets, "etcd", f"echo started >> {assets}/starts; {script}")
    pretend(assets, "kube-apiserver", "exit 1")
    with (
        pytest.raises(programs.StartError, match=message),
        kubernetes_api.serve(environment={"KUBEBUILDER_ASSETS": str(assets)}),
    ):
        pytest.fail("it cannot have started")
    assert (assets / "starts").read_text().count("started") == attempts
    assert not list((assets.parent / "temporary").iterdir())


def test_kubeconfig_must_name_a_file(tmp_path: Path) -> None:
    with (
        pytest.raises(programs.StartError, match=r"KUBECONFIG=.*/nowhere is not a single file"),
        kubernetes_api.serve(environment={"KUBECONFIG": str(tmp_path / "nowhere")}),
    ):
        pytest.fail("there is no cluster")


def test_unreachable_cluster_is_named(tmp_path: Path) -> None:
    (port,) = programs.free_ports(1)
    path = tmp_path / "kubeconfig"
    path.write_text(kubernetes_api.kubeconfig(f"http://127.0.0.1:{port}", "", "admin", "secret"))
    with (
        pytest.raises(programs.StartError, match=f"{path}.*does not respond"),
        kubernetes_api.serve(environment={"KUBECONFIG": str(path)}),
    ):
        pytest.fail("there is no cluster")


class Versions(http.server.BaseHTTPRequestHandler):
    """A cluster that only returns its version, if the token is correct."""

    def do_GET(self) -> None:
        is_allowed = self.headers["Authorization"] == "Bearer secret" and self.path == "/version/"
        version = {"gitVersion": "v1.32.3", "major": "1", "minor": "32"}
        rest = dict.fromkeys(
            ("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"), ""
        )
        body = json.dumps(version | rest).encode()
        self.send_response(200 if is_allowed else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


def test_cluster_of_kubeconfig_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_binaries, "ensure", lambda _: pytest.fail("nothing is to be built"))
    path = tmp_path / "kubeconfig"
    with http.server.HTTPServer(("127.0.0.1", 0), Versions) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        path.write_text(kubernetes_api.kubeconfig(url, "", "admin", "secret"))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with kubernetes_api.serve(environment={"KUBECONFIG": str(path)}) as api:
                assert (api.url, api.version, api.token) == (url, "v1.32.3", "secret")
                assert api.kubeconfig == path
        finally:
            server.shutdown()
            thread.join()


def test_kubeconfig_is_private_and_valid_yaml() -> None:
    text = kubernetes_api.kubeconfig("https://127.0.0.1:6443", "PEM", "reader", "secret")
    config = yaml.safe_load(text)
    assert config == json.loads(text)
    assert config["users"] == [{"name": "reader", "user": {"token": "secret"}}]
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": "UEVN",
    }


@pytest.mark.parametrize(
    ("version", "has_port_flag"),
    [("v1.20.2", True), ("v1.20.2+some", True), ("v1.23.0", True), ("v1.24.1-rc", False), ("v1.32.0", False)],
)
def test_second_port_is_disabled_if_there_is_one(tmp_path: Path, version: str, has_port_flag: bool) -> None:
    user = kubernetes_api.User("secret", tmp_path / "controllers.kubeconfig")
    program = kubernetes_api._controller_manager(tmp_path, user, version, 1234, "namespace")
    assert ("--port=0" in program.arguments) is has_port_flag


@pytest.mark.parametrize("durable", [True, False])
def test_durable_etcd_syncs_to_disk(tmp_path: Path, durable: bool) -> None:
    start = kubernetes_api._Start(binaries=tmp_path, users={}, durable=durable, audit=False)
    program = kubernetes_api._etcd(start, tmp_path, "http://127.0.0.1:1", 2)
    assert ("--unsafe-no-fsync" not in program.arguments) is durable


def test_secrets_are_private(tmp_path: Path) -> None:
    path = tmp_path / "service-accounts.key"
    kubernetes_api._write_private(path, kubernetes_api.signing_key())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")
