"""What tired people type: names that cannot be, files that are something else, servers that are not what they seem.

Each gets one message and a documented exit code, and nothing is changed by it.
"""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import terminals
import yaml
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main
from windlass.kubeapi import requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import PODS

WINDLASS = (sys.executable, "-m", "windlass.cli.main")


def windlass(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    assert "should not" not in result.stderr, "no fault of ours"
    return result


# Names that no job can have

NAMES = {
    "empty": "",
    "capitals and a space": "My Job",
    "folder above": "..",
    "this folder": ".",
    "path": "../../pods/other",
    "escaped": "a%2fb",
    "umlaut": "träning",
    "query": "digits?watch=1",
    "end of line": "digits\n",
}
OF_A_JOB = {
    "delete": ["delete"],
    "describe": ["describe"],
    "events": ["events"],
    "resume": ["resume"],
    "status": ["status"],
    "stop": ["stop"],
    "suspend": ["suspend"],
    "wait": ["wait"],
    "why": ["why"],
}


@pytest.mark.parametrize("command", OF_A_JOB.values(), ids=OF_A_JOB.keys())
def test_a_name_that_no_job_can_have(command: list[str], place: ClusterNamespace) -> None:
    """The path of the nameless one is that of all: none of them may go."""
    place.submit(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS)))
    for case, name in NAMES.items():
        result = windlass(*command, name, *place.options)
        assert result.exit_code == 1, (case, result.output)
        assert "there is no job" in result.stderr, case
        assert "names consist of lower-case letters, digits and hyphens" in result.stderr, case
        assert result.stderr.count("\n") == 1, case
        assert result.stdout == "", case
    listed = json.loads(windlass("list", "-o", "json", *place.options).stdout)
    assert [job["metadata"]["name"] for job in listed["items"]] == ["digits"]


NAMELESS: dict[str, Callable[[], Request]] = {
    "get": lambda: requests.get(PODS, "default", ""),
    "delete": lambda: requests.delete(PODS, "default", ""),
    "replace": lambda: requests.replace(PODS, "default", "", b""),
    "json patch": lambda: requests.json_patch(PODS, "default", "", b""),
    "merge patch": lambda: requests.merge_patch(PODS, "default", "", b""),
}


@pytest.mark.parametrize("request_of", NAMELESS.values(), ids=NAMELESS.keys())
def test_a_request_for_one_object_is_never_one_for_all(request_of: Callable[[], Request]) -> None:
    with pytest.raises(ValueError, match="the name of the object is required"):
        request_of()


@pytest.mark.parametrize("namespace", ["My Space", "..", "a/b", "-", "UPPER", "n" * 64])
def test_a_namespace_that_cannot_be(namespace: str) -> None:
    result = windlass("list", "--namespace", namespace, "--kubeconfig", "/nowhere")
    assert result.exit_code == 2
    assert "expected lower-case letters, digits and hyphens" in result.stderr


# Servers that are not what they seem


class Page(http.server.BaseHTTPRequestHandler):
    """Of a web server: it knows none of our paths."""

    def do_GET(self) -> None:
        self.send_error(404)

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def web_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(folder: Path, cluster: object) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "current-context": "lab",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


def test_a_web_server(tmp_path: Path) -> None:
    """That something is not there is believed of an API server only: nobody is told to install anything."""
    with web_server() as server:
        result = windlass("list", "--kubeconfig", kubeconfig(tmp_path, {"server": server}))
    assert result.exit_code == 124
    assert all(
        word in result.stderr
        for word in (server, "context lab", "is not a Kubernetes API server", "404 text/html")
    )
    assert result.stderr.count("\n") == 1


def test_a_server_that_is_another_one(place: ClusterNamespace, tmp_path: Path) -> None:
    """It answers, and nothing vouches for it."""
    (cluster,) = yaml.safe_load(place.kubeconfig.read_text())["clusters"]
    server = cluster["cluster"]["server"]
    result = windlass("list", "--kubeconfig", kubeconfig(tmp_path, {"server": server}))
    assert result.exit_code == 124
    assert all(word in result.stderr for word in (server, "context lab", "is not trusted", "--kubeconfig"))
    assert "does not respond" not in result.stderr


UNREACHABLE = {
    "nobody listens": ("http://127.0.0.1:1", "cannot connect to 127.0.0.1:1: Connection refused"),
    "no TLS there": ("https://127.0.0.1:1", "cannot connect to 127.0.0.1:1: Connection refused"),
    "no such host": ("https://cluster.invalid:6443", "cannot connect to cluster.invalid:6443: "),
}


@pytest.mark.parametrize(("server", "words"), UNREACHABLE.values(), ids=UNREACHABLE.keys())
def test_a_server_that_is_not_there(
    server: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    result = windlass("list", "--kubeconfig", kubeconfig(tmp_path, {"server": server}))
    assert result.exit_code == 124
    assert words in result.stderr
    assert " object at 0x" not in result.stderr


INSTALLING = {
    "install": ["install", "--image", "x", "--apply"],
    "uninstall": ["uninstall", "--yes"],
}


@pytest.mark.parametrize("command", INSTALLING.values(), ids=INSTALLING.keys())
def test_installing_where_nobody_is(command: list[str], tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"})
    result = windlass(*command, "--kubeconfig", config)
    assert result.exit_code == 124
    assert f"http://127.0.0.1:1 of {config} (context lab)" in result.stderr
    assert result.stderr.count("\n") == 1


# Kubeconfigs that say nothing, or nonsense


class Faulty(msgspec.Struct, frozen=True):
    text: bytes
    words: str


KUBECONFIGS = {
    "empty": Faulty(b"", "no such file, or it is empty"),
    "no YAML": Faulty(b"{{{", "invalid kubeconfig"),
    "no text": Faulty(b"\x93\xff\x00", "invalid kubeconfig"),
    "a list": Faulty(b"[]", "invalid kubeconfig"),
    "without a context": Faulty(b"apiVersion: v1\n", "no current context is set"),
    "without a server": Faulty(b"", "invalid address of an API server"),
}


@pytest.mark.parametrize("kind", KUBECONFIGS)
def test_a_kubeconfig_that_cannot_be_used(kind: str, tmp_path: Path) -> None:
    faulty = KUBECONFIGS[kind]
    file = tmp_path / "kubeconfig"
    if kind == "without a server":
        kubeconfig(tmp_path, {"server": "cluster"})
    else:
        file.write_bytes(faulty.text)
    result = windlass("list", "--kubeconfig", str(file))
    assert result.exit_code == 1
    assert str(file) in result.stderr
    assert faulty.words in result.stderr
    assert ". Or start a cluster on this machine" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_kubeconfig_that_is_a_folder(tmp_path: Path) -> None:
    result = windlass("list", "--kubeconfig", str(tmp_path))
    assert result.exit_code == 1
    assert "cannot read " in result.stderr
    assert ": Is a directory." in result.stderr
    assert "Errno" not in result.stderr


# Programs where jobs are meant, and the other way round


@pytest.mark.parametrize("command", ["plan", "submit", "run"])
def test_a_program_is_no_job(command: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import tensorflow\n")
    result = windlass(command, str(script))
    assert result.exit_code == 2
    assert f"is a program, not a job file: run it with `windlass run -- python {script}`" in result.stderr


MISSING = {
    "python": (["python", "nowhere.py"], True),
    "a version": (["/usr/bin/python3.11", "nowhere.py", "--steps", "3"], True),
    "there": (["python", "train.py"], False),
    "a module": (["python", "-m", "train", "nowhere.py"], False),
    "another program": (["cat", "nowhere.py"], False),
}


@pytest.mark.parametrize(("words", "is_refused"), MISSING.values(), ids=MISSING.keys())
def test_a_script_that_is_not_there(
    words: list[str], is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is started for it. Where there is a script, it is the option that is wrong."""
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    result = windlass("run", "--config-map", "nonsense", "--", *words)
    assert result.exit_code == 2
    assert (f"the script {tmp_path / 'nowhere.py'} does not exist" in result.stderr) == is_refused


def test_a_config_map_of_nothing(tmp_path: Path) -> None:
    result = windlass("run", "--config-map", f"data={tmp_path}/nowhere", "--", "true")
    assert result.exit_code == 2
    assert f"--config-map: {tmp_path}/nowhere: No such file or directory" in result.stderr


# What programs read


def test_what_is_waited_for_is_told_beside_the_json(place: ClusterNamespace, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS))))
    result = windlass("submit", "--wait", "--output", "json", str(file), *place.options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metadata"]["name"] == "digits"
    assert "digits succeeded in " in result.stderr


# Ctrl-C at a question


def test_ctrl_c_at_a_question(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    command = (*WINDLASS, "init", "train.py")
    with terminals.running(command, dict(os.environ), tmp_path) as shown:
        shown.terminal.shows("Name of the job")
        shown.process.send_signal(signal.SIGINT)
        code = shown.done()
    assert code == 130
    assert not (tmp_path / "job.yaml").exists()


# A disk that is full, and a file that is protected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("words", [["--help"], ["schema"], ["plan", "JOB"], ["lint", "JOB"]], ids=" ".join)
def test_a_full_disk(words: list[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("name: a\ncommand: 'true'\nroles: {worker: {}}\n")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(  # noqa: S603
            [*WINDLASS, *(str(job) if word == "JOB" else word for word in words)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"windlass: no space left on device. Free some space and run the command again.\n"


CLOSED = {
    "input": ("<&-", True, True),
    "output": (">&-", False, True),
    "errors": ("2>&-", True, False),
    "all": ("<&- >&- 2>&-", False, False),
}


@pytest.mark.parametrize(("closed", "has_output", "has_errors"), CLOSED.values(), ids=CLOSED.keys())
def test_a_stream_that_is_closed_from_the_start(
    closed: str, has_output: bool, has_errors: bool, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\ncommnd: b\nroles: {worker: {}}\n")
    command = f'"{sys.executable}" -m windlass.cli.main lint job.yaml nowhere.yaml {closed}'
    done = subprocess.run(  # noqa: S602
        command, shell=True, cwd=tmp_path, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert (b'Did you mean "command"?' in done.stdout, b"cannot read " in done.stderr) == (
        has_output,
        has_errors,
    )
    assert b"cannot read " not in done.stdout


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = f'rmdir "{folder}"; exec "{sys.executable}" -m windlass.cli.main run -- true'
    done = subprocess.run(  # noqa: S602
        command, shell=True, cwd=folder, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert b"the working directory was deleted" in done.stderr


def test_what_could_not_be_written_is_not_said_to_be_beyond_mending(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ncommnd: 'true'\nroles: {worker: {}}\n")
    file.chmod(0o400)
    result = windlass("lint", "--fix", str(file))
    assert result.exit_code == 1
    assert f"cannot write {file}: " in result.stderr
    assert "not fixed" not in result.stdout
