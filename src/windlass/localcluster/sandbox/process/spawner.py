"""`python -m windlass.localcluster.sandbox.process.spawner`: forks a supervisor for every pod that it is told of.

One process that has loaded all it needs forks in a few milliseconds what a new interpreter would take a tenth of a
second for. It holds the namespaces that all pods share: one user namespace where the user is not root, and the network
to which pods are linked. It ends with the daemon; the supervisors need not.
"""

import argparse
import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from windlass.localcluster.sandbox import capability_probe, kernel, messages, poll_loop
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import FromSpawner, PodPlan, ToSpawner
from windlass.localcluster.sandbox.network import bridge
from windlass.localcluster.sandbox.network.bridge import Hub
from windlass.localcluster.sandbox.process import cgroups, processes
from windlass.localcluster.sandbox.process.container_runs import Setting
from windlass.localcluster.sandbox.process.supervisor import PROCESS, SOCKET, Supervisor

SUBNET = "10.86.0.0/16"
"""Of pods on a network of their own. It is seen nowhere else, so that all clusters of a machine can have the same."""

_SECONDS_TO_CLEAR = 20.0
_SECONDS_BETWEEN_UPLINKS = 5.0

NO_CALL = 0
"""Of a refusal that answers nothing: the spawner cannot start at all."""

PLAIN = "plain"
AUTOMATIC = "auto"


class Spawner:
    def __init__(
        self, control: Channel[ToSpawner], setting: Setting, hub: Hub | None, lifeline: int | None
    ) -> None:
        self._control = control
        self._setting = setting
        self._hub = hub
        self._lifeline = lifeline
        self._opened_at = time.monotonic() - _SECONDS_BETWEEN_UPLINKS

    def run(self) -> None:
        """Until the daemon has gone."""
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
        """Meanwhile, a way out of the pods' network that has ended is opened again, though not over and over."""
        while self._hub is not None and self._hub.uplink is not None:
            lifeline = self._hub.uplink.keeper.lifeline
            ready, _, _ = select.select([self._control.fileno(), lifeline], [], [])
            if lifeline not in ready:
                return
            print("the way out of the pods' network has ended", file=sys.stderr, flush=True)
            if time.monotonic() - self._opened_at < _SECONDS_BETWEEN_UPLINKS:
                self._hub = msgspec.structs.replace(self._hub, uplink=None)
                return
            self._opened_at = time.monotonic()
            self._hub = self._hub.with_new_uplink()

    def _answer(self, message: FromSpawner, *descriptors: int) -> None:
        with contextlib.suppress(OSError):
            self._control.send(message, *descriptors)

    def _listen(self, call: int, port: int) -> None:
        if self._hub is None:
            self._answer(messages.Refused(call, "pods share the network of the machine"))
            return
        try:
            with self._hub.listen(port) as listener:
                self._answer(messages.Opened(call), listener.fileno())
        except OSError as error:
            self._answer(messages.Refused(call, str(error)))

    def _spawn(self, call: int, pod: PodPlan) -> FromSpawner:
        try:
            listener = _listening_in(Path(pod.folder))
        except OSError as error:
            return messages.Refused(call, f"{pod.folder}: {error}")
        with listener:
            try:
                pid = os.fork()
            except OSError as error:
                return messages.Refused(call, f"cannot fork: {error.strerror}")
            if pid == 0:
                self._be_supervisor(pod, listener)
        try:
            (Path(pod.folder) / PROCESS).write_text(processes.identity(pid) or "", encoding="ascii")
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            return messages.Refused(call, f"{pod.folder}: {error}")
        return messages.Done(call)

    def _be_supervisor(self, pod: PodPlan, listener: socket.socket) -> NoReturn:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            optional = (self._lifeline, self._setting.hub)
            poll_loop.close_all_but({listener.fileno(), *(each for each in optional if each is not None)})
            Supervisor(pod, listener, self._setting, self._lifeline).run()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)


def _listening_in(folder: Path) -> socket.socket:
    """The path of a unix socket must be short, and the folder's may be long: it is bound from inside."""
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


class Wanted(msgspec.Struct, frozen=True):
    """What the command line asks for. The namespaces are those of pods that an earlier spawner has left."""

    cluster: str
    level: str = AUTOMATIC
    mode: bridge.Mode = bridge.Mode.AUTO
    user_namespace: int | None = None
    hub: int | None = None


def enter(wanted: Wanted) -> tuple[Setting, Hub | None, messages.Ready]:
    """Get what this machine gives. From here on this process may be in another user namespace."""
    found = capability_probe.find_out() if wanted.level != PLAIN else None
    isolates = found is not None and found.can_isolate
    notes = [found.reason] if found is not None and not isolates else []
    groups = cgroups.find(wanted.cluster)
    if found is not None and isolates and found.needs_user_namespace:
        _enter_user_namespace(wanted.user_namespace)
    hub = None
    if isolates:
        opened = bridge.open_network(SUBNET, wanted.mode, wanted.hub)
        hub = opened if isinstance(opened, Hub) else None
        if opened.reason and wanted.mode is not bridge.Mode.SHARED:
            notes.append(opened.reason)
    elif wanted.mode is bridge.Mode.ISOLATED:
        raise OSError(f"pods cannot have a network of their own: {'; '.join(notes) or 'the level is plain'}")
    setting = Setting(isolates=isolates, cgroups=groups, hub=hub.namespace if hub else None)
    ready = messages.Ready(
        isolates=isolates,
        gateway=hub.gateway if hub else "",
        prefix_length=hub.prefix_length if hub else 0,
        nameservers=hub.nameservers if hub else (),
        notes=tuple(notes),
    )
    return setting, hub, ready


def _enter_user_namespace(of_others: int | None) -> None:
    if of_others is not None:
        kernel.set_namespace(of_others, kernel.NEW_USER)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEW_USER)
    kernel.map_own_user(uid, gid)


def _tell(control: Channel[ToSpawner], ready: messages.Ready, hub: Hub | None) -> None:
    if hub is None:
        control.send(ready)
        return
    own = os.open("/proc/self/ns/user", os.O_RDONLY)
    control.send(ready, own, hub.namespace)
    os.close(own)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m windlass.localcluster.sandbox.process.spawner", description=__doc__
    )
    parser.add_argument("--control", type=int, required=True, help="a connected unix socket")
    parser.add_argument("--lifeline", type=int, help="the read end of a pipe: at its end, all pods end")
    parser.add_argument("--level", choices=(AUTOMATIC, PLAIN), default=AUTOMATIC)
    parser.add_argument("--network", choices=tuple(bridge.Mode), default=bridge.Mode.AUTO)
    parser.add_argument("--user-namespace", type=int, help="of the pods that an earlier spawner has left")
    parser.add_argument("--hub", type=int, help="of their network")
    parser.add_argument(
        "--cluster", required=True, help="tells the cgroups of this cluster from those of others"
    )
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # A Ctrl-C at the terminal is the daemon's to answer; when it goes, so does this.
        signal.signal(number, signal.SIG_IGN)
    control: Channel[ToSpawner] = Channel(socket.socket(fileno=arguments.control), ToSpawner)
    try:
        setting, hub, ready = enter(
            Wanted(
                cluster=arguments.cluster,
                level=arguments.level,
                mode=bridge.Mode(arguments.network),
                user_namespace=arguments.user_namespace,
                hub=arguments.hub,
            )
        )
        _tell(control, ready, hub)
    except OSError as error:
        with contextlib.suppress(OSError):
            control.send(messages.Refused(NO_CALL, str(error)))
        return 1
    # Nobody waits for supervisors.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with contextlib.suppress(msgspec.MsgspecError):
        Spawner(control, setting, hub, arguments.lifeline).run()
    if arguments.lifeline is not None and setting.cgroups is not None:
        # What a supervisor has left that somebody killed.
        setting.cgroups.remove_empty(_SECONDS_TO_CLEAR)
    return 0


if __name__ == "__main__":
    sys.exit(main())
