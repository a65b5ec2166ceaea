"""A process that ends in any way leaves nothing behind, and its end is reported, at every level of isolation that this
machine supports."""

import contextlib
import os
import signal
import uuid

import pytest
import spawner_harness
from spawner_harness import FOREVER, Pod, Spawner

from conformance.waiting import wait_for
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.messages import Ended, Started
from windlass.localcluster.sandbox.process import container_runs, processes

pytestmark = pytest.mark.pods


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
    return [
        pid for pid in spawner_harness.with_word(word) if spawner_harness.words_of(pid).startswith("sleep")
    ]


# Signals


def test_sigterm_goes_only_to_the_main_process(pod: Pod) -> None:
    inner = "sh -c 'trap \"echo inner\" TERM; while true; do sleep 0.05; done' &"
    script = f"trap 'echo outer; exit 3' TERM; {inner} echo armed; while true; do sleep 0.05; done"
    run_id = pod.start(script)
    pod.wait_for_line(run_id, "armed")
    pod.signal(run_id, signal.SIGTERM)
    assert pod.ended(run_id).exit_code == 3
    assert [text for _, text in pod.log(run_id)] == ["armed", "outer"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM])
def test_uncaught_signal_ends_the_container(pod: Pod, number: signal.Signals) -> None:
    run_id = pod.start("exec sleep 100000")
    pod.signal(run_id, number)
    assert pod.ended(run_id).signal == number


def test_sigkill_kills_all_processes_of_the_container(pod: Pod, word: str) -> None:
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    pod.signal(run_id, signal.SIGKILL)
    assert pod.ended(run_id).signal == signal.SIGKILL
    wait_for("none", lambda: not sleeping(word))
    assert spawner_harness.marked(run_id) == []


def test_exit_of_main_process_kills_all_others(pod: Pod, word: str) -> None:
    """One of them has the container's output, which does not keep the end from being told."""
    run_id = pod.start(with_daemons(word, "read -r _; exit 4"), has_stdin=True)
    wait_for_daemons(pod, run_id, word)
    shell = pod.attach(run_id)
    os.write(shell.descriptors[1], b"\n")
    shell.close()
    assert pod.ended(run_id).exit_code == 4
    wait_for("none", lambda: not sleeping(word))


def test_containers_of_a_pod_end_independently(pod: Pod) -> None:
    one, other = pod.start(FOREVER), pod.start(FOREVER)
    pod.signal(one, signal.SIGKILL)
    assert pod.ended(one).signal == signal.SIGKILL
    assert spawner_harness.marked(other)
    pod.signal(other, signal.SIGKILL)
    assert pod.ended(other).signal == signal.SIGKILL


def test_signal_to_an_ended_container_is_ignored(pod: Pod) -> None:
    run_id = pod.start("true")
    pod.ended(run_id)
    pod.signal(run_id, signal.SIGKILL)
    pod.signal("none", signal.SIGKILL)
    assert pod.ended(pod.start("exit 2")).exit_code == 2


# The end of a pod


def test_end_kills_all_containers_of_a_pod(pod: Pod, word: str) -> None:
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    pids = spawner_harness.family(spawner_harness.supervisor_of(run_id))
    pod.channel.send(messages.End())
    assert pod.ended(run_id).signal == signal.SIGKILL
    pod.hear_the_end()
    spawner_harness.wait_until_gone(pids)
    assert sleeping(word) == []
    assert not (pod.folder / "socket").exists()
    written = container_runs.read_run(pod.folder / "containers" / run_id)
    assert written is not None
    assert isinstance(written.end, Ended)


def test_ending_pod_starts_no_container(pod: Pod) -> None:
    run_id = pod.start("trap '' TERM; " + FOREVER)
    late = pod.plan("true")
    pod.channel.send(messages.End())
    with contextlib.suppress(BrokenPipeError):  # it may be gone already
        pod.channel.send(messages.Start(late))
    pod.hear_the_end()
    assert (pod.folder / "containers" / run_id / "end").exists()
    assert not (pod.folder / "containers" / late.id).exists()


def test_last_output_of_a_pod_is_in_its_log(pod: Pod) -> None:
    run_id = pod.start("seq 100000; echo last; " + FOREVER)
    pod.wait_for_line(run_id, "last")
    pod.channel.send(messages.End())
    pod.hear_the_end()
    assert len(pod.log(run_id)) == 100001


@pytest.mark.parametrize("is_spawner_alive", [True, False])
def test_pods_end_when_the_lifeline_closes(doomed: Spawner, word: str, is_spawner_alive: bool) -> None:
    pods = [doomed.pod() for _ in range(3)]
    ids = [pod.start(with_daemons(word)) for pod in pods]
    wait_for("all", lambda: len(sleeping(word)) == 6)
    supervisors = [spawner_harness.supervisor_of(run_id) for run_id in ids]
    pids = [each for pid in supervisors for each in spawner_harness.family(pid)]
    if not is_spawner_alive:
        doomed.leave()
    assert len(sleeping(word)) == 6
    doomed.cut_lifeline()
    wait_for("none", lambda: not sleeping(word))
    spawner_harness.wait_until_gone(pids)
    for pod, run_id in zip(pods, ids, strict=True):
        written = container_runs.read_run(pod.folder / "containers" / run_id)
        assert written is not None
        assert isinstance(written.end, Ended)


# Killed


def test_killed_init_ends_its_container(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    spawner_harness.kill(spawner_harness.init_of(run_id))
    end = pod.ended(run_id)
    assert (end.exit_code, end.signal) == (0, signal.SIGKILL)
    wait_for("none", lambda: not spawner_harness.marked(run_id) and not sleeping(word))
    written = container_runs.read_run(pod.folder / "containers" / run_id)
    assert written is not None
    assert written.end == end
    assert pod.ended(pod.start("exit 2")).exit_code == 2


def test_killed_supervisor_ends_its_containers(doomed: Spawner, word: str) -> None:
    pod, other = doomed.pod(), doomed.pod()
    run_id, staying = pod.start(with_daemons(word)), other.start(FOREVER)
    wait_for_daemons(pod, run_id, word)
    supervisor = spawner_harness.supervisor_of(run_id)
    pids = spawner_harness.family(supervisor)
    spawner_harness.kill(supervisor)
    pod.hear_the_end()
    spawner_harness.wait_until_gone(pids)
    assert sleeping(word) == []
    assert spawner_harness.marked(staying)
    assert doomed.pod().hello == messages.Hello(())


@pytest.mark.parametrize("doomed", spawner_harness.WITH_NAMESPACES, indirect=True)
def test_stopped_init_ends_with_its_supervisor(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    supervisor, init = spawner_harness.supervisor_of(run_id), spawner_harness.init_of(run_id)
    pids = spawner_harness.family(supervisor)
    os.kill(init, signal.SIGSTOP)
    spawner_harness.kill(supervisor)
    spawner_harness.wait_until_gone(pids)


def test_killed_supervisor_leaves_no_starting_container(doomed: Spawner) -> None:
    """However far it has come: nothing is left of it."""
    for _ in range(10):
        pod = doomed.pod()
        supervisor = supervisor_in(doomed, pod)
        ids = [pod.begin("sleep", "100000") for _ in range(3)]
        pod.hear(Started)
        pids = spawner_harness.family(supervisor)
        spawner_harness.kill(supervisor)
        spawner_harness.wait_until_gone(pids)
        wait_for("none", lambda ids=ids: not any(map(spawner_harness.marked, ids)))  # type: ignore[misc]


def supervisor_in(spawner: Spawner, pod: Pod) -> int:
    """The newest of them."""
    run_id = pod.start(FOREVER)
    found = spawner_harness.supervisor_of(run_id)
    assert processes.ancestors(found)[0] == spawner.process.pid
    return found


def test_killed_spawner_keeps_pods_running(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    pids = spawner_harness.family(doomed.process.pid)
    spawner_harness.kill(doomed.process.pid)
    doomed.process.wait(spawner_harness.PATIENCE_SECONDS)
    with pytest.raises(EOFError):
        doomed.channel.receive()
    assert pod.ended(pod.start("exit 2")).exit_code == 2
    assert len(sleeping(word)) == 2
    pod.channel.send(messages.End())
    pod.hear_the_end()
    spawner_harness.wait_until_gone(pids)
    assert sleeping(word) == []


def test_killing_all_processes_leaves_nothing(doomed: Spawner, word: str) -> None:
    pod = doomed.pod()
    run_id = pod.start(with_daemons(word))
    wait_for_daemons(pod, run_id, word)
    pids = spawner_harness.family(doomed.process.pid)
    victims = [doomed.process.pid, spawner_harness.supervisor_of(run_id), spawner_harness.init_of(run_id)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in victims:
            os.kill(pid, number)
    if doomed.ready.has_namespaces:
        spawner_harness.wait_until_gone(pids)
        assert sleeping(word) == []
        return
    # No process was left to kill these; they are found by their marker.
    left = processes.kill_all(lambda: [*spawner_harness.marked(run_id), *sleeping(word)])
    assert left == []
