"""Whoever ends, in whatever way, leaves nothing behind, and what is to be known of it is known: at every level that
this machine allows."""

import os
import resource
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import supervised
from pods import levels
from supervised import FOREVER, Pod, Spawner

from conformance.waiting import wait_for
from windlass.localcluster.sandbox import messages, processes, runs
from windlass.localcluster.sandbox.messages import Ended, Limits, Started

PYTHON = levels.interpreter_for_anybody()
LEVELS = ("root", "nobody", "plain")


@pytest.fixture(scope="module", params=LEVELS)
def spawner(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """For what harms no other pod."""
    if reason := levels.why_not(request.param):
        pytest.skip(reason)
    with supervised.spawner(levels.level(request.param)) as one:
        yield one
        assert one.complaints() == ""


@pytest.fixture(params=LEVELS)
def doomed(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """One that a test may kill."""
    if reason := levels.why_not(request.param):
        pytest.skip(reason)
    with supervised.spawner(levels.level(request.param)) as one:
        yield one


@pytest.fixture
def pod(spawner: Spawner) -> Pod:
    return spawner.pod()


@pytest.fixture
def word() -> str:
    """An argument for `sleep` that tells this one from all others."""
    return f"100000.{uuid.uuid4().int}"


def with_daemons(word: str, then: str = FOREVER) -> str:
    """A script that starts what does not want to be found: without a parent, a session, an environment, an output."""
    hidden = f"setsid env -i sleep {word} > /dev/null 2>&1 &"
    return f"({hidden}); (trap '' TERM HUP; sleep {word} &); echo armed; {then}"


def wait_for_daemons(pod: Pod, run_id: str, word: str) -> None:
    pod.wait_for_line(run_id, "armed")
    wait_for("both", lambda: len(sleeping(word)) == 2)


def sleeping(word: str) -> list[int]:
    return [pid for pid in supervised.with_word(word) if supervised.words_of(pid).startswith("sleep")]


# Signals


def test_sigterm_is_for_the_first_process_alone(pod: Pod) -> None:
    inner = "sh -c 'trap \"echo inner\" TERM; while true; do sleep 0.05; done' &"
    script = f"trap 'echo outer; exit 3' TERM; {inner} echo armed; while true; do sleep 0.05; done"
    run_id = pod.start(script)
    pod.wait_for_line(run_id, "armed")
    pod.signal(run_id, signal.SIGTERM)
    assert pod.ended(run_id).exit_code == 3
    assert [text for _, text in pod.log(run_id)] == ["armed", "outer"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_that_is_not_caught_ends_it(pod: Pod, number: signal.Signals) -> None:
    run_id = pod.start("exec sleep 100000")
    pod.signal(run_id, number)
    assert pod.ended(run_id).signal == number


def test_sigkill_ends_all_that_the_container_started(pod: Pod, word: str) -> None:
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    pod.signal(run_id, signal.SIGKILL)
    assert pod.ended(run_id).signal == signal.SIGKILL
    wait_for("none", lambda: not sleeping(word))
    assert supervised.marked(run_id) == []


def test_an_end_of_its_own_ends_all_that_the_container_started(pod: Pod, word: str) -> None:
    """One of them has the container's output, which does not keep the end from being told."""
    run_id = pod.start(with_daemons(word, "read -r _; exit 4"), has_stdin=True)
    wait_for_daemons(pod, run_id, word)
    shell = pod.attach(run_id)
    os.write(shell.descriptors[1], b"\n")
    shell.close()
    assert pod.ended(run_id).exit_code == 4
    wait_for("none", lambda: not sleeping(word))


def test_containers_of_a_pod_end_each_for_itself(pod: Pod) -> None:
    one, other = pod.start(FOREVER), pod.start(FOREVER)
    pod.signal(one, signal.SIGKILL)
    assert pod.ended(one).signal == signal.SIGKILL
    assert supervised.marked(other)
    pod.signal(other, signal.SIGKILL)
    assert pod.ended(other).signal == signal.SIGKILL


def test_a_signal_for_what_has_ended_does_nothing(pod: Pod) -> None:
    run_id = pod.start("true")
    pod.ended(run_id)
    pod.signal(run_id, signal.SIGKILL)
    pod.signal("none", signal.SIGKILL)
    assert pod.ended(pod.start("exit 2")).exit_code == 2


# The end of a pod


def test_the_end_of_a_pod(pod: Pod, word: str) -> None:
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    everybody = supervised.family(supervised.supervisor_of(run_id))
    pod.channel.send(messages.End())
    assert pod.ended(run_id).signal == signal.SIGKILL
    pod.hear_the_end()
    supervised.wait_until_gone(everybody)
    assert sleeping(word) == []
    assert not (pod.folder / "socket").exists()
    written = runs.read_run(pod.folder / "containers" / run_id)
    assert written is not None
    assert isinstance(written.end, Ended)


def test_a_pod_that_ends_starts_nothing_more(pod: Pod) -> None:
    run_id = pod.start("trap '' TERM; " + FOREVER)
    pod.channel.send(messages.End())
    late = pod.begin("true")
    pod.hear_the_end()
    assert (pod.folder / "containers" / run_id / "end").exists()
    assert not (pod.folder / "containers" / late).exists()


def test_the_last_words_of_a_pod_are_in_its_log(pod: Pod) -> None:
    run_id = pod.start("seq 100000; echo last; " + FOREVER)
    pod.wait_for_line(run_id, "last")
    pod.channel.send(messages.End())
    pod.hear_the_end()
    assert len(pod.log(run_id)) == 100001


@pytest.mark.parametrize("is_spawner_alive", [True, False])
def test_all_pods_end_with_the_lifeline(doomed: Spawner, word: str, is_spawner_alive: bool) -> None:
    pods = [doomed.pod() for _ in range(3)]
    ids = [pod.start(with_daemons(word)) for pod in pods]
    wait_for("all", lambda: len(sleeping(word)) == 6)
    supervisors = [supervised.supervisor_of(run_id) for run_id in ids]
    everybody = [each for pid in supervisors for each in supervised.family(pid)]
    if not is_spawner_alive:
        doomed.leave()
    assert len(sleeping(word)) == 6
    doomed.cut_lifeline()
    wait_for("none", lambda: not sleeping(word))
    supervised.wait_until_gone(everybody)
    for pod, run_id in zip(pods, ids, strict=True):
        written = runs.read_run(pod.folder / "containers" / run_id)
        assert written is not None
        assert isinstance(written.end, Ended)


# Killed


def test_an_init_that_is_killed(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    supervised.kill(supervised.init_of(run_id))
    end = pod.ended(run_id)
    assert (end.exit_code, end.signal) == (0, signal.SIGKILL)
    wait_for("none", lambda: not supervised.marked(run_id) and not sleeping(word))
    written = runs.read_run(pod.folder / "containers" / run_id)
    assert written is not None
    assert written.end == end
    assert pod.ended(pod.start("exit 2")).exit_code == 2


def test_a_supervisor_that_is_killed(doomed: Spawner, word: str) -> None:
    pod, other = doomed.pod(), doomed.pod()
    run_id, staying = pod.start(with_daemons(word)), other.start(FOREVER)
    wait_for_daemons(pod, run_id, word)
    supervisor = supervised.supervisor_of(run_id)
    everybody = supervised.family(supervisor)
    supervised.kill(supervisor)
    pod.hear_the_end()
    supervised.wait_until_gone(everybody)
    assert sleeping(word) == []
    assert supervised.marked(staying)
    assert doomed.pod().hello == messages.Hello(())


def test_a_supervisor_that_is_killed_while_a_container_starts(doomed: Spawner) -> None:
    """However far it has come: nothing is left of it."""
    for _ in range(10):
        pod = doomed.pod()
        supervisor = supervisor_in(doomed, pod)
        ids = [pod.begin("sleep", "100000") for _ in range(3)]
        pod.hear(Started)
        everybody = supervised.family(supervisor)
        supervised.kill(supervisor)
        supervised.wait_until_gone(everybody)
        wait_for("none", lambda ids=ids: not any(map(supervised.marked, ids)))  # type: ignore[misc]


def supervisor_in(spawner: Spawner, pod: Pod) -> int:
    """The newest of them."""
    run_id = pod.start(FOREVER)
    found = supervised.supervisor_of(run_id)
    assert processes.ancestors(found)[0] == spawner.process.pid
    return found


def test_a_spawner_that_is_killed_ends_no_pod(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    everybody = supervised.family(doomed.process.pid)
    supervised.kill(doomed.process.pid)
    doomed.process.wait(supervised.PATIENCE_SECONDS)
    with pytest.raises(EOFError):
        doomed.channel.receive()
    assert pod.ended(pod.start("exit 2")).exit_code == 2
    assert len(sleeping(word)) == 2
    pod.channel.send(messages.End())
    pod.hear_the_end()
    supervised.wait_until_gone(everybody)
    assert sleeping(word) == []


def test_all_are_killed_at_once(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    everybody = supervised.family(doomed.process.pid)
    victims = [doomed.process.pid, supervised.supervisor_of(run_id), supervised.init_of(run_id)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in victims:
            os.kill(pid, number)
    if doomed.ready.isolates:
        supervised.wait_until_gone(everybody)
        assert sleeping(word) == []
        return
    # Nobody was left who could have ended these; they are found by what they carry.
    left = processes.kill_all(lambda: [*supervised.marked(run_id), *sleeping(word)])
    assert left == []


# Others that come later


def test_who_connects_later_hears_all(pod: Pod, word: str) -> None:
    ended = pod.start("exit 3")
    pod.ended(ended)
    missing = pod.begin("windlass-none")
    pod.not_started(missing)
    dying, running = pod.start("exec sleep 100000"), pod.start(FOREVER)
    told = {run_id: started_of(pod, run_id) for run_id in (dying, running)}
    first = list(pod.said)
    pod.disconnect()
    # It goes on without a daemon, and notes what happens.
    os.kill(*supervised.marked(dying), signal.SIGTERM)
    wait_for("its end", lambda: (pod.folder / "containers" / dying / "end").exists())
    pod.connect()
    known = {run.container: run for run in pod.hello.runs}
    assert list(known) == [ended, missing, dying, running]
    assert (known[ended].started, known[ended].end) == tuple(each for each in first if of(each) == ended)
    assert (known[missing].started, known[missing].end) == (None, *(x for x in first if of(x) == missing))
    assert known[running] == messages.Run(running, told[running], None)
    assert known[dying].started == told[dying]
    end = known[dying].end
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM
    pod.signal(running, signal.SIGKILL)
    assert pod.ended(running).signal == signal.SIGKILL


def of(said: object) -> str:
    return getattr(said, "container", "")


def started_of(pod: Pod, run_id: str) -> Started:
    return pod.hear(Started, lambda said: said.container == run_id)


def test_the_last_who_connects_is_the_daemon(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    before = pod.channel
    pod.connect()
    with pytest.raises(EOFError):
        before.receive()
    before.close()
    pod.signal(run_id, signal.SIGKILL)
    assert pod.ended(run_id).signal == signal.SIGKILL


def test_what_is_not_a_message_ends_the_connection_and_nothing_else(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    pod.channel.socket.sendall(b"\0\0\0\3\0abc")
    pod.hear_the_end()
    pod.disconnect()
    pod.connect()
    assert [run.container for run in pod.hello.runs] == [run_id]
    assert supervised.marked(run_id)


ANSWER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7000))
print("armed", flush=True)
while True:
    with listener.accept()[0] as connection:
        connection.sendall(b"from the other pod")
"""
ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000)) as connection:
    sys.stdout.write(connection.recv(100).decode())
"""


def test_the_next_spawner_has_the_network_of_the_last(doomed: Spawner) -> None:
    if not doomed.ready.gateway:
        pytest.skip("pods share the network of the machine")
    address = "10.86.1.77"
    pod = doomed.pod(doomed.plan(link=messages.Link(address, 16, doomed.ready.gateway)))
    run_id = pod.begin(PYTHON, "-c", ANSWER, address)
    pod.wait_for_line(run_id, "armed")
    _, (user, hub) = pod.ask(messages.Namespaces)
    seen = Path(f"/proc/{supervised.supervisor_of(run_id)}/ns/user").readlink()
    doomed.leave()
    level = levels.level("root" if doomed.folder.stat().st_uid == 0 else "nobody")
    try:
        with supervised.spawner(level, namespaces=(user, hub)) as later:
            assert later.ready.gateway == doomed.ready.gateway
            peer = later.pod(later.plan(link=messages.Link("10.86.2.1", 16, later.ready.gateway)))
            other = peer.start(FOREVER)
            assert Path(f"/proc/{supervised.supervisor_of(other)}/ns/user").readlink() == seen
            shell = peer.execute(other, PYTHON, "-c", ASK, address)
            assert shell.output() == [b"from the other pod", b""]
            shell.close()
    finally:
        os.close(user)
        os.close(hub)


# What cannot be had


def limit_processes(pid: int, most: str) -> None:
    """Asked for by the user whose process it is: root may lack the right where it is not the machine's own."""
    user = Path(f"/proc/{pid}").stat().st_uid
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user != os.getuid() else []
    subprocess.run([*become, "prlimit", "--pid", str(pid), f"--nproc={most}:"], check=True)  # noqa: S603


@pytest.fixture
def limited() -> Iterator[Spawner]:
    """Of a user whom the kernel lets have so many processes and no more: root is none."""
    if reason := levels.why_not("nobody"):
        pytest.skip(reason)
    with supervised.spawner(levels.level("nobody")) as one:
        yield one


def test_a_spawner_that_cannot_fork(limited: Spawner) -> None:
    plan = limited.plan()
    many = str(resource.getrlimit(resource.RLIMIT_NPROC)[1])
    limit_processes(limited.process.pid, "0")
    answer = limited.spawn(plan)
    assert isinstance(answer, messages.Refused)
    assert answer.message == "cannot fork: Resource temporarily unavailable"
    limit_processes(limited.process.pid, many)
    assert limited.pod(plan).hello == messages.Hello(())


def test_a_supervisor_that_cannot_fork(limited: Spawner) -> None:
    pod = limited.pod()
    running = pod.start(FOREVER)
    supervisor = supervised.supervisor_of(running)
    many = str(resource.getrlimit(resource.RLIMIT_NPROC)[1])
    limit_processes(supervisor, "0")
    before = len(list(Path(f"/proc/{supervisor}/fd").iterdir()))
    refusals = [pod.not_started(pod.begin("true")) for _ in range(3)]
    assert {each.message for each in refusals} == {
        "cannot start: [Errno 11] Resource temporarily unavailable"
    }
    assert {each.is_command for each in refusals} == {False}
    assert len(list(Path(f"/proc/{supervisor}/fd").iterdir())) == before
    limit_processes(supervisor, many)
    assert pod.ended(pod.start("exit 2")).exit_code == 2
    assert supervised.marked(running)


def test_an_init_that_cannot_fork(pod: Pod, spawner: Spawner) -> None:
    run_id = pod.begin("true", limits=Limits(processes=1))
    if not spawner.ready.isolates or spawner.folder.stat().st_uid:
        pytest.skip("not held by a cgroup here")
    refusal = pod.not_started(run_id)
    assert refusal.message == "cannot fork: Resource temporarily unavailable"


def test_a_container_cannot_have_more_processes_than_it_may(pod: Pod, spawner: Spawner) -> None:
    script = "i=0; while [ $i -lt 60 ]; do sleep 100000 & i=$((i+1)); done; echo all; wait"
    run_id = pod.start(script, limits=Limits(processes=20))
    end = pod.ended(run_id)
    assert end.exit_code != 0
    assert "all" not in [text for _, text in pod.log(run_id)]
    assert pod.ended(pod.start("exit 2")).exit_code == 2


# A process that was added to a container


def test_an_exec_ends_with_its_container(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sleep", "100000")
    pod.signal(run_id, signal.SIGKILL)
    pod.ended(run_id)
    assert shell.output() == [b"", b""]
    assert shell.exit_code() == 137
    shell.close()


def test_an_exec_ends_with_the_init_of_its_container(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    shell = pod.execute(run_id, "sleep", "100000")
    supervised.kill(supervised.init_of(run_id))
    pod.ended(run_id)
    assert shell.output() == [b"", b""]
    assert shell.exit_code() == 137
    shell.close()


def test_the_exec_of_one_daemon_is_not_taken_for_that_of_the_next(pod: Pod, word: str) -> None:
    """Each daemon counts its calls from 1."""
    run_id = pod.start(FOREVER)
    execute = messages.Execute(1, run_id, (b"sleep", word.encode()))
    pod.channel.send(execute)
    pod.hear(messages.Opened)
    pod.disconnect()
    pod.connect()
    pod.channel.send(messages.Execute(1, run_id, (b"sh", b"-c", b"read -r _; exit 5")))
    pod.hear(messages.Opened)
    for pid in sleeping(word):
        os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: not sleeping(word))
    os.write(pod.came_with(1)[0], b"\n")
    assert pod.hear(messages.Exited).exit_code == 5


@pytest.mark.parametrize(("host", "port"), [("windlass-none.invalid", 80), ("127.0.0.1", 70000)])
def test_an_address_that_is_none_is_refused(doomed: Spawner, host: str, port: int) -> None:
    """A probe may name any."""
    pod = doomed.pod()
    run_id = pod.start(FOREVER)
    assert pod.refusal(lambda call: messages.Connect(call, port, host))
    assert supervised.marked(run_id)
    assert pod.ended(pod.start("exit 2")).exit_code == 2
