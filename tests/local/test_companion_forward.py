"""Forwarding to companions with running pods: to a replaced pod, and to one that cannot start."""

import hashlib
import http.client
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pods import commands, specs
from pods.commands import Home, Local

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.model import names
from windlass.model.companions import Companion, ServiceType
from windlass.render.companions import servers
from windlass.render.companions.servers import Server

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
SERVE = """
import hashlib, http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer(os.environ["POD"].encode())
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(hashlib.sha256(data).digest() + data)
    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
address = os.environ["WINDLASS_ADDRESS"]
host = address if address.startswith("127.") else "0.0.0.0"
http.server.ThreadingHTTPServer((host, PORT), Handler).serve_forever()
"""


class Cluster:
    """A cluster of `windlass local` and its user."""

    def __init__(self, home: Home, local: Local) -> None:
        self.home = home
        self.client = local.client
        self.where = ("--kubeconfig", str(Path(local.status()["kubeconfig"])))

    def start(self, companion: Companion, run: str | list[str], port: int) -> None:
        """Create the companion of the job digits, without the job."""
        variables = [servers.address_variable(), specs.field("POD", "metadata.name")]
        server = Server(
            companion=companion,
            job="digits",
            name=servers.name_of("digits", companion),
            service_type=ServiceType.CLUSTER_IP,
            port=port,
            readiness_path="/",
            container=self.home.container(run, env=variables),
            pod={"terminationGracePeriodSeconds": 0},
        )
        deployment, service = servers.objects(server)
        self.client.post(DEPLOYMENTS, deployment).expect(201)
        self.client.post(SERVICES, service).expect(201)

    def pods(self, companion: Companion) -> list[Json]:
        labels = f"{names.COMPANION_LABEL}={companion}"
        found: list[Json] = self.client.get(PODS, labelSelector=labels).expect(200).body["items"]
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with commands.home(commands.best()) as home, commands.local(home) as local:
        yield Cluster(home, local)


def ask(host: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("GET" if body is None else "POST", "/", body)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_forward_follows_a_replaced_pod(cluster: Cluster) -> None:
    port = specs.free_port()
    script = SERVE.replace("PORT", str(port), 1)
    cluster.start(Companion.TENSORBOARD, ["python3", "-c", script], port)
    command = cluster.home.begin("tensorboard", "digits", "--port", "0", *cluster.where)
    command.says("(Ctrl-C stops forwarding, not the tensorboard)")
    host = command.output.split()[3].removeprefix("http://").rstrip("/")
    (before,) = cluster.pods(Companion.TENSORBOARD)
    first = before["metadata"]["name"]
    wait_for("the pod to answer", lambda: _asked(host) == first)
    body = os.urandom(3 * 2**20)
    assert ask(host, body) == hashlib.sha256(body).digest() + body
    cluster.client.delete(f"{PODS}/{first}").expect(200)
    second = wait_for("the next pod to answer", lambda: (_asked(host) or first) != first and _asked(host))
    assert second in [pod["metadata"]["name"] for pod in cluster.pods(Companion.TENSORBOARD)]
    command.press_ctrl_c()
    command.done().expect(0)


def _asked(host: str) -> str:
    """Return who answers; None while there is no pod."""
    try:
        return ask(host).decode()
    except (OSError, http.client.HTTPException):
        return ""


def test_forward_reports_why_a_companion_cannot_start(cluster: Cluster) -> None:
    cluster.start(Companion.JUPYTER, "echo 'pip install it' >&2; exit 127", specs.free_port())
    done = cluster.home.windlass("jupyter", "digits", *cluster.where).expect(1)
    *_, told, said = done.stderr.splitlines()
    assert "windlass: cannot start jupyter of digits: the pod digits-jupyter-" in told
    assert said == "pip install it"
