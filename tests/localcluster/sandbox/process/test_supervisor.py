"""Containers as a supervisor runs them, at every level that this machine allows: their start, output and end, and who
talks to them meanwhile."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import spawner_harness
from pods import levels
from spawner_harness import Pod, Spawner

from conformance.waiting import wait_for
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.messages import Limits, Mount, Rejected, Started
from windlass.localcluster.sandbox.process import container_runs

pytestmark = pytest.mark.pods

PATH = levels.SYSTEM_PATH.encode()


@pytest.fixture(scope="module", autouse=True)
def _sigquit_is_ignored() -> Iterator[None]:
    """Start the spawner as a shell starts a process with `&`."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGQUIT, before)


def test_new_pod_reports_no_runs(pod: Pod) -> None:
    assert pod.hello == messages.Hello(())


# Starts and ends


@pytest.mark.parametrize(
    ("script", "exit_code", "number"),
    [
        ("exit 0", 0, 0),
        ("exit 7", 7, 0),
        ("exit 255", 255, 0),
        ("kill -TERM $$", 0, 15),
        ("kill -KILL $$", 0, 9),
        ("trap '' TERM; kill -TERM $$; exit 3", 3, 0),
    ],
)
def test_exit_codes_and_signals_are_reported(pod: Pod, script: str, exit_code: int, number: int) -> None:
    run_id = pod.start(script)
    end = pod.ended(run_id)
    assert (end.exit_code, end.signal, end.was_out_of_memory) == (exit_code, number, False)
    assert end.at >= pod.hear(Started).at


def test_container_gets_arguments_environment_and_directory(pod: Pod) -> None:
    environment = {b"PATH": PATH, b"BYTES": b"\xff\xfe", b"EMPTY": b""}
    script = "pwd; env | sort; printf '%s\\n' \"$@\""
    run_id = pod.begin("sh", "-c", script, b"a", b"\xff b", environment=environment, working_directory="/usr")
    pod.ended(run_id)
    lines = [text.encode(errors="surrogateescape") for _, text in pod.log(run_id)]
    assert [line for line in lines if not line.startswith((b"_=", b"SHLVL=", b"OLDPWD="))] == [
        b"/usr",
        b"BYTES=\xff\xfe",
        b"EMPTY=",
        b"PATH=" + PATH,
        b"PWD=/usr",
        b"WINDLASS_RUN=" + run_id.encode(),
        b"\xff b",
    ]


def test_container_inherits_no_descriptors(pod: Pod) -> None:
    run_id = pod.start("ls /proc/self/fd | wc -l; umask")
    pod.ended(run_id)
    # 0, 1, 2, and the folder that is listed.
    assert pod.log(run_id) == [("stdout", "4"), ("stdout", "0022")]


def test_container_has_default_signal_handlers(pod: Pod) -> None:
    """No signal is ignored or blocked, whatever the spawner does with its own. Python cannot reset signals from 32 on:
    they stay as the parent of the spawner set them."""
    run_id = pod.begin("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    pod.ended(run_id)
    assert [(text.split()[0], int(text.split()[1], 16) & 0x7FFFFFFF) for _, text in pod.log(run_id)] == [
        ("SigBlk:", 0),
        ("SigIgn:", 0),
    ]


def test_both_streams_are_in_the_log(pod: Pod) -> None:
    run_id = pod.start("echo out; echo err >&2; printf unfinished")
    pod.ended(run_id)
    # Two streams have no order between them.
    assert sorted(pod.log(run_id)) == [("stderr", "err"), ("stdout", "out"), ("stdout", "unfinished")]


def test_log_is_complete_when_the_end_is_reported(pod: Pod) -> None:
    run_id = pod.start("seq 200000")
    pod.ended(run_id)
    assert [text for _, text in pod.log(run_id)] == [str(number) for number in range(1, 200001)]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("windlass-none", 'exec: "windlass-none": executable file not found in $PATH'),
        ("/windlass/none", 'exec: "/windlass/none": stat /windlass/none: no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
        ("/usr", 'exec: "/usr": permission denied'),
    ],
)
def test_invalid_command_is_a_start_error(pod: Pod, command: str, message: str) -> None:
    run_id = pod.begin(command)
    refusal = pod.not_started(run_id)
    assert refusal.message == message
    folder = pod.folder / "containers" / run_id
    assert container_runs.read_run(folder) == messages.RunReports(run_id, None, refusal)
    assert pod.ended(pod.start("exit 4")).exit_code == 4


def test_missing_working_directory_is_handled(spawner: Spawner, pod: Pod) -> None:
    """It is made where it can be made without a trace."""
    run_id = pod.begin("pwd", working_directory="/windlass-none/deep")
    if spawner.ready.has_namespaces:
        pod.ended(run_id)
        assert pod.log(run_id) == [("stdout", "/windlass-none/deep")]
    else:
        refusal = pod.not_started(run_id)
        wanted = 'chdir to cwd ("/windlass-none/deep") set in config.json failed: No such file or directory'
        assert refusal.message == wanted
    assert not Path("/windlass-none").exists()


@pytest.mark.parametrize("spawner", spawner_harness.WITH_NAMESPACES, indirect=True)
def test_impossible_mount_is_a_start_error(spawner: Spawner, pod: Pod) -> None:
    source = f"{pod.folder}/none"
    run_id = pod.begin("true", mounts=(Mount(source, "/windlass"),))
    refusal = pod.not_started(run_id)
    wanted = f"mounting {source} at /windlass: {source} does not exist"
    assert refusal.message == wanted


def test_run_is_started_once(pod: Pod) -> None:
    plan = pod.plan("sh", "-c", "echo once")
    pod.channel.send(messages.Start(plan))
    pod.channel.send(messages.Start(plan))
    pod.ended(plan.id)
    pod.channel.send(messages.Start(plan))
    pod.ended(pod.start("true"))
    assert pod.log(plan.id) == [("stdout", "once")]


def test_end_is_saved_before_it_is_reported(pod: Pod) -> None:
    run_id = pod.start("exit 9")
    end = pod.ended(run_id)
    written = container_runs.read_run(pod.folder / "containers" / run_id)
    assert written == messages.RunReports(run_id, pod.hear(Started), end)


def test_unwritable_log_does_not_end_the_container(pod: Pod) -> None:
    run_id = pod.begin("sh", "-c", "echo lost; exit 5", log="/windlass-none/0.log")
    assert pod.ended(run_id).exit_code == 5


# Places


@pytest.mark.parametrize("spawner", spawner_harness.WITH_NAMESPACES, indirect=True)
def test_pod_has_its_own_namespaces(spawner: Spawner) -> None:
    pod = spawner.pod(spawner.plan(hostname="some-host"))
    run_id = pod.start("hostname; test $$ -lt 10 && echo low; test $$ -eq 1 || echo 'not the first'")
    pod.ended(run_id)
    assert [text for _, text in pod.log(run_id)] == ["some-host", "low", "not the first"]
    assert socket.gethostname() != "some-host"


@pytest.mark.parametrize("spawner", spawner_harness.WITH_NAMESPACES, indirect=True)
def test_memory_volume_is_visible_only_in_the_pod(spawner: Spawner) -> None:
    plan = spawner.plan()
    volume = Path(plan.folder) / "volume"
    volume.mkdir()
    mount = Mount(str(volume), "/windlass-volume")
    memory = messages.MemoryFolder(str(volume), 1 << 20)
    pod = spawner.pod(msgspec.structs.replace(plan, volumes=(memory,)))
    writer = pod.start("echo word > /windlass-volume/file", mounts=(mount,))
    assert pod.ended(writer).exit_code == 0
    reader = pod.start(
        "cat /windlass-volume/file; head -c 2M /dev/zero > /windlass-volume/big", mounts=(mount,)
    )
    assert pod.ended(reader).exit_code != 0
    assert ("stdout", "word") in pod.log(reader)
    assert list(volume.iterdir()) == []


def test_failed_volume_is_reported(spawner: Spawner) -> None:
    plan = spawner.plan()
    if spawner.ready.has_namespaces:
        volumes: tuple[object, ...] = (messages.MemoryFolder(f"{plan.folder}/none"),)
        words = "No such file or directory"
    else:
        volumes = (messages.NfsFolder(f"{plan.folder}/none", "server", "/export"),)
        words = "cannot mount server:/export: NFS needs root"
    pod = spawner.pod(msgspec.structs.replace(plan, volumes=volumes))
    assert words in pod.hello.problem
    pod.channel.send(messages.End())
    pod.hear_the_end()


def test_pod_without_directory_is_refused(spawner: Spawner) -> None:
    answer = spawner.spawn(spawner.plan(folder="/windlass-none/pod"))
    assert isinstance(answer, Rejected)
    assert answer.message.startswith("/windlass-none/pod: ")
    assert "No such file or directory" in answer.message


def test_pod_directory_may_have_a_long_path(spawner: Spawner) -> None:
    plan = spawner.plan()
    deep = Path(plan.folder, *["long" * 20] * 3)
    deep.mkdir(parents=True)
    for each in (deep, *deep.parents):
        if each.is_relative_to(plan.folder):
            os.chown(each, spawner.folder.stat().st_uid, -1)
    pod = spawner.pod(msgspec.structs.replace(plan, folder=str(deep)))
    run_id = pod.start("echo here")
    pod.ended(run_id)
    assert pod.log(run_id) == [("stdout", "here")]


def test_memory_limit_kills_the_container(pod: Pod) -> None:
    """Enforced by a cgroup or by polling."""
    script = "import time; kept = b'x' * (300 << 20); time.sleep(100000)"
    run_id = pod.begin(spawner_harness.python(), "-c", script, limits=Limits(memory_bytes=100 << 20))
    end = pod.ended(run_id)
    assert (end.signal, end.was_out_of_memory) == (9, True)


def test_memory_below_the_limit_is_allowed(pod: Pod) -> None:
    """Which is looked at once more after the start, so that it must have been seen in use."""
    run_id = pod.start("sleep 2; exit 6", limits=Limits(memory_bytes=100 << 20))
    end = pod.ended(run_id)
    assert (end.exit_code, end.was_out_of_memory) == (6, False)


# Input and terminals


def test_without_stdin_input_is_empty(pod: Pod) -> None:
    assert pod.ended(pod.start("cat")).exit_code == 0


def test_attached_client_provides_stdin(pod: Pod) -> None:
    run_id = pod.start("read -r word; echo got $word", has_stdin=True)
    shell = pod.attach(run_id)
    output, stdin = shell.descriptors
    os.write(stdin, b"something\n")
    assert spawner_harness.read(output) == b"got something\n"
    pod.ended(run_id)
    assert spawner_harness.read(output) == b""
    shell.close()


def test_container_with_a_terminal(pod: Pod) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && tty; read -r word; echo got $word; exec sleep 100000"
    run_id = pod.start(script, is_terminal=True)
    shell = pod.attach(run_id)
    _, stdin = shell.descriptors
    os.write(stdin, b"something\n")
    wait_for("the answer", lambda: "got something" in " ".join(text for _, text in pod.log(run_id)))
    assert any(text.startswith("/dev/pts/") for _, text in pod.log(run_id))
    assert {stream for stream, _ in pod.log(run_id)} == {"stdout"}
    # Ctrl-C
    os.write(stdin, b"\x03")
    assert pod.ended(run_id).signal == 2
    shell.close()
