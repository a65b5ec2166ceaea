"""The pods' own network, made for real: by root, where the tests run as root, and by an ordinary user.

A way out is tried with each program that is installed; the outside is an address of this machine, and for NAT a
machine that the test makes of two namespaces.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_spawner
import msgspec
import pytest

from windlass.localcluster.sandbox.network import bridge, links, masquerade, netlink, netns_exec

pytestmark = [
    pytest.mark.pods,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces"),
]

NOBODY = 65534
PATIENCE_SECONDS = 60
USERS = ["root", "user"]
PROGRAMS = {"pasta": "passt", "slirp4netns": "slirp4netns"}
"""Programs and their Debian packages."""
GET_TABLES = 10 << 8 | 1


class Actor:
    """The process that plays the spawner, and what it said first."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said = self._heard()

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, *words: str) -> Any:
        self.begin(*words)
        return self._heard()

    def begin(self, *words: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def ask(self, listener: socket.socket, address: str) -> Any:
        """A pod that connects to a listener of the test's."""
        host, port = listener.getsockname()
        self.begin("ask", address, host, str(port))
        listener.settimeout(PATIENCE_SECONDS)
        connection, _ = listener.accept()
        with connection:
            connection.send(b"outside")
        return self._heard()

    def end(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.communicate(timeout=PATIENCE_SECONDS)

    def _heard(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the actor has ended"
        return json.loads(line)


Start = Callable[..., Actor]


@pytest.fixture
def start() -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def started(mode: str, **more: Any) -> Actor:
            plan = fake_spawner.Plan(bridge.Mode(mode), **more)
            passed = [each for each in (plan.machine, plan.hub, plan.user_namespace) if each is not None]
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, fake_spawner.__file__, msgspec.json.encode(plan).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=passed,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return Actor(process)

        yield started


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest, start: Start) -> int:
    if request.param == "root" and os.getuid() != 0:
        pytest.skip("not root")
    number = 0 if request.param == "root" else os.getuid() or NOBODY
    try:
        said = start("isolated", user=number).said
    except AssertionError:
        pytest.skip("this user may have no namespaces here")
    if "error" in said:
        pytest.skip(said["error"])
    return number


def test_pods_reach_each_other_and_the_gateway(start: Start, user: int) -> None:
    actor = start("isolated", user=user)
    port = str(actor.order("listen"))
    assert actor.order("serve", "10.86.0.2")
    assert actor.order("serve", "10.86.255.254")
    assert actor.order("ask", "10.86.7.7", "10.86.0.2", "7000") == "10.86.0.2"
    assert actor.order("ask", "10.86.7.8", "10.86.255.254", "7000") == "10.86.255.254"
    assert actor.order("ask", "10.86.7.7", "10.86.0.1", port) == "gateway"
    assert actor.order("ask", "10.86.7.7", "127.0.0.1", port) == "[Errno 111] Connection refused"


def test_pod_takes_over_the_address_of_a_terminating_pod(start: Start, user: int) -> None:
    actor = start("isolated", user=user)
    first = actor.order("serve", "10.86.0.2")
    assert actor.order("ask", "10.86.0.3", "10.86.0.2", "7000") == "10.86.0.2"
    assert actor.order("serve", "10.86.0.2") != first
    os.kill(int(first), signal.SIGKILL)
    assert actor.order("ask", "10.86.0.3", "10.86.0.2", "7000") == "10.86.0.2"


@pytest.mark.parametrize("program", PROGRAMS)
def test_uplink_through_a_program(start: Start, user: int, program: str, tmp_path: Path) -> None:
    actor = start("auto", user=user, programs=only(program, tmp_path))
    assert actor.said["way_out"] == program, actor.said
    assert actor.said["reason"] == ""
    with socket.create_server((own_address(), 0)) as outside:
        assert actor.ask(outside, "10.86.0.2") == "outside"
        assert actor.ask(outside, "10.86.0.3") == "outside"


@pytest.mark.parametrize("program", [*PROGRAMS, ""])
def test_killed_spawner_leaves_nothing_behind(start: Start, user: int, program: str, tmp_path: Path) -> None:
    before = socket.if_nameindex(), Path("/proc/net/fib_trie").read_text()
    actor = start("isolated", user=user, programs=only(program, tmp_path))
    assert actor.said["way_out"] == program, actor.said["reason"]
    assert actor.order("serve", "10.86.0.2")
    processes = family(actor.pid)
    namespaces = {namespace_of(pid) for pid in processes} - {namespace_of(os.getpid())}
    assert len(processes) >= (5 if program else 2)
    assert namespaces
    actor.end()
    wait_until(lambda: not any(is_there(pid) for pid in processes))
    assert not namespaces & {namespace_of(int(each.name)) for each in Path("/proc").glob("[0-9]*")}
    assert (socket.if_nameindex(), Path("/proc/net/fib_trie").read_text()) == before


@pytest.mark.parametrize("program", [*PROGRAMS, ""])
def test_next_spawner_adopts_running_pods(start: Start, user: int, program: str, tmp_path: Path) -> None:
    programs = only(program, tmp_path)
    earlier = start("isolated", user=user, programs=programs)
    survivor = int(earlier.order("outlive", "10.86.0.2"))
    try:
        hub = os.open(f"/proc/{survivor}/fd/{earlier.said['hub']}", os.O_RDONLY)
        user_namespace = os.open(f"/proc/{survivor}/ns/user", os.O_RDONLY)
        earlier.end()
        actor = start("auto", user=user, programs=programs, hub=hub, user_namespace=user_namespace)
        os.close(hub)
        os.close(user_namespace)
        assert actor.said["way_out"] == program, actor.said["reason"]
        assert actor.order("ask", "10.86.0.3", "10.86.0.2", "7000") == "10.86.0.2"
        assert actor.order("ask", "10.86.0.3", "10.86.0.1", str(actor.order("listen"))) == "gateway"
        if program:
            with socket.create_server((own_address(), 0)) as outside:
                assert actor.ask(outside, "10.86.0.4") == "outside"
    finally:
        os.kill(survivor, signal.SIGKILL)
    wait_until(lambda: not is_there(survivor))


HOST_NETWORK = "pods share the host network (install `passt` to isolate them)"
NO_UPLINK = "pods cannot reach other networks: pasta: not installed; slirp4netns: not installed; NAT: "


@pytest.mark.parametrize(
    ("mode", "kind", "reason"),
    [
        ("auto", "shared", HOST_NETWORK),
        ("isolated", "reason", NO_UPLINK),
        ("shared", "shared", "requested"),
    ],
)
def test_without_an_uplink(start: Start, user: int, mode: str, kind: str, reason: str) -> None:
    said = start(mode, user=user).said
    assert said[kind].startswith(reason)
    assert reason != NO_UPLINK or said[kind].endswith("Install `passt` or `slirp4netns`.")


@pytest.mark.parametrize(
    ("mode", "kind", "reason"),
    [
        ("auto", "shared", "pods share the host network: unshare"),
        ("isolated", "error", "[Errno 1] unshare"),
        ("shared", "shared", "requested"),
    ],
)
def test_without_namespaces(start: Start, mode: str, kind: str, reason: str) -> None:
    said = start(mode, user=os.getuid() or NOBODY, has_namespaces=False).said
    assert list(said) == [kind]
    assert said[kind].startswith(reason)


def test_failure_of_a_program_is_reported(start: Start, user: int, tmp_path: Path) -> None:
    program = tmp_path / "pasta"
    program.write_text("#!/bin/sh\necho something is missing >&2\nexit 1\n")
    program.chmod(0o755)
    let_others_in(tmp_path)
    own_address()
    assert (
        "pasta: something is missing; slirp4netns: not"
        in start("auto", user=user, programs=str(tmp_path)).said["shared"]
    )


class Machine(msgspec.Struct, frozen=True):
    """Two network namespaces: one for a machine, one for the rest of the world, which knows of nothing behind it."""

    namespace: int
    outside: int

    def forwards(self) -> None:
        def switched_on() -> list[int]:
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            return []

        netns_exec.run_in_namespace(self.namespace, switched_on)

    def look(self) -> tuple[list[str], int]:
        """Its links, and how many tables of packet filters it has."""

        def found() -> list[int]:
            with masquerade.connection() as filters:
                tables = len(filters.dump("tables", GET_TABLES, bytes(4)))
            file = os.memfd_create("found")
            os.write(file, json.dumps([[name for _, name in socket.if_nameindex()], tables]).encode())
            return [file]

        (file,) = netns_exec.run_in_namespace(self.namespace, found)
        names, tables = json.loads(os.pread(file, 1 << 16, 0))
        os.close(file)
        return names, tables


@pytest.fixture
def machine() -> Iterator[Machine]:
    if os.getuid() != 0:
        pytest.skip("NAT is for root")
    (outside,) = netns_exec.run_in_namespace(None, lambda: [os.open("/proc/self/ns/net", os.O_RDONLY)])

    def of_machine() -> list[int]:
        with links.connection() as netlink_connection:
            links.bring_up(netlink_connection, "lo")
            links.create_veth_pair(netlink_connection, "cable", "cable", outside)
            links.add_address(netlink_connection, "cable", "192.0.2.2", 24)
            links.add_default_route(netlink_connection, "192.0.2.1")
        return [os.open("/proc/self/ns/net", os.O_RDONLY)]

    def of_outside() -> list[int]:
        with links.connection() as netlink_connection:
            links.bring_up(netlink_connection, "cable")
            links.add_address(netlink_connection, "cable", "192.0.2.1", 24)
        return []

    try:
        (namespace,) = netns_exec.run_in_namespace(None, of_machine)
        netns_exec.run_in_namespace(outside, of_outside)
    except OSError as error:
        pytest.skip(str(error))
    yield Machine(namespace, outside)
    os.close(namespace)
    os.close(outside)


def test_nat_uplink_leaves_nothing_behind(start: Start, machine: Machine) -> None:
    machine.forwards()
    before = machine.look()
    actor = start("auto", machine=machine.namespace)
    assert actor.said["way_out"] == "NAT", actor.said
    assert machine.look() == ([*before[0], f"windlass{actor.pid}"], before[1] + 1)
    (listener,) = netns_exec.run_in_namespace(
        machine.outside, lambda: [socket.create_server(("192.0.2.1", 0)).detach()]
    )
    with socket.socket(fileno=listener) as outside:
        assert actor.ask(outside, "10.86.0.2") == "outside"
        assert actor.ask(outside, "10.86.0.3") == "outside"
    actor.end()
    wait_until(lambda: machine.look() == before)


def test_no_nat_without_ip_forwarding(start: Start, machine: Machine) -> None:
    before = machine.look()
    actor = start("isolated", machine=machine.namespace)
    assert "NAT: IP forwarding is disabled (net.ipv4.ip_forward is 0)" in actor.said["reason"]
    assert machine.look() == before


def test_no_nat_with_a_firewall_that_drops_forwarded_packets(start: Start, machine: Machine) -> None:
    machine.forwards()
    netns_exec.run_in_namespace(machine.namespace, a_dropping_chain)
    before = machine.look()
    actor = start("isolated", machine=machine.namespace)
    wanted = "NAT: the firewall drops forwarded packets (chain firewall FORWARD)"
    assert wanted in actor.said["reason"]
    assert machine.look() == before


def a_dropping_chain() -> list[int]:
    """nft add table ip firewall, and a chain in it: type filter, hook forward, policy drop."""
    number = [struct.pack("!I", each) for each in (0, 1, 2)]
    hook = netlink.nested(4, [netlink.attribute(1, number[2]), netlink.attribute(2, number[0])])
    named = netlink.text(1, "firewall")
    chain = named + netlink.text(3, "FORWARD") + hook + netlink.attribute(5, number[0])
    chain += netlink.text(7, "filter")
    ends = struct.pack("!BBH", 0, 0, 10)
    header = struct.pack("!BBH", 2, 0, 0)
    flags = netlink.CREATE | netlink.ACKNOWLEDGE
    words = [
        netlink.message(16, ends),
        netlink.message(10 << 8, header + named, flags),
        netlink.message(10 << 8 | 3, header + chain, flags),
        netlink.message(17, ends),
    ]
    with masquerade.connection() as filters:
        filters.send(b"".join(words))
        filters.wait("making a firewall", acknowledgements=2)
    return []


def only(program: str, folder: Path) -> str:
    """A folder with this program and no other."""
    if not program:
        return str(folder)
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program} (Debian package {PROGRAMS[program]})")
    if not Path("/dev/net/tun").exists():
        pytest.skip("the machine has no /dev/net/tun")
    own_address()
    (folder / program).symlink_to(found)
    let_others_in(folder)
    return str(folder)


def let_others_in(folder: Path) -> None:
    """It lies in folders of its own, how many depends on how the tests are run."""
    for each in (folder, *folder.parents):
        if each == Path(tempfile.gettempdir()):
            return
        each.chmod(0o755)


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("the machine has no route to the outside")
        return str(probe.getsockname()[0])


def family(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(family(int(child)) for child in children))


def namespace_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def is_there(pid: int) -> bool:
    """Return whether the process is running. A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)
