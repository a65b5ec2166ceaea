"""The way out of the pods' network: pasta, slirp4netns, or for root NAT through the machine's own network.

Each brings a link `uplink` into the hub, behind which the outside is; the hub masquerades what leaves by it. Nothing
of the machine's settings is changed, and nothing of an uplink outlives the spawner: pasta and slirp4netns are in a
keeper's cell, the table of NAT belongs to its keeper, and its cable ends with the hub.
"""

import functools
import ipaddress
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from windlass.localcluster.sandbox import kernel
from windlass.localcluster.sandbox.network import links, masquerade, netlink, netns_exec
from windlass.localcluster.sandbox.process import capabilities, helper_process

LINK = "uplink"
# A network reserved for measurements (RFC 2544), which is on no machine's way to anything.
_USER_MODE_NETWORK = "198.18.0.0/24"
_USER_MODE_GATEWAY = "198.18.0.2"
_USER_MODE_NAMESERVER = "198.18.0.3"
_USER_MODE_ADDRESS = "198.18.0.100"
_TRANSIT_NETWORKS = ipaddress.IPv4Network("198.18.0.0/15")
_SOMEWHERE = ("203.0.113.1", 9)
_PATIENCE_SECONDS = 10.0
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_RESOLVER = Path("/etc/resolv.conf")
# What systemd's resolver on loopback asks itself.
_RESOLVED = Path("/run/systemd/resolve/resolv.conf")


class Uplink(msgspec.Struct, frozen=True):
    name: str
    keeper: helper_process.Keeper
    # For pods, when the machine's own are on its loopback.
    nameservers: tuple[str, ...] = ()


class NoUplinkError(Exception):
    """One line that says why there is none, and what to install."""


def open_uplink(hub: int) -> Uplink:
    """The first that works, with its link in the hub."""
    problems = []
    for name, start in _WAYS.items():
        try:
            netns_exec.visit(hub, _without_link)
            return start(hub)
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
    raise NoUplinkError(f"{'; '.join(problems)}. Install passt (for pasta) or slirp4netns")


def _pasta(hub: int) -> Uplink:
    program = _found("pasta")
    options = ["--foreground", "--quiet", "--ipv4-only", "--no-map-gw"]
    # Ports of neither side appear on the other.
    options += [word for direction in ("-t", "-u", "-T", "-U") for word in (direction, "none")]
    options += ["--ns-ifname", LINK, "--address", _USER_MODE_ADDRESS, "--netmask", "24"]
    options += ["--gateway", _USER_MODE_GATEWAY]
    if _asks_the_loopback():
        # Otherwise not: what it forwards for is not answered any more to those who ask the machine's nameserver itself.
        options += ["--dns-forward", _USER_MODE_NAMESERVER]
    if os.geteuid() == 0:
        # Else it becomes nobody, who may not enter the hub.
        options += ["--runas", "0:0"]
    return _user_mode("pasta", hub, lambda hub_path: [program, *options, "--netns", hub_path])


def _slirp(hub: int) -> Uplink:
    program = _found("slirp4netns")
    options = ["--disable-host-loopback", f"--cidr={_USER_MODE_NETWORK}", "--netns-type=path"]
    return _user_mode("slirp4netns", hub, lambda hub_path: [program, *options, hub_path, LINK])


def _user_mode(name: str, hub: int, command: Callable[[str], list[str]]) -> Uplink:
    """A program that is in the machine's network as any other, and has a tap device in the hub."""
    own = _own_address()
    read_end, write_end = os.pipe()
    try:
        work = functools.partial(_run_beside_hub, hub, command, read_end, write_end)
        keeper = helper_process.keep(work, needed=(hub, read_end, write_end))
    finally:
        os.close(read_end)
        os.close(write_end)
    try:
        with socket.create_server((own, 0)) as probed:
            netns_exec.visit(hub, functools.partial(_bring_up, keeper, probed.getsockname()))
    except OSError as error:
        words = keeper.last_words() if keeper.has_ended() else ""
        keeper.end()
        raise OSError(error.errno or 0, words or error.strerror) from error
    return Uplink(name, keeper, (_USER_MODE_NAMESERVER,))


def _run_beside_hub(hub: int, command: Callable[[str], list[str]], read_end: int, write_end: int) -> None:
    """The keeper is in the hub, so that it can be named by a process. Without capabilities: a program that has
    given up most of its own may look only at a process that has no more than it."""
    helper_process.run_in_cell(command(f"/proc/{os.getpid()}/ns/net"), may_start=read_end)
    kernel.set_namespace(hub, kernel.NEW_NETWORK)
    capabilities.drop_all()
    os.write(write_end, b"!")


def _bring_up(keeper: helper_process.Keeper, probed: tuple[str, int]) -> list[int]:
    """Wait for the link, and for a first connection through it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    _wait(keeper, deadline, _look_for_link)
    _configure(_USER_MODE_ADDRESS, 24, _USER_MODE_GATEWAY)
    _wait(keeper, deadline, functools.partial(_try_connection, probed))
    return []


def _wait(keeper: helper_process.Keeper, deadline: float, look: Callable[[], None]) -> None:
    while not keeper.has_ended(timeout=0.01):
        try:
            look()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(error.errno or 0, f"nothing comes through it ({error})") from error
    raise OSError(0, "it ended at once")


def _look_for_link() -> None:
    socket.if_nametoindex(LINK)


def _try_connection(target: tuple[str, int]) -> None:
    with socket.socket() as connection:
        connection.settimeout(1)
        connection.connect(target)


def _configure(address: str, prefix_length: int, gateway: str) -> None:
    with links.connection() as route, masquerade.connection() as filters:
        links.set_up(route, LINK)
        links.add_address(route, LINK, address, prefix_length)
        links.add_default_route(route, gateway)
        links.forward(route, LINK)
        match = masquerade.leaving_by(LINK)
        masquerade.masquerade(filters, "windlass", match, ends_with_connection=False)


def _nat(hub: int) -> Uplink:
    if os.geteuid() != 0:
        raise OSError(0, "only for root")
    if _FORWARDING.read_text().strip() != "1":
        raise OSError(
            0, "the machine does not forward (net.ipv4.ip_forward is 0, which windlass leaves alone)"
        )
    near, far = _transit_addresses(os.getpid())
    keeper = helper_process.keep(
        functools.partial(_hold_nat, hub, f"windlass{os.getpid()}", near, far), needed=(hub,)
    )
    try:
        netns_exec.visit(hub, functools.partial(_configured, far, near))
    except OSError:
        keeper.end()
        raise
    return Uplink("NAT", keeper, _nameservers_of_resolved())


def _configured(address: str, gateway: str) -> list[int]:
    _configure(address, 30, gateway)
    return []


def _hold_nat(hub: int, name: str, near: str, far: str) -> netlink.Connection:
    """The table ends with the connection, which the keeper holds."""
    filters = masquerade.connection()
    chain = masquerade.dropping_chain(filters)
    if chain:
        raise OSError(0, f"the machine's firewall drops what it forwards (chain {chain})")
    masquerade.masquerade(filters, name, masquerade.coming_from(far), ends_with_connection=True)
    with links.connection() as route:
        links.make_pair(route, name, LINK, hub)
        links.add_address(route, name, near, 30)
        links.forward(route, name)
    return filters


def _transit_addresses(process: int) -> tuple[str, str]:
    """The two ends of the cable, unlike those of another cluster on this machine."""
    count = 1 << (30 - _TRANSIT_NETWORKS.prefixlen)
    for attempt in range(count):
        first = _TRANSIT_NETWORKS.network_address + 4 * ((process + attempt) % count)
        if not _is_own(str(first + 1)):
            return str(first + 1), str(first + 2)
    raise OSError(0, f"no network is free in {_TRANSIT_NETWORKS}")


def _is_own(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _own_address() -> str:
    """Which address of the machine leads to the outside; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError as error:
            raise OSError(error.errno or 0, "the machine has no route to the outside") from error
        return str(probe.getsockname()[0])


def _asks_the_loopback() -> bool:
    """Whether the machine's nameservers cannot be asked from another network. Without any, it asks its loopback."""
    try:
        lines = _RESOLVER.read_text().splitlines()
    except OSError:
        return True
    words = (line.split() for line in lines)
    named = [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"]
    return not named or any(name.startswith("127.") or name == "::1" for name in named)


def _nameservers_of_resolved() -> tuple[str, ...]:
    try:
        lines = _RESOLVED.read_text().splitlines()
    except OSError:
        return ()
    words = [line.split() for line in lines]
    return tuple(each[1] for each in words if len(each) > 1 and each[0] == "nameserver")


def _without_link() -> list[int]:
    """What an uplink of an earlier spawner left, or one that did not work."""
    with links.connection() as route:
        links.delete(route, LINK)
    return []


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise OSError(0, "not installed")
    return path


_WAYS: dict[str, Callable[[int], Uplink]] = {"pasta": _pasta, "slirp4netns": _slirp, "NAT": _nat}
