"""Authentication, invalid input, misbehaving clients and kills. Nothing is lost, and the server stays up."""

import http.client
import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server_process import RunningServer, ServerProcess, serving

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("data")
    with serving(data, "--socket", str(data / "socket")) as served:
        yield served


@pytest.fixture(autouse=True)
def stays_up(server: ServerProcess) -> Iterator[None]:
    yield
    assert server.ask("GET", "/readyz").code == 200
    assert server.process.poll() is None


def is_failure(answer: Any, code: int, reason: str) -> bool:
    body = answer.body
    return bool(
        answer.code == body["code"] == code
        and body["kind"] == "Status"
        and body["apiVersion"] == "v1"
        and body["status"] == "Failure"
        and body["reason"] == reason
        and body["message"]
    )


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic YTpi", "Bearer", "Bearer ünknown"])
@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/version", "/readyz", "/openapi/v2", "/nowhere"])
def test_request_without_token_is_rejected(server: RunningServer, authorization: str, path: str) -> None:
    sent = {"Authorization": authorization.encode("utf-8").decode("latin-1")}
    assert is_failure(server.ask("GET", path, headers=sent), 401, "Unauthorized")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:6443", "localhost.evil.example", "[::2]", "a b"]
)
def test_foreign_host_header_is_rejected(server: RunningServer, host: str) -> None:
    assert is_failure(server.ask("GET", "/version", headers={"Host": host}), 403, "Forbidden")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.0.0.1:80", "[::1]:1", "kubernetes.default.svc"]
)
def test_own_host_names_are_accepted(server: RunningServer, host: str) -> None:
    assert server.ask("GET", "/version", headers={"Host": host}).code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost.evil.example", "null", "file://"]
)
def test_web_page_of_another_origin_is_rejected(server: RunningServer, origin: str) -> None:
    answer = server.ask("POST", MAPS, b"{}", headers={"Origin": origin})
    assert is_failure(answer, 403, "Forbidden")
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_plain_http_is_rejected(server: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/version")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()
    connection.close()


@pytest.mark.parametrize("name", ["kubeconfig", "token", "server.key", "server.crt", "socket"])
def test_credentials_are_private(server: RunningServer, name: str) -> None:
    assert stat.S_IMODE((server.data / name).stat().st_mode) == 0o600


def test_server_listens_on_loopback_only(server: RunningServer) -> None:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{server.port:04X}")]
    assert listening == [f"0100007F:{server.port:04X}"]


def run_server(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.localcluster", "--data", str(data), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_other_address_is_rejected(tmp_path: Path) -> None:
    failed = run_server(tmp_path, "--host", "0.0.0.0")  # noqa: S104
    assert failed.returncode == 1
    assert (
        failed.stderr
        == "error: cannot listen on 0.0.0.0: it is not a loopback address. Use 127.0.0.1 or ::1.\n"
    )


def test_port_in_use_is_reported(server: RunningServer, tmp_path: Path) -> None:
    failed = run_server(tmp_path, "--port", str(server.port))
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"error: cannot listen on 127.0.0.1:{server.port}: ")
    assert failed.stderr.count("\n") == 1


def test_data_directory_in_use_is_reported(server: RunningServer) -> None:
    failed = run_server(server.data)
    assert failed.returncode == 1
    assert failed.stderr == (
        f"error: cannot use the data directory {server.data}: another server is using it. Stop that server first.\n"
    )


def test_unix_socket_needs_no_token(server: RunningServer) -> None:
    with socket.socket(socket.AF_UNIX) as local:
        local.connect(str(server.data / "socket"))
        local.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert local.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"[]", "not an object but a list", id="list"),
        pytest.param(b"12", "not an object but a number", id="number"),
        pytest.param(b'{"a": NaN}', "not JSON", id="not a number"),
        pytest.param(b'{"kind": "\xff"}', "", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "", id="deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply", id="deep objects"),
        pytest.param(b'{"kind": "Pod"}', "the kind in the data (Pod) does not match", id="other kind"),
        pytest.param(b'{"kind": 5, "apiVersion": {}}', "", id="odd kind"),
        pytest.param(b'{"kind": "ConfigMap", "apiVersion": "v1", "metadata": []}', "", id="odd metadata"),
        pytest.param(
            b'{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"labels": [1]}}', "", id="odd labels"
        ),
    ],
)
def test_body_that_is_not_an_object(server: RunningServer, body: bytes, says: str) -> None:
    answer = server.ask("POST", MAPS, body)
    assert is_failure(answer, 400, "BadRequest"), answer
    assert says in answer.body["message"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"a: [", id="cut off"),
        pytest.param(b"a: b: c", id="two colons"),
        pytest.param(b"a: 1\n---\nb: 2\n", id="two documents"),
        pytest.param(
            b"a: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (97 + n, 97 + n, b",".join([b"*%c" % (96 + n)] * 9)) for n in range(1, 12)
            ),
            id="a bomb",
        ),
    ],
)
def test_body_that_is_not_yaml(server: RunningServer, body: bytes) -> None:
    answer = server.ask("POST", MAPS, body, content_type="application/yaml")
    assert is_failure(answer, 400, "BadRequest"), answer


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", MAPS, "text/plain"),
        ("POST", MAPS, "application/x-www-form-urlencoded"),
        ("PUT", f"{MAPS}/a", "text/html"),
        ("PATCH", f"{MAPS}/a", "application/json"),
        ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml"),
        ("PATCH", f"{MAPS}/a", ""),
    ],
)
def test_body_of_unknown_media_type(server: RunningServer, method: str, path: str, content_type: str) -> None:
    answer = server.ask(method, path, b"{}", content_type=content_type)
    assert is_failure(answer, 415, "UnsupportedMediaType"), answer


@pytest.mark.parametrize("encoding", ["deflate", "gzip"])
def test_body_with_wrong_encoding(server: RunningServer, encoding: str) -> None:
    assert server.ask("POST", MAPS, b"{}" * 100, headers={"Content-Encoding": encoding}).code == 400


def test_body_of_50_megabytes(server: RunningServer) -> None:
    answer = ask_tolerantly(server, b"x" * 50_000_000)
    assert answer is None or is_failure(answer, 413, "RequestEntityTooLarge")


def test_large_chunked_body(server: RunningServer) -> None:
    """Without Content-Length the server counts received bytes."""
    connection = server.connect()
    try:
        connection.putrequest("POST", MAPS)
        connection.putheader("Authorization", f"Bearer {server.token}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        try:
            while sent < 50_000_000:
                connection.send(piece)
                sent += 65536
        except OSError:
            pass
        try:
            assert connection.getresponse().status == 413
        except OSError:
            assert sent < 50_000_000
    finally:
        connection.close()


def ask_tolerantly(server: RunningServer, body: bytes) -> Any:
    """The server may close the connection while the client still sends, so that the response is lost."""
    try:
        return server.ask("POST", MAPS, body)
    except OSError:
        return None


@pytest.mark.parametrize("name", ["a%2Fb", "..", "%2e%2e", "a%00b", "%ff", "A", "a" * 300, "-", "a b"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_impossible_name_is_rejected(server: RunningServer, method: str, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}} if method == "PUT" else None
    answer = server.ask(method, f"{MAPS}/{name.replace(' ', '%20')}", body)
    assert answer.code in (400, 404), answer
    assert is_failure(answer, answer.code, answer.body["reason"])


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "A", "a_b", "a" * 254, "\u00e4", "a\nb", " a"])
def test_invalid_name_is_rejected(server: RunningServer, name: str) -> None:
    before = server.names()
    assert is_failure(server.create(name), 422, "Invalid")
    assert server.names() == before


def test_missing_body_times_out(tmp_path: Path) -> None:
    """A client that announces a body and sends none blocks nobody else and gets an error."""
    with serving(tmp_path, "--body-seconds", "1") as slow:
        waiting = slow.connect()
        waiting.putrequest("POST", MAPS)
        waiting.putheader("Authorization", f"Bearer {slow.token}")
        waiting.putheader("Content-Type", "application/json")
        waiting.putheader("Content-Length", "100")
        waiting.endheaders(b"{")
        assert slow.create("meanwhile").code == 201
        response = waiting.getresponse()
        assert response.status == 408
        waiting.close()


def test_kill_loses_no_acknowledged_write(tmp_path: Path) -> None:
    created: list[str] = []
    for start in range(3):
        with serving(tmp_path) as served:
            assert sorted(served.names()) == sorted(created)
            for number in range(20):
                name = f"map-{start}-{number}"
                assert served.create(name).code == 201
                created.append(name)
            served.process.send_signal(signal.SIGKILL)
            served.process.wait()
    with serving(tmp_path) as served:
        assert sorted(served.names()) == sorted(created)


def test_kubeconfig_stays_valid_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        token, port = first.token, first.port
    certificate = (tmp_path / "server.crt").read_bytes()
    with serving(tmp_path, "--port", str(port)) as second:
        assert (second.token, second.port) == (token, port)
        assert (tmp_path / "server.crt").read_bytes() == certificate


def test_error_about_many_fields_is_limited(server: RunningServer) -> None:
    owners = [{"controller": True}] * 10_000
    answer = server.ask(
        "POST", MAPS, json.dumps({"metadata": {"name": "a", "ownerReferences": owners}}).encode()
    )
    assert is_failure(answer, 422, "Invalid")
    assert len(answer.body["details"]["causes"]) <= 100
    assert len(answer.body["message"]) < 200_000


def test_built_in_object_with_too_many_values_is_rejected(server: RunningServer) -> None:
    body = b'{"metadata":{"name":"a","ownerReferences":[' + b"{}," * 310_000 + b"{}]}}"
    assert is_failure(server.ask("POST", MAPS, body), 413, "RequestEntityTooLarge")


def test_large_access_review_is_rejected(server: RunningServer) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "name": "x" * 65_536}}}
    assert is_failure(server.ask("POST", path, json.dumps(body).encode()), 413, "RequestEntityTooLarge")
