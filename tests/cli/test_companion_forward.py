"""`windlass tensorboard`, `jupyter` and `hub`: forward a port to a companion.

A server of the test responds in place of the pod.
"""

import asyncio
import http.client
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import fake_companions
import pytest
from click.testing import CliRunner, Result
from fake_companions import READY, TENSORBOARD, PodPorts, Scene
from in_process_cluster import InProcessCluster

from windlass.cli.commands import run
from windlass.cli.main import main
from windlass.cli.run_options import RunArguments
from windlass.model.companions import Companion
from windlass.render.companions import passwords
from windlass.render.companions.password_files import ALL_USERS
from windlass.runner import companions
from windlass.runner.options import ForwardOptions

POD_PORTS = PodPorts()
EVERY_COMPANION = pytest.mark.parametrize("companion", list(Companion))


@pytest.fixture(scope="module")
def world() -> Iterator[InProcessCluster]:
    with fake_companions.opened(POD_PORTS) as opened:
        yield opened


@pytest.fixture
def scene(world: InProcessCluster) -> Scene:
    return Scene(world.new_place())


class FakeCompanion:
    """Server in place of the pod: a TensorBoard with these runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        program = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(program.runs).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@pytest.fixture
def program() -> Iterator[FakeCompanion]:
    made = FakeCompanion()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def start_companion(scene: Scene, companion: Companion, program: FakeCompanion, **more: Any) -> None:
    """Start the companion with a ready pod."""
    scene.start(companion, **more)
    POD_PORTS.of["p"] = program.port
    scene.pod(READY, companion=companion)
    scene.answer(companion)


class Command:
    """A running command whose output is read by the test."""

    def __init__(self, scene: Scene, *arguments: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "windlass.cli.main", *arguments, *scene.place.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        assert said, self.process.communicate()
        return said

    def end(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(number)
        stdout, stderr = self.process.communicate(timeout=120)
        return self.process.returncode, stdout, stderr


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    """Collect the started commands, and end them after the test."""
    begun: list[Command] = []
    yield begun
    for each in begun:
        each.process.kill()
        each.process.communicate()


def get(url: str, path: str = "data/runs") -> Any:
    host = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=120)
    try:
        connection.request("GET", f"/{path}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def windlass(scene: Scene, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, *scene.place.options])


# Forwarding


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_port_is_forwarded_until_a_signal(
    scene: Scene, program: FakeCompanion, commands: list[Command], number: int
) -> None:
    program.runs = ["train"]
    start_companion(scene, TENSORBOARD, program)
    commands.append(Command(scene, "tensorboard", "digits", "--port", "0"))
    said = commands[0].line()
    url = said.split()[3]
    assert said == f"tensorboard of digits: {url}  (Ctrl-C stops forwarding, not the tensorboard)"
    assert get(url) == ["train"]
    assert commands[0].end(number) == (0, "", "")
    with pytest.raises(OSError, match="refused"):
        get(url)


def test_tensorboard_without_runs_is_reported(
    scene: Scene, program: FakeCompanion, commands: list[Command]
) -> None:
    """It is reported again when it has runs."""
    start_companion(scene, TENSORBOARD, program)
    commands.append(Command(scene, "tensorboard", "digits", "--port", "0"))
    commands[0].line()
    assert commands[0].line() == ("/output has no runs yet: they appear as soon as tasks write them")
    program.runs = ["train", "eval"]
    assert commands[0].line() == "found runs: train, eval"
    assert commands[0].end()[0] == 0


def test_next_free_port_is_used(scene: Scene, program: FakeCompanion, commands: list[Command]) -> None:
    start_companion(scene, Companion.JUPYTER, program)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        commands.append(Command(scene, "jupyter", "digits", "--port", str(wanted)))
        url = commands[0].line().split()[3]
        code, _, stderr = commands[0].end()
    found = url.removesuffix("/").rpartition(":")[2]
    assert (code, stderr) == (0, f"windlass: port {wanted} is in use: using port {found}\n")


def test_command_waits_until_the_companion_is_ready(
    scene: Scene, program: FakeCompanion, commands: list[Command]
) -> None:
    scene.start(Companion.HUB)
    commands.append(Command(scene, "hub", "digits", "--port", "0"))
    assert commands[0].process.stderr is not None
    assert commands[0].process.stderr.readline() == (
        "windlass: waiting until hub of digits is ready: its pod is not created yet\n"
    )
    POD_PORTS.of["p"] = program.port
    scene.pod(READY, companion=Companion.HUB)
    scene.answer(Companion.HUB)
    assert get(commands[0].line().split()[3]) == []
    assert commands[0].end()[0] == 0


# New passwords


def test_new_password_is_shown_once(scene: Scene, program: FakeCompanion, commands: list[Command]) -> None:
    """The command waits for the pod with the new password."""
    start_companion(scene, Companion.JUPYTER, program, hashes={ALL_USERS: passwords.jupyter_hash("old")})
    commands.append(Command(scene, "jupyter", "digits", "--new-password", "--port", "0"))
    said = commands[0].line()
    password = said.removeprefix("new password of jupyter (shown once): ")
    assert len(password) >= 20
    scene.answer(Companion.JUPYTER)
    assert commands[0].line().startswith("jupyter of digits: http://127.0.0.1:")
    assert commands[0].end()[0] == 0
    secret = scene.client.get(scene.path("secrets", "digits-jupyter")).expect(200).body
    assert password not in json.dumps(secret)


def test_new_password_of_an_unknown_user_is_rejected(scene: Scene, program: FakeCompanion) -> None:
    start_companion(scene, Companion.HUB, program, hashes={"ada": passwords.hub_hash("old")})
    result = windlass(scene, "hub", "digits", "--new-password", "eve")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'windlass: hub of digits has no user "eve", only ada\n'


# Files


@EVERY_COMPANION
@pytest.mark.parametrize("name", ["job.yaml", "folder/job", "./digits"])
def test_companion_of_a_file_is_started_on_this_machine(
    companion: Companion, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(run, "run_companions", lambda *given: asked.append(given))
    options = ["--port", "7", "--address", "::1", "--browser", "--timeout", "7s"]
    result = CliRunner().invoke(main, [str(companion), name, *options])
    assert (result.exit_code, result.output) == (0, "")
    forward = ForwardOptions("::1", 7, opens_browser=True)
    assert asked == [(name, RunArguments(timeout=7.0), (companion,), forward)]


@pytest.mark.parametrize("words", [("jupyter", "--new-password"), ("hub", "--new-password", "ada")])
def test_new_password_is_rejected_with_a_file(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "job.yaml"])
    assert result.exit_code == 2
    assert "--new-password requires the name of a job" in result.stderr


# Missing companions


@EVERY_COMPANION
def test_job_without_the_companion_is_reported(scene: Scene, companion: Companion) -> None:
    other = next(each for each in Companion if each is not companion)
    scene.start(other)
    result = windlass(scene, str(companion), "digits")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"digits has no {companion}, only {other}. Add `{companion}: {{}}`" in result.stderr
    assert "`windlass submit FILE --companions-only`" in result.stderr


@EVERY_COMPANION
def test_unknown_job_is_reported(scene: Scene, companion: Companion) -> None:
    result = windlass(scene, str(companion), "missing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'there is no job "missing" in the namespace' in result.stderr


def test_companion_that_cannot_start_is_reported(scene: Scene) -> None:
    """The message includes the last lines of its log."""
    scene.start()
    ended = {"exitCode": 127, "reason": "Error"}
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    statuses = [{**container, "state": {"terminated": ended}}]
    scene.pod({"phase": "Running", "containerStatuses": statuses})
    result = windlass(scene, "tensorboard", "digits")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-4:] == [
        "windlass: cannot start tensorboard of digits: the pod p exited with code 127",
        "main of p",
        "",
        "without end",
    ]


def test_timeout_is_reported(scene: Scene) -> None:
    scene.start()
    result = windlass(scene, "tensorboard", "digits", "--timeout", "1s")
    assert (result.exit_code, result.stdout) == (124, "")
    assert "tensorboard of digits is not ready within 1 s" in result.stderr


@pytest.mark.parametrize("words", [("--port", "65536"), ("--port", "x"), ("--timeout", "0s")])
def test_invalid_options_are_rejected(words: tuple[str, ...]) -> None:
    """No request is sent to the cluster."""
    result = CliRunner().invoke(main, ["tensorboard", "digits", *words])
    assert result.exit_code == 2
    assert f"Invalid value for '{words[0]}'" in result.stderr


# TensorBoard runs


def test_server_that_is_not_a_tensorboard_has_no_runs(program: FakeCompanion) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        closed = f"http://127.0.0.1:{one.getsockname()[1]}/"
    assert asyncio.run(companions.tensorboard_runs(closed)) is None
    program.runs = {"a": 1}  # type: ignore[assignment]
    assert asyncio.run(companions.tensorboard_runs(f"http://127.0.0.1:{program.port}/")) is None
