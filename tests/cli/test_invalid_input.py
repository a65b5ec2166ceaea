"""Invalid input: impossible names, wrong files, wrong servers.

Each case results in one message and a documented exit code, and changes nothing.
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
    assert "should not" not in result.stderr, "not an internal error"
    return result


# Invalid names

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
def test_invalid_job_name_is_rejected_and_nothing_is_deleted(
    command: list[str], place: ClusterNamespace
) -> None:
    """An empty name would request the whole collection."""
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
def test_request_for_an_object_without_a_name_is_rejected(request_of: Callable[[], Request]) -> None:
    with pytest.raises(ValueError, match="the name of the object is required"):
        request_of()


@pytest.mark.parametrize("namespace", ["My Space", "..", "a/b", "-", "UPPER", "n" * 64])
def test_invalid_namespace_is_rejected(namespace: str) -> None:
    result = windlass("list", "--namespace", namespace, "--kubeconfig", "/nowhere")
    assert result.exit_code == 2
    assert "expected lower-case letters, digits and hyphens" in result.stderr


# Wrong servers


class Page(http.server.BaseHTTPRequestHandler):
    """Handler of a web server that has none of the API paths."""

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


def test_web_server_is_not_taken_for_a_cluster_without_windlass(tmp_path: Path) -> None:
    """A 404 response means a missing object only if it comes from an API server."""
    with web_server() as server:
        result = windlass("list", "--kubeconfig", kubeconfig(tmp_path, {"server": server}))
    assert result.exit_code == 124
    assert all(
        word in result.stderr
        for word in (server, "context lab", "is not a Kubernetes API server", "404 text/html")
    )
    assert result.stderr.count("\n") == 1


def test_untrusted_server_is_reported(place: ClusterNamespace, tmp_path: Path) -> None:
    """The server responds, but its certificate is not trusted."""
    (cluster,) = yaml.safe_load(place.kubeconfig.read_text())["clusters"]
    server = cluster["cluster"]["server"]
    result = windlass("list", "--kubeconfig", kubeconfig(tmp_path, {"server": server}))
    assert result.exit_code == 124
    assert all(word in result.stderr for word in (server, "context lab", "is not trusted", "--kubeconfig"))
    assert "does not respond" not in result.stderr


UNREACHABLE = {
    "connection refused": ("http://127.0.0.1:1", "cannot connect to 127.0.0.1:1: Connection refused"),
    "server without TLS": ("https://127.0.0.1:1", "cannot connect to 127.0.0.1:1: Connection refused"),
    "no such host": ("https://cluster.invalid:6443", "cannot connect to cluster.invalid:6443: "),
}


@pytest.mark.parametrize(("server", "words"), UNREACHABLE.values(), ids=UNREACHABLE.keys())
def test_unreachable_server_is_reported(
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
def test_install_reports_an_unreachable_server(command: list[str], tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"})
    result = windlass(*command, "--kubeconfig", config)
    assert result.exit_code == 124
    assert f"http://127.0.0.1:1 of {config} (context lab)" in result.stderr
    assert result.stderr.count("\n") == 1


# Invalid kubeconfigs


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
def test_invalid_kubeconfig_is_reported(kind: str, tmp_path: Path) -> None:
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


def test_kubeconfig_that_is_a_directory_is_reported(tmp_path: Path) -> None:
    result = windlass("list", "--kubeconfig", str(tmp_path))
    assert result.exit_code == 1
    assert "cannot read " in result.stderr
    assert ": Is a directory." in result.stderr
    assert "Errno" not in result.stderr


# Scripts instead of job files, and the reverse


@pytest.mark.parametrize("command", ["plan", "submit", "run", "lint"])
def test_script_instead_of_a_job_file_is_rejected(command: str, tmp_path: Path) -> None:
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
def test_missing_script_is_reported_before_the_start(
    words: list[str], is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the script exists, the message is about the option instead."""
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    result = windlass("run", "--config-map", "nonsense", "--", *words)
    assert result.exit_code == 2
    assert (f"the script {tmp_path / 'nowhere.py'} does not exist" in result.stderr) == is_refused


def test_config_map_from_missing_files_is_rejected(tmp_path: Path) -> None:
    result = windlass("run", "--config-map", f"data={tmp_path}/nowhere", "--", "true")
    assert result.exit_code == 2
    assert f"--config-map: {tmp_path}/nowhere: No such file or directory" in result.stderr


# JSON output


def test_progress_is_printed_to_stderr_with_json_output(place: ClusterNamespace, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS))))
    result = windlass("submit", "--wait", "--output", "json", str(file), *place.options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metadata"]["name"] == "digits"
    assert "digits succeeded in " in result.stderr


# Ctrl-C at a prompt


def test_ctrl_c_at_a_prompt_exits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    command = (*WINDLASS, "init", "train.py")
    with terminals.running(command, dict(os.environ), tmp_path) as shown:
        shown.terminal.shows("Name of the job")
        shown.process.send_signal(signal.SIGINT)
        code = shown.done()
    assert code == 130
    assert not (tmp_path / "job.yaml").exists()


# Full disk and read-only files


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("words", [["--help"], ["schema"], ["plan", "JOB"], ["lint", "JOB"]], ids=" ".join)
def test_full_disk_is_reported(words: list[str], tmp_path: Path) -> None:
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
def test_closed_standard_stream_is_tolerated(
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


def test_deleted_working_directory_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = f'rmdir "{folder}"; exec "{sys.executable}" -m windlass.cli.main run -- true'
    done = subprocess.run(  # noqa: S602
        command, shell=True, cwd=folder, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert b"the working directory was deleted" in done.stderr


def test_unwritable_file_is_not_reported_as_unfixable(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ncommnd: 'true'\nroles: {worker: {}}\n")
    file.chmod(0o400)
    result = windlass("lint", "--fix", str(file))
    assert result.exit_code == 1
    assert f"cannot write {file}: " in result.stderr
    assert "not fixed" not in result.stdout
