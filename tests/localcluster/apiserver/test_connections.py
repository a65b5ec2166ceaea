"""Clients without a token cannot occupy the server: their connections are few and time out."""

import resource
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from server_process import RunningServer, ServerProcess, serving, serving_in_thread
from windlass.localcluster.apiserver import connections

CONNECTIONS = 5_000


@pytest.fixture
def open_files() -> Iterator[int]:
    """Raise the limit of open files for this process and its children. Return how many connections it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(CONNECTIONS, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def peak_memory_mib(server: ServerProcess) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def test_silent_connections_are_closed_and_memory_is_bounded(tmp_path: Path, open_files: int) -> None:
    with serving(tmp_path) as server, ExitStack() as stack:
        assert server.ask("GET", "/readyz").code == 200
        before = peak_memory_mib(server)
        poll = select.poll()
        for _ in range(open_files):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            poll.register(silent, select.POLLIN)
        # The server accepts connections in order, so it has accepted all of them when it responds.
        assert server.ask("GET", "/readyz").code == 200
        assert peak_memory_mib(server) - before < 300
        end = time.monotonic() + 60
        while open_files - len(poll.poll(0)) > connections.MAX_UNAUTHENTICATED:
            assert time.monotonic() < end, "silent connections stay open"
            time.sleep(0.01)


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    """A server with short timeouts."""
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(connections, "IDLE_TIMEOUT_SECONDS", 0.5)
    with serving_in_thread(tmp_path) as server:
        yield server


def is_closed_by_peer(connection: socket.socket) -> bool:
    """Read until the server closes the connection. A response may precede that."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_connection_without_handshake_times_out(impatient: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as silent:
        assert is_closed_by_peer(silent)


HALF_A_HEAD = b"GET /version HTTP/1.1\r\nHost: local"
REJECTED = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY_PENDING = b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"


def authenticated_request(token: str) -> bytes:
    return f"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, REJECTED, BODY_PENDING])
def test_connection_without_authenticated_request_times_out(impatient: RunningServer, sent: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(sent)
        assert is_closed_by_peer(connection)


def test_half_a_head_after_an_authenticated_request_times_out(impatient: RunningServer) -> None:
    with connect(impatient) as connection:
        connection.sendall(authenticated_request(impatient.token))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(HALF_A_HEAD)
        assert is_closed_by_peer(connection)


def test_authenticated_watch_outlives_the_timeouts(impatient: RunningServer) -> None:
    watch = authenticated_request(impatient.token).replace(
        b"/version", b"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0"
    )
    with connect(impatient) as watching, connect(impatient) as silent:
        watching.sendall(watch)
        assert watching.recv(65536).startswith(b"HTTP/1.1 200")
        # A connection that is not older is closed, so the timeout has passed for the watch too.
        assert is_closed_by_peer(silent)
        assert impatient.create("late").code == 201
        received = b""
        while b'"late"' not in received:
            more = watching.recv(65536)
            assert more, "the watch was closed"
            received += more


def test_new_connection_displaces_the_oldest_silent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_UNAUTHENTICATED", 3)
    with serving_in_thread(tmp_path) as server, connect(server) as admitted, ExitStack() as stack:
        admitted.sendall(authenticated_request(server.token))
        assert admitted.recv(65536).startswith(b"HTTP/1.1 200")
        silent = [stack.enter_context(connect(server)) for _ in range(6)]
        assert all(is_closed_by_peer(each) for each in silent[:3])
        poll = select.poll()
        for each in silent[3:]:
            poll.register(each, select.POLLHUP)
        assert not poll.poll(0)
        admitted.sendall(authenticated_request(server.token))
        assert admitted.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers",
    [pytest.param(b"X: " + b"a" * 4_200 + b"\r\n", id="long"), pytest.param(b"X: a\r\n" * 60, id="many")],
)
def test_large_heads_are_rejected(impatient: RunningServer, headers: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(
            authenticated_request(impatient.token).replace(b"\r\n\r\n", b"\r\n" + headers + b"\r\n")
        )
        assert b" 400 Bad Request" in connection.recv(65536)


def connect(server: RunningServer) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(server.data / "server.crt"))
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    return context.wrap_socket(raw, server_hostname="localhost")


def account_token(server: RunningServer, name: str) -> str:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    assert server.ask("POST", accounts, body).code == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = server.ask("POST", f"{accounts}/{name}/token", request)
    return str(answer.body["status"]["token"])


def test_account_with_most_connections_loses_its_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_LIMITED", 4)
    with serving_in_thread(tmp_path) as server, ExitStack() as stack:
        tokens = {name: account_token(server, name) for name in ("quiet", "greedy")} | {"": server.token}
        opened: list[ssl.SSLSocket] = []
        for name in ("quiet", *[""] * 6, *["greedy"] * 7):
            connection = stack.enter_context(connect(server))
            opened.append(connection)
            for _ in range(2):
                connection.sendall(authenticated_request(tokens[name]))
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        quiet, administrators, greedy = opened[0], opened[1:7], opened[7:]
        assert all(is_closed_by_peer(each) for each in greedy[:4])
        for name, kept in (("quiet", [quiet]), ("", administrators), ("greedy", greedy[4:])):
            for each in kept:
                each.sendall(authenticated_request(tokens[name]))
                assert each.recv(65536).startswith(b"HTTP/1.1 200")
