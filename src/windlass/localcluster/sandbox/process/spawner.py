"""`python -m windlass.localcluster.sandbox.process.spawner`: fork a supervisor for every pod.

Forking a process that has loaded all modules takes a few milliseconds; starting a new interpreter takes a tenth of a
second. The spawner holds the namespaces that all pods share: a user namespace if it is needed, and the pod network. It
ends with the daemon; supervisors may outlive it.
"""

import argparse
import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import capability_probe, child_process, kernel, messages
from windlass.localcluster.sandbox.capability_probe import Capabilities
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import FromSpawner, PodPlan, ToSpawner
from windlass.localcluster.sandbox.network import bridge
from windlass.localcluster.sandbox.network.bridge import PodNetwork
from windlass.localcluster.sandbox.process import cgroups, processes
from windlass.localcluster.sandbox.process.container_runs import Isolation
from windlass.localcluster.sandbox.process.supervisor import PROCESS, SOCKET, Supervisor

SUBNET = "10.86.0.0/16"
"""The pod network. It is visible only in its namespace, so all clusters of a machine can use the same subnet."""

_CGROUP_REMOVAL_TIMEOUT_SECONDS = 20.0
_SECONDS_BETWEEN_UPLINKS = 5.0

NO_CALL = 0
"""Call number of a Rejected that is not a response: the spawner cannot start."""

PLAIN = "plain"
AUTOMATIC = "auto"


class Spawner:
    def __init__(
        self,
        control: Channel[ToSpawner],
        isolation: Isolation,
        pod_network: PodNetwork | None,
        lifeline: int | None,
    ) -> None:
        self._control = control
        self._isolation = isolation
        self._pod_network = pod_network
        self._lifeline = lifeline
        self._uplink_opened_at = time.monotonic() - _SECONDS_BETWEEN_UPLINKS

    def run(self) -> None:
        """Serve requests until the daemon has ended."""
        while True:
            self._wait_for_message()
            try:
                received = self._control.receive()
            except (EOFError, OSError):
                return
            for message, _ in received:
                match message:
                    case messages.Spawn(call=call, pod=pod):
                        self._answer(self._spawn(call, pod))
                    case messages.Listen(call=call, port=port):
                        self._listen(call, port)

    def _wait_for_message(self) -> None:
        """Wait for a request. When the uplink of the pod network ends, open a new one.

        A new uplink that ends within a few seconds is not replaced.
        """
        while self._pod_network is not None and self._pod_network.uplink is not None:
            lifeline = self._pod_network.uplink.helper.lifeline
            ready, _, _ = select.select([self._control.fileno(), lifeline], [], [])
            if lifeline not in ready:
                return
            print("the uplink of the pod network has ended", file=sys.stderr, flush=True)
            if time.monotonic() - self._uplink_opened_at < _SECONDS_BETWEEN_UPLINKS:
                self._pod_network = msgspec.structs.replace(self._pod_network, uplink=None)
                return
            self._uplink_opened_at = time.monotonic()
            self._pod_network = self._pod_network.with_new_uplink()

    def _answer(self, message: FromSpawner, *descriptors: int) -> None:
        with contextlib.suppress(OSError):
            self._control.send(message, *descriptors)

    def _listen(self, call: int, port: int) -> None:
        if self._pod_network is None:
            self._answer(messages.Rejected(call, "pods share the host network"))
            return
        try:
            with self._pod_network.listen(port) as listener:
                self._answer(messages.Opened(call), listener.fileno())
        except OSError as error:
            self._answer(messages.Rejected(call, str(error)))

    def _spawn(self, call: int, pod: PodPlan) -> FromSpawner:
        try:
            listener = _listening_in(Path(pod.folder))
        except OSError as error:
            return messages.Rejected(call, f"{pod.folder}: {error}")
        with listener:
            try:
                pid = os.fork()
            except OSError as error:
                return messages.Rejected(call, f"cannot fork: {error.strerror}")
            if pid == 0:
                child_process.run_and_exit(lambda: self._run_supervisor(pod, listener))
        try:
            (Path(pod.folder) / PROCESS).write_text(processes.identity(pid) or "", encoding="ascii")
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            return messages.Rejected(call, f"{pod.folder}: {error}")
        return messages.Done(call)

    def _run_supervisor(self, pod: PodPlan, listener: socket.socket) -> None:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        needed = {listener.fileno(), self._lifeline, self._isolation.hub_namespace}
        child_process.close_all_except({descriptor for descriptor in needed if descriptor is not None})
        Supervisor(pod, listener, self._isolation, self._lifeline).run()


def _listening_in(folder: Path) -> socket.socket:
    """Return a unix socket that listens in the directory. Its path is relative: an absolute one may be too long."""
    os.chdir(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            Path(SOCKET).unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(SOCKET)
        finally:
            os.umask(before)
        listener.listen(8)
        return listener
    finally:
        os.chdir("/")


def _isolate(
    cluster: str, level: str, mode: bridge.Mode, user_namespace: int | None, hub_namespace: int | None
) -> tuple[Isolation, PodNetwork | None, messages.Ready]:
    """Set up the isolation that the machine and the arguments allow. This process may enter another user namespace.

    `user_namespace` and `hub_namespace` are those of the pods of an earlier spawner, if there are any.
    """
    capabilities = Capabilities() if level == PLAIN else capability_probe.probe()
    has_namespaces = capabilities.can_isolate
    notes = [capabilities.reason] if capabilities.reason else []
    groups = cgroups.find(cluster)
    if capabilities.needs_user_namespace:
        _enter_user_namespace(user_namespace)
    pod_network = None
    if has_namespaces:
        opened = bridge.open_network(SUBNET, mode, hub_namespace)
        pod_network = opened if isinstance(opened, PodNetwork) else None
        if opened.reason and mode is not bridge.Mode.SHARED:
            notes.append(opened.reason)
    elif mode is bridge.Mode.ISOLATED:
        raise OSError(f"cannot isolate the network of pods: {'; '.join(notes) or 'the level is plain'}")
    isolation = Isolation(
        has_namespaces=has_namespaces,
        cgroups=groups,
        hub_namespace=pod_network.namespace if pod_network else None,
    )
    ready = messages.Ready(
        has_namespaces=has_namespaces,
        gateway=pod_network.gateway if pod_network else "",
        prefix_length=pod_network.prefix_length if pod_network else 0,
        nameservers=pod_network.nameservers if pod_network else (),
        notes=tuple(notes),
        security=capability_probe.probe_security(has_namespaces=has_namespaces),
    )
    return isolation, pod_network, ready


def _enter_user_namespace(existing: int | None) -> None:
    if existing is not None:
        kernel.set_namespace(existing, kernel.CLONE_NEWUSER)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    kernel.map_own_user(uid, gid)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m windlass.localcluster.sandbox.process.spawner", description=__doc__
    )
    parser.add_argument("--control", type=int, required=True, help="Connected unix socket.")
    parser.add_argument(
        "--lifeline", type=int, help="Read end of a pipe; all pods end when the write end is closed."
    )
    parser.add_argument("--level", choices=(AUTOMATIC, PLAIN), default=AUTOMATIC)
    parser.add_argument("--network", choices=tuple(bridge.Mode), default=bridge.Mode.AUTO)
    parser.add_argument("--user-namespace", type=int, help="User namespace of pods from an earlier spawner.")
    parser.add_argument(
        "--hub", type=int, help="Network namespace of the bridge of pods from an earlier spawner."
    )
    parser.add_argument("--cluster", required=True, help="Name of the cluster, for its cgroups.")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # The daemon handles Ctrl-C; the spawner ends with the daemon.
        signal.signal(number, signal.SIG_IGN)
    control: Channel[ToSpawner] = Channel(socket.socket(fileno=arguments.control), ToSpawner)
    try:
        isolation, pod_network, ready = _isolate(
            arguments.cluster,
            arguments.level,
            bridge.Mode(arguments.network),
            arguments.user_namespace,
            arguments.hub,
        )
        if pod_network is None:
            control.send(ready)
        else:
            user_namespace = os.open("/proc/self/ns/user", os.O_RDONLY)
            control.send(ready, user_namespace, pod_network.namespace)
            os.close(user_namespace)
    except OSError as error:
        with contextlib.suppress(OSError):
            control.send(messages.Rejected(NO_CALL, str(error)))
        return 1
    # Otherwise, garbage collections in supervisors would copy the pages of all modules.
    gc.freeze()
    # The kernel reaps supervisors that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with contextlib.suppress(msgspec.MsgspecError):
        Spawner(control, isolation, pod_network, arguments.lifeline).run()
    if arguments.lifeline is not None and isolation.cgroups is not None:
        # Killed supervisors leave cgroups behind.
        isolation.cgroups.remove_empty(_CGROUP_REMOVAL_TIMEOUT_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
