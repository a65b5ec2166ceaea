"""The connection of the barrier to the API server."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import barrier_api as apis
import gang_objects
import pytest
from barrier_api import Answer, Watch, refusal

from server_process import RunningServer, serving_in_thread
from windlass.barrier import api_client as module
from windlass.barrier.api_client import (
    ApiClient,
    NoCredentialsError,
    NoResponseError,
    ResponseError,
    client_from_environment,
)
from windlass.barrier.options import Options
from windlass.barrier.waiting import BarrierResult, GangWaiter
from windlass.model import names
from windlass.wire.crd import manifests

PATH = f"/apis/{names.GANG_GROUP}/v1/namespaces/default/gangs"


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """An empty folder for a service account."""
    return tmp_path


# Where it is


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (
            {},
            "no API server is configured: this is not a pod, and neither KUBECONFIG nor KUBE_APISERVER_ADDRESS is set",
        ),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Set automountServiceAccountToken: true"),
        ({"KUBECONFIG": "/there/is/no/such/file"}, "/there/is/no/such/file"),
        ({"KUBE_APISERVER_ADDRESS": "http://"}, "invalid address of an API server"),
        ({"KUBE_APISERVER_ADDRESS": "http://host:port"}, "invalid address of an API server"),
        ({"KUBE_APISERVER_ADDRESS": "ftp://host"}, "invalid address of an API server"),
    ],
    ids=["nothing", "no-token", "no-kubeconfig", "no-host", "no-port", "no-http"],
)
def test_missing_configuration_is_an_error(
    environment: dict[str, str], words: str, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(account))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(NoCredentialsError) as caught:
        client_from_environment(environment, account)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_certificates_are_an_error(account: Path) -> None:
    (account / "ca.crt").write_text("no certificate")
    (account / "token").write_text("secret")
    with pytest.raises(NoCredentialsError):
        client_from_environment({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[RunningServer]:
    with serving_in_thread(tmp_path / "data") as served:
        yield served


def test_service_account_of_the_pod_is_used(embedded: RunningServer, account: Path) -> None:
    """With TLS and a token: an outdated Gang, then ours, on one watch of an embedded API server."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert embedded.ask("POST", definitions, manifests.gang_crd()).code == 201
    (account / "ca.crt").write_bytes((embedded.data / "server.crt").read_bytes())
    (account / "token").write_text(f"{embedded.token}\n")
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(embedded.port)}
    without_us = gang_objects.stored(gang_objects.gang({"worker": ["10.0.0.9"]}))
    without_us["metadata"] = {"name": gang_objects.GANG, "namespace": "default"}
    assert embedded.ask("POST", PATH, without_us).code == 201
    options = Options(
        "default", "digits", gang=gang_objects.GANG, attempt=gang_objects.ATTEMPT, pod_uid="uid-worker-1"
    )
    found = client_from_environment(environment, account)
    messages: list[str] = []
    passed: list[BarrierResult] = []
    waiting = GangWaiter(found, options, messages.append, monotonic=lambda: 0.0, sleep=lambda _: None)
    thread = threading.Thread(target=lambda: passed.append(waiting.wait()))
    thread.start()
    patch = {"spec": gang_objects.stored(gang_objects.gang())["spec"]}
    answer = embedded.ask("PATCH", f"{PATH}/{gang_objects.GANG}", patch, "application/merge-patch+json")
    assert answer.code == 200, answer.body
    thread.join(60)
    assert (passed, messages) == ([BarrierResult(gang_objects.gang())], [])


def test_invalid_port_is_an_error(embedded: RunningServer, account: Path) -> None:
    (account / "ca.crt").write_bytes((embedded.data / "server.crt").read_bytes())
    (account / "token").write_text("secret")
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "https"}
    with pytest.raises(NoCredentialsError, match="and 'https'\\): "):
        client_from_environment(environment, account)


def test_rotated_token_is_read_again() -> None:
    tokens = iter(("first", "second"))
    with apis.serving(get_framework=[Answer(200, {})]) as api:
        server = ApiClient(api.url, None, lambda: {"Authorization": f"Bearer {next(tokens)}"})
        for _ in range(2):
            server.get("/apis/frameworkcontroller.microsoft.com/v1/namespaces/a/frameworks/b")
        assert [each.headers["Authorization"] for each in api.asked] == ["Bearer first", "Bearer second"]


def test_address_with_a_path() -> None:
    """A proxy may serve several clusters under different paths."""
    with apis.serving() as api:
        with pytest.raises(ResponseError):
            ApiClient(f"{api.url}/clusters/", None, dict).get("/apis/x")
        assert api.asked[0].path == "/clusters/apis/x"


# What it says


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusal(403, "pods may not"), "403: pods may not"),
        (refusal(500, "two\nlines"), "500: two lines"),
        (
            Answer(502, b"<html>\n  <body>Bad Gateway</body>\n</html>"),
            "502: <html> <body>Bad Gateway</body> </html>",
        ),
        (Answer(500, b"\xff\xfe"), "500: \ufffd\ufffd"),
        (Answer(500, ["a list"]), '500: ["a list"]'),
        (Answer(500, {"message": 7}), '500: {"message": 7}'),
        (Answer(500, None), "500: "),
        (Answer(500, b"[" * 5000), f"500: {'[' * 200}"),
    ],
    ids=["status", "two-lines", "html", "bytes", "list", "number", "empty", "deep"],
)
def test_error_responses_have_code_and_message(answer: Answer, message: str) -> None:
    with apis.serving(get_framework=[answer]) as api, pytest.raises(ResponseError) as caught:
        ApiClient(api.url, None, dict).get("/apis/frameworkcontroller.microsoft.com/v1")
    assert str(caught.value) == message


def test_watch_yields_lines() -> None:
    """Large and empty lines, in any chunks."""
    large = {"type": "ADDED", "object": {"text": "x" * 300_000}}
    with apis.serving(watch_gangs=[Watch([large, b"", {"type": "BOOKMARK"}])]) as api:
        lines = list(ApiClient(api.url, None, dict).watch("/apis/windlass.dev/v1", 60))
    assert [json.loads(line)["type"] for line in lines] == ["ADDED", "BOOKMARK"]


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "context", "reported"),
    [
        ("http://windlass.invalid", None, "windlass.invalid:80"),
        ("https://windlass.invalid", ssl.create_default_context(), "windlass.invalid:443"),
    ],
    ids=["http", "https"],
)
def test_error_has_the_default_port(address: str, context: ssl.SSLContext | None, reported: str) -> None:
    with pytest.raises(NoResponseError, match=f"^{reported} does not respond"):
        ApiClient(address, context, dict).get("/apis/x")


def test_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout for the beginning of the response is short, even for a long watch."""
    monkeypatch.setattr(module, "RESPONSE_TIMEOUT", 0.2)
    with silent() as address:
        with pytest.raises(NoResponseError):
            ApiClient(address, None, dict).get("/apis/x")
        with pytest.raises(NoResponseError):
            list(ApiClient(address, None, dict).watch("/apis/x", 600))


def test_watch_may_be_idle_for_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket timeout is longer than the watch, because the server ends it."""
    lines: list[socket.socket] = []
    monkeypatch.setattr(module, "_keep_alive", lines.append)
    with apis.serving(watch_gangs=[Watch([{"type": "BOOKMARK"}], "more")]) as api:
        watch = iter(ApiClient(api.url, None, dict).watch("/apis/windlass.dev/v1", 600))
        assert next(watch)
        assert [line.gettimeout() for line in lines] == [600 + module.RESPONSE_TIMEOUT]


def test_dead_machine_is_detected_within_a_minute() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as line,
    ):
        module._keep_alive(line)

        def option(name: str) -> int:
            return line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))

        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert option("TCP_KEEPIDLE") + option("TCP_KEEPINTVL") * option("TCP_KEEPCNT") <= 60
