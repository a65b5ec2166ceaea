"""Messages and exit codes of cluster commands when no cluster is available."""

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from in_process_cluster import ClusterNamespace, InProcessCluster
from operated import jobs

from windlass.cli.main import main
from windlass.client import connection

COMMANDS = {
    "delete": ["delete", "digits"],
    "describe": ["describe", "digits"],
    "list": ["list"],
    "list of all": ["list", "-A"],
    "resume": ["resume", "digits"],
    "scale": ["scale", "digits", "worker=4"],
    "status": ["status", "digits"],
    "stop": ["stop", "digits"],
    "submit": ["submit", "JOB"],
    "suspend": ["suspend", "digits"],
    "wait": ["wait", "digits"],
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text("name: digits\nimage: x\ncommand: 'true'\nroles: {worker: {}}\n")
    return file


def kubeconfig(folder: Path, server: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "current-context": "lab",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def run(command: str, job: Path, *options: str) -> tuple[int, str]:
    """Return the exit code and the message."""
    words = [str(job) if word == "JOB" else word for word in COMMANDS[command]]
    result = CliRunner().invoke(main, [*words, *options])
    assert "Traceback" not in result.output
    return result.exit_code, result.stderr


# Servers that do not respond


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """Return an address on which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Accept connections and never respond."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def full_queue_server() -> Iterator[str]:
    """Do not accept connections: the listen queue is full."""
    with socket.socket() as listening, contextlib.ExitStack() as others:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = others.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


UNREACHABLE = {
    "closed_port": closed_port,
    "silent_server": silent_server,
    "full_queue_server": full_queue_server,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_refused_connection_is_reported(command: str, job: Path, tmp_path: Path) -> None:
    with closed_port() as server:
        code, message = run(command, job, "--kubeconfig", str(kubeconfig(tmp_path, server)))
    assert code == 124
    assert server in message
    assert "context lab" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("kind", UNREACHABLE)
def test_server_that_does_not_respond_is_reported(
    kind: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection.FIRST_ANSWER_SECONDS <= 5
    monkeypatch.setenv(connection.CONNECT_TIMEOUT, "300ms")
    with UNREACHABLE[kind]() as server:
        code, message = run("list", job, "--kubeconfig", str(kubeconfig(tmp_path, server)))
    assert code == 124
    assert all(word in message for word in (server, "context lab", "does not respond", "--context"))


def test_invalid_connect_timeout_is_rejected(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connection.CONNECT_TIMEOUT, "soon")
    with closed_port() as server:
        code, message = run("list", job, "--kubeconfig", str(kubeconfig(tmp_path, server)))
    assert code == 1
    assert (
        message
        == "windlass: WINDLASS_CONNECT_TIMEOUT: found 'soon', expected a duration such as 90s, 15m, 1h30m or 7d\n"
    )


# Error responses


@contextlib.contextmanager
def error_server(code: int, reason: str, message: str) -> Iterator[str]:
    """Respond to every request with the same error."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = {"kind": "Status", "code": code, "reason": reason, "message": message}
            body = json.dumps(status).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


REFUSALS: dict[str, tuple[int, str, str, tuple[str, ...]]] = {
    "unauthorized": (401, "Unauthorized", "Unauthorized", ("rejected your credentials", "--context")),
    "forbidden": (
        403,
        "Forbidden",
        'frameworks is forbidden: User "me" cannot list in the namespace "default"',
        ("denied access", 'User "me" cannot', "--namespace"),
    ),
    "without Windlass": (404, "NotFound", "not here", ("windlass install --apply",)),
    "broken": (500, "InternalError", "etcd is gone", ("etcd is gone",)),
}


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_error_response_is_reported(command: str, kind: str, job: Path, tmp_path: Path) -> None:
    code, reason, said, words = REFUSALS[kind]
    with error_server(code, reason, said) as server:
        exited, message = run(command, job, "--kubeconfig", str(kubeconfig(tmp_path, server)))
    assert exited == 1
    assert all(word in message for word in words), message
    assert message.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_kubeconfig_is_reported(
    command: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    code, message = run(command, job)
    assert code == 1
    assert "no cluster configured" in message
    assert "windlass local up" in message
    _, message = run(command, job, "--context", "elsewhere")
    assert "Or omit the context to use the cluster of `windlass local up`." in message


def test_unknown_context_is_reported(place: ClusterNamespace, job: Path) -> None:
    code, message = run("list", job, "--kubeconfig", str(place.kubeconfig), "--context", "elsewhere")
    assert code == 1
    assert "elsewhere" in message


MISSING = [command for command in COMMANDS if command not in ("list", "list of all", "submit")]


@pytest.mark.parametrize("command", MISSING)
def test_unknown_job_is_reported(command: str, place: ClusterNamespace, job: Path) -> None:
    place.submit(jobs.framework("digit", jobs.role(life=jobs.SUCCEEDS)))
    code, message = run(command, job, *place.options)
    assert code == 1
    assert 'there is no job "digits"' in message
    assert 'Did you mean "digit"?' in message


def test_closed_pipe_ends_the_command(world: InProcessCluster) -> None:
    place = world.new_place()
    for number in range(30):
        place.submit(jobs.framework(f"job-{number}", jobs.role(life=jobs.SUCCEEDS)))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "windlass.cli.main", "list", "-o", "json", *place.options],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert done.stderr == b""
    assert done.returncode == 141
