"""A process that replaces the spawner with pods: `python fake_spawner.py PLAN`, then a line of JSON per command.

A command is a list of words, answered by one line of JSON:

    serve ADDRESS             a pod that answers connections to port 7000 with ADDRESS
    outlive ADDRESS           the same, but it outlives this process; its PID
    ask ADDRESS HOST PORT     a pod that connects, and the answer it gets
    listen                    the port of a listener at the gateway, which answers "gateway"
"""

import ctypes
import json
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.localcluster.sandbox import kernel, messages
from windlass.localcluster.sandbox.network import bridge

PORT = 7000

# Functions of the commands.
Begun = tuple[str, Callable[[], None]]


class Plan(msgspec.Struct, frozen=True):
    mode: bridge.Mode
    user: int = 0
    # Folder of the programs for internet access.
    programs: str = ""
    # Descriptor of the network that replaces the machine's.
    machine: int | None = None
    # PIDs of pods that outlive this process.
    hub: int | None = None
    user_namespace: int | None = None
    has_namespaces: bool = True


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    os.environ["PATH"] = plan.programs
    if plan.machine is not None:
        kernel.set_namespace(plan.machine)
    if plan.user != os.getuid():
        if plan.has_namespaces:
            make_tun_for_all()
        become(plan.user)
    if plan.user and plan.has_namespaces:
        enter_user_namespace(plan)
    try:
        opened = bridge.open_network("10.86.0.0/16", plan.mode, plan.hub)
    except OSError as error:
        say({"error": str(error)})
        return
    if isinstance(opened, bridge.Shared):
        say({"shared": opened.reason})
        return
    way_out = opened.uplink.name if opened.uplink else ""
    say({"hub": opened.namespace, "way_out": way_out, "reason": opened.reason, "gateway": opened.gateway})
    for line in sys.stdin:
        say(execute(opened, json.loads(line)))


def enter_user_namespace(plan: Plan) -> None:
    if plan.user_namespace is not None:
        kernel.set_namespace(plan.user_namespace)
        return
    group = os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    kernel.map_own_user(plan.user, group)


def make_tun_for_all() -> None:
    """Make /dev/net/tun accessible, as distributions do."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", "/dev/net", "tmpfs")
    os.umask(0)
    os.mknod("/dev/net/tun", 0o666 | stat.S_IFCHR, os.makedev(10, 200))


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Otherwise /proc/self would still belong to root.
    set_dumpable = 4
    ctypes.CDLL(None).prctl(set_dumpable, 1, 0, 0, 0)


def execute(pod_network: bridge.PodNetwork, order: list[str]) -> Any:
    match order:
        case ["serve", address]:
            return serving_pod(pod_network, address, ends_with_us=True)
        case ["outlive", address]:
            return serving_pod(pod_network, address, ends_with_us=False)
        case ["ask", address, host, port]:
            return pod(pod_network, address, lambda: (asked(host, int(port)), nothing))
        case ["listen"]:
            with pod_network.listen(0) as listener:
                fork(lambda: serve(listener, "gateway"))
                return listener.getsockname()[1]
    raise ValueError(order)


def serving_pod(pod_network: bridge.PodNetwork, address: str, *, ends_with_us: bool) -> str:
    def work() -> Begun:
        listener = socket.create_server((address, PORT))
        return str(os.getpid()), lambda: serve(listener, address)

    return pod(pod_network, address, work, ends_with_us=ends_with_us)


def pod(
    pod_network: bridge.PodNetwork, address: str, work: Callable[[], Begun], *, ends_with_us: bool = True
) -> str:
    """Start a pod and return what its work reports first."""
    reader, writer = os.pipe()

    def live() -> None:
        bridge.join(
            pod_network.namespace, messages.Link(address, pod_network.prefix_length, pod_network.gateway)
        )
        output, go_on = work()
        os.write(writer, output.encode())
        os.close(writer)
        go_on()

    fork(live, ends_with_us=ends_with_us)
    os.close(writer)
    with os.fdopen(reader) as output:
        return output.read()


def nothing() -> None:
    pass


def asked(host: str, port: int) -> str:
    try:
        with socket.socket() as connection:
            connection.settimeout(30)
            connection.connect((host, port))
            return connection.recv(100).decode()
    except OSError as error:
        return str(error)


def serve(listener: socket.socket, answer: str) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.send(answer.encode())


def fork(work: Callable[[], None], *, ends_with_us: bool = True) -> None:
    if os.fork():
        return
    try:
        if ends_with_us:
            kernel.set_parent_death_signal()
        else:
            # The test waits for the end of the output.
            os.dup2(2, 1)
        work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def say(word: Any) -> None:
    print(json.dumps(word), flush=True)


if __name__ == "__main__":
    main()
