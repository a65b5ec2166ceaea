"""A supervisor that kept running reports everything to the next daemon, and the next spawner joins its network. Missing
features of the machine are reported and do not end a pod."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import spawner_harness
from pods import levels
from spawner_harness import FOREVER, Pod, Spawner

from conformance.waiting import wait_for
from windlass.localcluster.sandbox import messages
from windlass.localcluster.sandbox.messages import Ended, Limits, Started

pytestmark = pytest.mark.pods


# Others that come later


def test_later_client_gets_all_reports(pod: Pod) -> None:
    ended = pod.start("exit 3")
    pod.ended(ended)
    missing = pod.begin("windlass-none")
    pod.not_started(missing)
    dying, running = pod.start("exec sleep 100000"), pod.start(FOREVER)
    told = {run_id: started_of(pod, run_id) for run_id in (dying, running)}
    first = list(pod.received)
    pod.disconnect()
    # It goes on without a daemon, and notes what happens.
    (command,) = spawner_harness.marked(dying)
    os.kill(command, signal.SIGTERM)
    wait_for("its end", lambda: (pod.folder / "containers" / dying / "end").exists())
    pod.connect()
    known = {run.run_id: run for run in pod.hello.runs}
    assert list(known) == [ended, missing, dying, running]
    assert (known[ended].started, known[ended].end) == tuple(each for each in first if of(each) == ended)
    assert (known[missing].started, known[missing].end) == (None, *(x for x in first if of(x) == missing))
    assert known[running] == messages.RunReports(running, told[running], None)
    assert known[dying].started == told[dying]
    end = known[dying].end
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM
    pod.signal(running, signal.SIGKILL)
    assert pod.ended(running).signal == signal.SIGKILL


def of(said: object) -> str:
    return getattr(said, "run_id", "")


def started_of(pod: Pod, run_id: str) -> Started:
    return pod.hear(Started, lambda said: said.run_id == run_id)


def test_last_client_is_the_daemon(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    before = pod.channel
    pod.connect()
    with pytest.raises(EOFError):
        before.receive()
    before.close()
    pod.signal(run_id, signal.SIGKILL)
    assert pod.ended(run_id).signal == signal.SIGKILL


def test_invalid_message_ends_only_the_connection(pod: Pod) -> None:
    run_id = pod.start(FOREVER)
    pod.channel.socket.sendall(b"\0\0\0\3\0abc")
    pod.hear_the_end()
    pod.disconnect()
    pod.connect()
    assert [run.run_id for run in pod.hello.runs] == [run_id]
    assert spawner_harness.marked(run_id)


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


@pytest.fixture(params=spawner_harness.WITH_NAMESPACES)
def networked(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """A spawner whose pods have a network of their own, also where it leads nowhere."""
    if reason := levels.why_not(request.param):
        pytest.skip(reason)
    with spawner_harness.spawner(levels.level(request.param), network="isolated") as one:
        yield one


def test_next_spawner_joins_the_existing_network(networked: Spawner) -> None:
    address = "10.86.1.77"
    pod = networked.pod(networked.plan(link=messages.Link(address, 16, networked.ready.gateway)))
    run_id = pod.begin(spawner_harness.python(), "-c", ANSWER, address)
    pod.wait_for_line(run_id, "armed")
    _, (user, hub) = pod.ask(messages.Namespaces)
    seen = Path(f"/proc/{spawner_harness.supervisor_of(run_id)}/ns/user").readlink()
    networked.leave()
    level = levels.level("root" if networked.folder.stat().st_uid == 0 else "nobody")
    try:
        with spawner_harness.spawner(level, network="isolated", namespaces=(user, hub)) as later:
            assert later.ready.gateway == networked.ready.gateway
            peer = later.pod(later.plan(link=messages.Link("10.86.2.1", 16, later.ready.gateway)))
            other = peer.start(FOREVER)
            assert Path(f"/proc/{spawner_harness.supervisor_of(other)}/ns/user").readlink() == seen
            shell = peer.execute(other, spawner_harness.python(), "-c", ASK, address)
            assert shell.output() == [b"from the other pod", b""]
            shell.close()
    finally:
        os.close(user)
        os.close(hub)


# Failures


def limit_processes(pid: int, most: str) -> None:
    """Asked for by the user whose process it is: root may lack the right where it is not the machine's own."""
    user = Path(f"/proc/{pid}").stat().st_uid
    become = (
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user != os.getuid() else []
    )
    subprocess.run([*become, "prlimit", "--pid", str(pid), f"--nproc={most}:"], check=True)  # noqa: S603


@pytest.fixture
def limited() -> Iterator[Spawner]:
    """A spawner of a user with a process limit, which does not apply to root."""
    if reason := levels.why_not("nobody"):
        pytest.skip(reason)
    with spawner_harness.spawner(levels.level("nobody")) as one:
        yield one


def test_spawner_reports_failed_fork(limited: Spawner) -> None:
    plan = limited.plan()
    many = str(resource.getrlimit(resource.RLIMIT_NPROC)[1])
    limit_processes(limited.process.pid, "0")
    answer = limited.spawn(plan)
    assert isinstance(answer, messages.Rejected)
    assert answer.message == "cannot fork: Resource temporarily unavailable"
    limit_processes(limited.process.pid, many)
    assert limited.pod(plan).hello == messages.Hello(())


def test_supervisor_reports_failed_fork(limited: Spawner) -> None:
    pod = limited.pod()
    running = pod.start(FOREVER)
    supervisor = spawner_harness.supervisor_of(running)
    many = str(resource.getrlimit(resource.RLIMIT_NPROC)[1])
    limit_processes(supervisor, "0")
    before = len(list(Path(f"/proc/{supervisor}/fd").iterdir()))
    refusals = [pod.not_started(pod.begin("true")) for _ in range(3)]
    assert {each.message for each in refusals} == {
        "cannot start: [Errno 11] Resource temporarily unavailable"
    }
    assert len(list(Path(f"/proc/{supervisor}/fd").iterdir())) == before
    limit_processes(supervisor, many)
    assert pod.ended(pod.start("exit 2")).exit_code == 2
    assert spawner_harness.marked(running)


# Only root has a cgroup, which limits the processes of the container alone.
@pytest.mark.parametrize("spawner", ["root"], indirect=True)
def test_init_reports_failed_fork(pod: Pod) -> None:
    run_id = pod.begin("true", limits=Limits(processes=1))
    refusal = pod.not_started(run_id)
    assert refusal.message == "cannot fork: Resource temporarily unavailable"


def test_process_limit_of_a_container_is_enforced(pod: Pod, spawner: Spawner) -> None:
    script = "i=0; while [ $i -lt 60 ]; do sleep 100000 & i=$((i+1)); done; echo all; wait"
    run_id = pod.start(script, limits=Limits(processes=20))
    end = pod.ended(run_id)
    assert end.exit_code != 0
    assert "all" not in [text for _, text in pod.log(run_id)]
    assert pod.ended(pod.start("exit 2")).exit_code == 2
