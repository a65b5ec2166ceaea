"""`windlass local` with a fake kubelet and with processes in place of the daemon.

The real daemon and real pods are tested in tests/local.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_cluster
import msgspec
import pytest
import unprivileged
from click.testing import CliRunner, Result
from deep_folders import make_deep_folder

from windlass.cli.main import main
from windlass.runner.local import data_folders, process, records
from windlass.runner.local import status as local_status
from windlass.runner.local.data_folders import ForeignFolderError, InUseError, Lock
from windlass.runner.local.process import DaemonError
from windlass.runner.local.records import DaemonOptions, Record

PATIENCE_SECONDS = 60
RECORD = Record(
    pid=os.getpid(),
    url="https://127.0.0.1:4321",
    kubeconfig="/the data/kubeconfig",
    socket="/nowhere/api",
    network="shared",
    wanted_network="auto",
    nodes=1,
    notes=("a note",),
)


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default data directory. pytest's directory is too long for the path of a socket."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder) / "windlass" / "local"


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[fake_cluster.LocalCluster]:
    return fake_cluster.install(monkeypatch)


def windlass(*arguments: str | Path, given: str = "") -> Result:
    return CliRunner().invoke(main, ["local", *map(str, arguments)], input=given)


# Folders and locks


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/windlass/local"),
        ({"XDG_STATE_HOME": "relative"}, "/home/user/.local/state/windlass/local"),
        ({}, "/home/user/.local/state/windlass/local"),
    ],
)
def test_default_data_directory(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    assert data_folders.default_data(variables) == Path(expected)


def test_unknown_user_in_the_path_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of that name is created."""
    monkeypatch.chdir(tmp_path)
    result = windlass("status", "--data-dir", "~no-such-user/data")
    assert result.exit_code == 2
    assert 'no such user: "~no-such-user"' in result.output
    assert not list(tmp_path.iterdir())


def test_directory_with_other_files_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ForeignFolderError, match="is not empty and is not a data directory of Windlass"):
        data_folders.claim(tmp_path)
    assert not data_folders.is_ours(tmp_path)


def test_new_empty_and_own_directories_are_claimed(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path, tmp_path / "a" / "b"):
        data_folders.claim(folder)
        assert data_folders.is_ours(folder)


@pytest.mark.parametrize("name", ["", "token", data_folders.LOCK, "daemon.json"])
@pytest.mark.parametrize(
    "command",
    [["up"], ["down"], ["status"], ["reset", "--yes"], ["image", "add", "a", "/"]],
    ids=lambda c: c[0],
)
def test_data_directory_that_others_can_write_is_rejected(
    monkeypatch: pytest.MonkeyPatch, data: Path, command: list[str], name: str
) -> None:
    """Its token would give them our rights, and its lock names a process that `down` would stop."""
    monkeypatch.setattr(process, "start", lambda _: pytest.fail("a daemon was started"))
    monkeypatch.setattr(process, "stop", lambda *_: pytest.fail("a process was stopped"))
    data_folders.claim(data)
    (data / "token").write_text("known to others")
    records.write(data, RECORD)
    if name:
        # Otherwise the mode of the file is corrected.
        data.chmod(0o755)
    (data / name).chmod(0o722)
    with Lock.take(data / data_folders.LOCK):
        result = windlass(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{data / name} belongs to user " in result.stderr
    assert " and has mode 0722. Other users can write it." in result.stderr
    assert (data / "token").read_text() == "known to others"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_data_directory_of_another_user_is_rejected(tmp_path: Path) -> None:
    data_folders.claim(tmp_path / "data")
    os.chown(tmp_path / "data", unprivileged.NOBODY, -1)
    result = windlass("up", "--data-dir", tmp_path / "data")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{tmp_path / 'data'} belongs to user nobody and has mode 0700." in result.stderr


def test_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert data_folders.holder(path) is None
    with Lock.take(path):
        assert data_folders.holder(path) == os.getpid()
        with pytest.raises(InUseError):
            Lock.take(path, seconds=0)
    assert data_folders.holder(path) is None


def test_read_only_files_of_pods_are_deleted(tmp_path: Path) -> None:
    deep = tmp_path / "data" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    for folder in (deep, deep.parent):
        folder.chmod(0o500)
    data_folders.remove(tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, []),
        ({"nodes": 3}, ["--nodes 1"]),
        ({"network": "shared"}, []),
        ({"network": "isolated"}, ["--network shared"]),
        ({"port": 4321}, []),
        ({"port": 4322}, ["--listen 127.0.0.1:4321"]),
        ({"host": "127.0.0.2"}, ["--listen 127.0.0.1:4321"]),
        ({"host": "localhost"}, []),
        ({"host": "::1"}, ["--listen 127.0.0.1:4321"]),
        ({"has_controller": False}, ["--with-controller"]),
        ({"fake_gpus": 4}, ["--fake-gpus 0"]),
    ],
)
def test_differences_to_the_running_daemon_are_listed(wanted: dict[str, Any], expected: list[str]) -> None:
    assert records.differences(RECORD, DaemonOptions(Path("/data"), **wanted)) == expected


# Starting a process


def fake_daemon(script: str) -> Callable[[DaemonOptions, int], list[str]]:
    """Run a process in place of the daemon. `ready` is the descriptor for its readiness."""
    return lambda _wanted, descriptor: [sys.executable, "-c", f"import os\nready = {descriptor}\n{script}"]


ANSWER = f"os.write(ready, {msgspec.json.encode(records.Answer(RECORD))!r})"


def test_ready_daemon_keeps_running(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    script = f"{ANSWER}\nos.close(ready)\nprint(os.getsid(0) == os.getpid(), os.getcwd(), flush=True)"
    monkeypatch.setattr(process, "command", fake_daemon(script))
    data_folders.claim(data)
    (data / "daemon.log").write_text("of the last time")
    assert process.start(DaemonOptions(data)) == RECORD
    os.wait()
    assert (data / "daemon.log").read_text() == f"True {data}\n"
    assert (data / "daemon.log.1").read_text() == "of the last time"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            'os.write(ready, b\'{"error": "the port is taken"}\')',
            "the cluster cannot start: the port is taken",
        ),
        ("raise SystemExit('out of luck')", "out of luck"),
        ("os.kill(os.getpid(), 9)", "the daemon ended without an error message"),
    ],
)
def test_daemon_that_exits_during_the_start_is_reported(
    monkeypatch: pytest.MonkeyPatch, data: Path, script: str, words: str
) -> None:
    monkeypatch.setattr(process, "command", fake_daemon(script))
    result = windlass("up")
    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    "wanted",
    [
        DaemonOptions(Path("/data")),
        DaemonOptions(Path("/data"), "::1", 4321, 3, "isolated", has_controller=False),
        DaemonOptions(Path("/data"), fake_gpus=8),
    ],
)
def test_daemon_runs_the_same_command(
    monkeypatch: pytest.MonkeyPatch, clusters: object, wanted: DaemonOptions
) -> None:
    from windlass.runner.local import daemon as local_daemon

    served: list[DaemonOptions] = []
    monkeypatch.setattr(local_daemon, "serve", lambda given, _: served.append(given))
    monkeypatch.setattr(data_folders, "claim", lambda _: None)
    read, write = os.pipe()
    try:
        arguments = process.command(wanted, write)
        assert arguments[1:4] == ["-P", "-m", "windlass.cli.main"]
        result = CliRunner().invoke(main, arguments[4:])
    finally:
        os.close(read)
        os.close(write)
    assert result.exit_code == 0, result.output
    assert served == [wanted]


# Commands


def test_up_prints_only_the_shell_command_to_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "start", lambda _: RECORD)
    result = windlass("up")
    assert result.exit_code == 0
    assert result.stdout == "export KUBECONFIG='/the data/kubeconfig'\n"
    assert "the cluster is running: https://127.0.0.1:4321, 1 node, shared network\na note\n" in result.stderr


def test_second_up_prints_the_running_cluster(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    data_folders.claim(data)
    records.write(data, RECORD)
    with Lock.take(data / data_folders.LOCK):
        result = windlass("up", "--nodes", "3")
    assert (result.exit_code, result.stdout) == (0, "export KUBECONFIG='/the data/kubeconfig'\n")
    assert "the cluster is already running" in result.stderr
    assert (
        "the cluster was started with --nodes 1. To change that, run `windlass local down` first."
        in result.stderr
    )


def test_daemon_that_never_becomes_ready_is_reported(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0)
    data_folders.claim(data)
    with Lock.take(data / data_folders.LOCK):
        result = windlass("up")
    assert result.exit_code == 1
    assert f"process {os.getpid()} uses {data} but does not become ready" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "everywhere"], "'everywhere' is not host:port"),
        (["--nodes", "0"], "Invalid value for '--nodes'"),
        (["--network", "fast"], "'fast' is not one of"),
    ],
)
def test_invalid_usage_is_rejected(arguments: list[str], words: str) -> None:
    result = windlass("up", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    ("command", "exit_code", "words"),
    [
        (["down"], 0, "the cluster is not running"),
        (["status"], 3, "not running"),
        (["reset", "--yes"], 0, " does not exist"),
        (["image", "list"], 0, ""),
        (["image", "remove", "a"], 1, " has no local images"),
    ],
)
def test_commands_without_a_cluster(data: Path, command: list[str], exit_code: int, words: str) -> None:
    result = windlass(*command)
    assert result.exit_code == exit_code
    assert words in result.output
    assert not data.exists(), "reading creates no files"


def test_status_json_without_a_cluster(data: Path) -> None:
    result = windlass("status", "--output", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["running"], found["dataDir"]) == (3, False, str(data))


def test_status_of_a_cluster_that_does_not_respond(data: Path) -> None:
    data_folders.claim(data)
    records.write(data, RECORD)
    with Lock.take(data / data_folders.LOCK):
        result = windlass("status")
    assert result.exit_code == 0
    assert f"running, process {os.getpid()}, does not respond: " in result.stdout
    assert "nodes:      unknown\npods:       unknown\n" in result.stdout


def test_reset_prompts_and_deletes(data: Path) -> None:
    data_folders.claim(data)
    (data / "cluster.db").touch()
    refused = windlass("reset", given="n\n")
    assert (refused.exit_code, data.exists()) == (1, True)
    done = windlass("reset", given="y\n")
    assert (done.exit_code, data.exists()) == (0, False)


def test_reset_deletes_folders_of_any_depth(data: Path) -> None:
    data_folders.claim(data)
    make_deep_folder(data / "pods", 1500)
    done = windlass("reset", "--yes")
    assert (done.exit_code, data.exists()) == (0, False), done.output


@pytest.mark.parametrize("command", [["reset", "--yes"], ["up"], ["image", "add", "a", "/"]])
def test_directory_with_other_files_is_not_changed(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    result = windlass(*command, "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "is not a data directory of Windlass" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_image_add_list_and_remove(tmp_path: Path) -> None:
    assert windlass("image", "add", "tensorflow/tensorflow:1.4", tmp_path).exit_code == 0
    assert windlass("image", "add", "b", tmp_path).exit_code == 0
    assert windlass("image", "list").stdout.splitlines() == [
        f"b                          {tmp_path}",
        f"tensorflow/tensorflow:1.4  {tmp_path}",
    ]
    assert windlass("image", "remove", "b").exit_code == 0
    assert json.loads(windlass("image", "list", "--output", "json").stdout) == {
        "tensorflow/tensorflow:1.4": str(tmp_path)
    }
    missing = windlass("image", "add", "b", tmp_path / "missing")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (1, True)


def test_up_reuses_the_last_options(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    data_folders.claim(data)
    records.write(data, msgspec.structs.replace(RECORD, nodes=3, wanted_network="shared"))
    started: list[DaemonOptions] = []

    def start(wanted: DaemonOptions) -> Record:
        started.append(wanted)
        return RECORD

    monkeypatch.setattr(process, "start", start)
    assert windlass("up").exit_code == 0
    assert windlass("up", "--nodes", "1", "--network", "auto").exit_code == 0
    assert [(wanted.nodes, wanted.network) for wanted in started] == [(3, "shared"), (1, "auto")]


# Daemon


@pytest.fixture
def default_sighup() -> Iterator[None]:
    """Do not ignore SIGHUP, even if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("number", "ends_pods"),
    [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGHUP, False), (signal.SIGUSR1, True)],
)
@pytest.mark.usefixtures("default_sighup")
def test_signal_ends_the_daemon(
    clusters: type[fake_cluster.LocalCluster], data: Path, number: signal.Signals, ends_pods: bool
) -> None:
    from windlass.runner.local import daemon as local_daemon

    data_folders.claim(data)
    seen: list[Record | None] = []

    def ready(record: Record) -> None:
        seen.append(process.running(data))
        os.kill(os.getpid(), number)

    local_daemon.serve(DaemonOptions(data, nodes=2, has_controller=False), ready)
    (cluster,) = clusters.instances
    (record,) = seen
    assert record is not None
    assert (record.url, record.nodes, record.socket) == (cluster.url, 2, str(cluster.socket))
    assert cluster.ended_pods is ends_pods
    assert process.running(data) is None


def test_last_port_is_reused(clusters: type[fake_cluster.LocalCluster], data: Path) -> None:
    from windlass.runner.local import daemon as local_daemon

    data_folders.claim(data)
    for _ in range(2):
        local_daemon.serve(
            DaemonOptions(data, has_controller=False), lambda _: os.kill(os.getpid(), signal.SIGTERM)
        )
    assert clusters.instances[0].url == clusters.instances[1].url


def test_second_daemon_is_rejected(clusters: type[fake_cluster.LocalCluster], data: Path) -> None:
    data_folders.claim(data)
    with Lock.take(data / data_folders.LOCK), pytest.MonkeyPatch.context() as patch:
        from windlass.runner.local import daemon as local_daemon

        patch.setattr(local_daemon, "LOCK_SECONDS", 0)
        result = windlass("up", "--foreground")
    assert (result.exit_code, clusters.instances) == (1, [])
    assert f"{data} is in use" in result.stderr


def test_failed_start_is_one_message(clusters: type[fake_cluster.LocalCluster]) -> None:
    clusters.trouble = "the disk is full"
    result = windlass("up", "--foreground")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "windlass: the disk is full\n")


@pytest.mark.usefixtures("clusters")
def test_daemon_runs_a_controller(data: Path) -> None:
    """The status is read from a thread: the daemon needs the main thread for its signals."""
    from windlass.runner.local import daemon as local_daemon

    data_folders.claim(data)
    found: list[local_status.Status] = []

    def look() -> None:
        try:
            found.append(local_status.read(data))
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)

    looking = threading.Thread(target=look)
    local_daemon.serve(DaemonOptions(data), lambda _: looking.start())
    looking.join(PATIENCE_SECONDS)
    (status,) = found
    assert (status.running, status.controller, status.trouble) == (True, True, "")
    assert local_status.lines(status)[0] == f"running, process {os.getpid()}"


def test_down_stops_pods_of_a_killed_daemon(clusters: type[fake_cluster.LocalCluster], data: Path) -> None:
    data_folders.claim(data)
    (data / "pods" / "some-uid").mkdir(parents=True)
    (data / "pods" / "some-uid" / "socket").touch()
    result = windlass("down")
    assert (result.exit_code, result.output) == (
        0,
        "the cluster was not running; its remaining pods were stopped\n",
    )
    assert [cluster.ended_pods for cluster in clusters.instances] == [True]


@pytest.mark.parametrize("error", [KeyError("spec"), OSError("no space"), msgspec.DecodeError("damaged")])
def test_reset_kills_pods_that_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch, data: Path, error: Exception
) -> None:
    from windlass.runner.local import daemon as local_daemon

    def fail(_: Path) -> None:
        raise error

    killed: list[Path] = []
    monkeypatch.setattr(local_daemon, "end_pods", fail)
    monkeypatch.setattr(local_daemon, "kill_pods", killed.append)
    data_folders.claim(data)
    (data / "pods" / "some-uid").mkdir(parents=True)
    (data / "pods" / "some-uid" / "socket").touch()
    assert windlass("down").exit_code == 1
    assert killed == []
    result = windlass("reset", "--yes")
    assert (result.exit_code, killed, data.exists()) == (0, [data], False)


RELUCTANT = """
import signal, sys
from pathlib import Path
from windlass.runner.local.data_folders import Lock

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
lock = Lock.take(Path(sys.argv[1]))
print("locked", flush=True)
signal.sigwait([signal.SIGUSR1])
lock.release()
print("released", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="where a process has no descriptor, its lock has to do"
)
def test_down_waits_until_the_daemon_has_ended(data: Path) -> None:
    data_folders.claim(data)
    lock = data / data_folders.LOCK
    daemon = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", RELUCTANT, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with daemon, ThreadPoolExecutor(1) as pool:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "locked\n"
        records.write(data, msgspec.structs.replace(RECORD, pid=daemon.pid))
        down = pool.submit(windlass, "down")
        assert daemon.stdout.readline() == "released\n"
        assert data_folders.holder(lock) is None
        with pytest.raises(TimeoutError):
            down.result(0.5)
        daemon.stdin.close()
        result = down.result(PATIENCE_SECONDS)
    assert (result.exit_code, result.output) == (0, "the cluster has stopped\n")


def test_daemon_that_does_not_stop_is_reported(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    data_folders.claim(data)
    records.write(data, RECORD)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(process, "STOP_SECONDS", 0)
    with Lock.take(data / data_folders.LOCK):
        result = windlass("down")
    assert result.exit_code == 1
    assert f"End it with `kill -9 {os.getpid()}`" in result.stderr


def test_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.setattr(process, "command", lambda *_: ["/nowhere/python"])
    data_folders.claim(data)
    with pytest.raises(DaemonError, match="the daemon ended without an error message"):
        process.start(DaemonOptions(data))
