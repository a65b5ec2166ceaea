"""Exec, attach and port forwarding of a running pod, at every level of isolation that this machine supports."""

import contextlib
import os
import signal
import socket
import uuid
from pathlib import Path

import pytest
import spawner_harness
from pods import levels
from spawner_harness import FOREVER, Pod, Spawner

from conformance.waiting import wait_for
from windlass.localcluster.sandbox import messages

pytestmark = pytest.mark.pods

PATH = levels.SYSTEM_PATH.encode()


@pytest.fixture
def word() -> str:
    """An argument for `sleep` that tells this one from all others."""
    return f"100000.{uuid.uuid4().int}"


# Exec


def test_exec_returns_streams_and_exit_code(pod: Pod) -> None:
    environment = {b"PATH": PATH, b"WORD": b"of the container"}
    run_id = pod.start(FOREVER, environment=environment, working_directory="/usr")
    shell = pod.execute(run_id, "sh", "-c", 'pwd; echo "$WORD"; cat; echo err >&2; exit 5')
    shell.write(b"input\n")
    shell.close_stdin()
    assert shell.output() == [b"/usr\nof the container\ninput\n", b"err\n"]
    assert shell.exit_code() == 5
    shell.close()
    assert pod.log(run_id) == []


def test_exec_with_a_terminal(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sh", "-c", "tty; test -t 2 && exit 3", is_terminal=True)
    assert len(shell.descriptors) == 1
    (output,) = shell.output()
    assert output.startswith(b"/dev/pts/")
    assert output.endswith(b"\r\n")
    assert shell.exit_code() == 3
    shell.close()


def test_exec_killed_by_a_signal(pod: Pod) -> None:
    shell = pod.execute(pod.start(FOREVER), "sh", "-c", "kill -9 $$")
    assert shell.exit_code() == 137
    shell.close()


def test_exec_of_a_missing_command_is_refused(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    refusal = pod.refusal(lambda call: messages.Execute(call, run_id, (b"windlass-none",)))
    assert refusal == 'exec: "windlass-none": executable file not found in $PATH'


def test_parallel_execs(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shells = [pod.execute(run_id, "sh", "-c", f"read -r _; exit {code}") for code in range(10)]
    for shell in reversed(shells):
        shell.write(b"\n")
    assert [shell.exit_code() for shell in shells] == list(range(10))
    for shell in shells:
        shell.close()


def test_abandoned_exec_is_killed(pod: Pod) -> None:
    run_id, word = pod.start(FOREVER), f"100000.{uuid.uuid4().int}"
    shell = pod.execute(run_id, "sh", "-c", f"sleep {word} & sleep {word}")
    wait_for("both", lambda: len(spawner_harness.with_word(f"sleep {word} ")) >= 2)
    pod.channel.send(messages.Abandon(shell.call))
    assert shell.exit_code() == 137
    wait_for("neither", lambda: not spawner_harness.with_word(word))
    shell.close()
    assert spawner_harness.marked(run_id)


@pytest.mark.parametrize("kind", [messages.Execute, messages.Attach])
@pytest.mark.parametrize("has_run", [True, False])
def test_exec_in_an_ended_container_is_refused(pod: Pod, kind: type, has_run: bool) -> None:
    run_id = "none"
    if has_run:
        run_id = pod.start("true")
        pod.ended(run_id)

    def make(call: int) -> messages.Execute | messages.Attach:
        if kind is messages.Attach:
            return messages.Attach(call, run_id)
        return messages.Execute(call, run_id, (b"true",))

    assert pod.refusal(make) == "the container is not running"


# Attach


def test_attached_client_sees_later_output(pod: Pod) -> None:
    run_id = pod.start("echo before; read -r _; echo out; echo err >&2; read -r _", has_stdin=True)
    pod.wait_for_line(run_id, "before")
    one, other = pod.attach(run_id), pod.attach(run_id)
    os.write(one.descriptors[1], b"\n")
    pod.wait_for_line(run_id, "out")
    pod.wait_for_line(run_id, "err")
    os.write(other.descriptors[1], b"\n")
    pod.ended(run_id)
    for shell in (one, other):
        seen = b"".join(iter(lambda reader=shell.descriptors[0]: spawner_harness.read(reader), b""))  # type: ignore[misc]
        assert sorted(seen.split()) == [b"err", b"out"]
        shell.close()


def test_detached_client_sees_no_more_output(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.attach(run_id)
    assert len(shell.descriptors) == 1
    pod.channel.send(messages.Abandon(shell.call))
    assert spawner_harness.read(shell.descriptors[0]) == b""
    shell.close()
    assert spawner_harness.marked(run_id)


def test_attached_client_that_does_not_read_blocks_nothing(pod: Pod) -> None:
    run_id = pod.start("read -r _; seq 200000; exit 8", has_stdin=True)
    shell = pod.attach(run_id)
    os.write(shell.descriptors[1], b"\n")
    assert pod.ended(run_id).exit_code == 8
    assert len(pod.log(run_id)) == 200000
    shell.close()


def test_closed_attached_client_is_dropped(pod: Pod) -> None:
    run_id = pod.start("read -r _; echo one; read -r _; echo two", has_stdin=True)
    shell, staying = pod.attach(run_id), pod.attach(run_id)
    os.close(shell.descriptors.pop(0))
    shell.write(b"\n")
    pod.wait_for_line(run_id, "one")
    shell.write(b"\n")
    assert pod.ended(run_id).exit_code == 0
    assert pod.log(run_id) == [("stdout", "one"), ("stdout", "two")]
    shell.close()
    staying.close()


# Connections

LISTEN = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"from within")
"""


def test_connect_to_a_port_of_a_pod(spawner: Spawner, pod: Pod) -> None:
    run_id = pod.begin(spawner_harness.python(), "-c", LISTEN)
    wait_for("the port", lambda: pod.log(run_id))
    port = int(pod.log(run_id)[0][1])
    assert said_at(pod, port) == b"from within"
    if spawner.ready.gateway:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=spawner_harness.PATIENCE_SECONDS)


def said_at(pod: Pod, port: int, host: str = "127.0.0.1") -> bytes:
    _, (descriptor,) = pod.ask(lambda call: messages.Connect(call, port, host))
    with contextlib.closing(socket.socket(fileno=descriptor)) as connection:
        connection.settimeout(spawner_harness.PATIENCE_SECONDS)
        return connection.recv(100)


def test_connect_to_a_closed_port(pod: Pod) -> None:
    with socket.socket() as bound:
        # Bound, so that no other process listens there.
        bound.bind(("127.0.0.1", 0))
        with pytest.raises((AssertionError, ConnectionRefusedError), match="refused"):
            said_at(pod, bound.getsockname()[1])
    assert pod.ended(pod.start("exit 2")).exit_code == 2


def test_namespaces_are_shared_with_a_pod_network_only(spawner: Spawner, pod: Pod) -> None:
    """The next spawner joins what this one has made."""
    if not spawner.ready.gateway:
        assert pod.refusal(messages.Namespaces) == "pods share the host network"
        return
    _, (user, hub) = pod.ask(messages.Namespaces)
    named = [Path(f"/proc/self/fd/{each}").readlink().name for each in (user, hub)]
    assert [name.partition(":")[0] for name in named] == ["user", "net"]
    os.close(user)
    os.close(hub)


def test_exec_ends_with_its_container(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sleep", "100000")
    pod.signal(run_id, signal.SIGKILL)
    pod.ended(run_id)
    assert shell.output() == [b"", b""]
    assert shell.exit_code() == 137
    shell.close()


def test_exec_ends_with_the_init_of_its_container(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sleep", "100000")
    spawner_harness.kill(spawner_harness.init_of(run_id))
    pod.ended(run_id)
    assert shell.output() == [b"", b""]
    assert shell.exit_code() == 137
    shell.close()


def test_exec_ends_with_the_daemon_that_requested_it(pod: Pod, word: str) -> None:
    """The next one knows nothing of it, and counts its calls from the beginning."""
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sleep", word)
    shell.close()
    wait_for("it", lambda: spawner_harness.with_word(f"sleep {word} "))
    pod.disconnect()
    wait_for("its end", lambda: not spawner_harness.with_word(f"sleep {word} "))
    pod.connect()
    assert [run.end for run in pod.hello.runs] == [None]


@pytest.mark.parametrize(("host", "port"), [("windlass-none.invalid", 80), ("127.0.0.1", 70000)])
def test_invalid_address_is_refused(doomed: Spawner, host: str, port: int) -> None:
    """A probe may name any."""
    pod = doomed.pod()
    run_id = pod.start(FOREVER)
    assert pod.refusal(lambda call: messages.Connect(call, port, host))
    assert spawner_harness.marked(run_id)
    assert pod.ended(pod.start("exit 2")).exit_code == 2
