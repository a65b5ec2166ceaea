"""The uplink of the pod network to other networks: pasta, slirp4netns or, for root, NAT through the host network.

Each creates the interface `uplink` in the hub, the network namespace of the bridge between the pods. Packets that leave
through it are masqueraded. Settings of the machine are not changed, and nothing remains once the spawner and the hub
have ended: pasta and slirp4netns run in a PID namespace of a helper process, the NAT table belongs to a helper process,
and the interface ends with the hub.
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
from windlass.localcluster.sandbox.process import helper_process

LINK = "uplink"
# Reserved for benchmarks (RFC 2544), so that it does not conflict with other networks.
_USER_MODE_NETWORK = "198.18.0.0/24"
_USER_MODE_GATEWAY = "198.18.0.2"
_USER_MODE_NAMESERVER = "198.18.0.3"
_USER_MODE_ADDRESS = "198.18.0.100"
_TRANSIT_NETWORKS = ipaddress.IPv4Network("198.18.0.0/15")
# A documentation address (RFC 5737). No packet is sent to it.
_UNUSED_ADDRESS = ("203.0.113.1", 9)
_TIMEOUT_SECONDS = 10.0
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_RESOLV_CONF = Path("/etc/resolv.conf")
# Upstream nameservers of systemd-resolved.
_RESOLVED = Path("/run/systemd/resolve/resolv.conf")


class Uplink(msgspec.Struct, frozen=True):
    name: str
    helper: helper_process.HelperProcess
    # Nameservers for pods if those of the machine are on its loopback.
    nameservers: tuple[str, ...] = ()


class NoUplinkError(Exception):
    """No uplink is possible. The message contains the cause for each kind of uplink."""


def open_uplink(hub: int) -> Uplink:
    """Open the first kind of uplink that works."""
    problems = []
    for name, start in _KINDS.items():
        try:
            netns_exec.run_in_namespace(hub, _delete_link)
            return start(hub)
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
    raise NoUplinkError("; ".join(problems))


def _pasta(hub: int) -> Uplink:
    program = _require_program("pasta")
    options = ["--foreground", "--quiet", "--ipv4-only", "--no-map-gw"]
    # No port forwarding in either direction.
    options += [word for direction in ("-t", "-u", "-T", "-U") for word in (direction, "none")]
    options += ["--ns-ifname", LINK, "--address", _USER_MODE_ADDRESS, "--netmask", "24"]
    options += ["--gateway", _USER_MODE_GATEWAY]
    if _has_nameserver_on_loopback():
        # Only then, because with this option pods cannot query the nameserver of the machine directly.
        options += ["--dns-forward", _USER_MODE_NAMESERVER]
    if os.geteuid() == 0:
        # Otherwise pasta switches to the user nobody, who may not enter the hub.
        options += ["--runas", "0:0"]
    return _user_mode("pasta", hub, lambda hub_path: [program, *options, "--netns", hub_path])


def _slirp(hub: int) -> Uplink:
    program = _require_program("slirp4netns")
    options = ["--disable-host-loopback", f"--cidr={_USER_MODE_NETWORK}", "--netns-type=path"]
    return _user_mode("slirp4netns", hub, lambda hub_path: [program, *options, hub_path, LINK])


def _user_mode(name: str, hub: int, command: Callable[[str], list[str]]) -> Uplink:
    """Start a program that runs in the host network and has a tap device in the hub."""
    own_address = _own_address()
    read_end, write_end = os.pipe()
    try:
        work = functools.partial(_run_and_enter_hub, hub, command, read_end, write_end)
        helper = helper_process.start(work, needed=(hub, read_end, write_end))
    finally:
        os.close(read_end)
        os.close(write_end)
    try:
        with socket.create_server((own_address, 0)) as probed:
            netns_exec.run_in_namespace(hub, functools.partial(_bring_up, helper, probed.getsockname()))
    except OSError as error:
        output = helper.last_line() if helper.has_ended() else ""
        helper.end()
        raise OSError(error.errno or 0, output or error.strerror) from error
    return Uplink(name, helper, (_USER_MODE_NAMESERVER,))


def _run_and_enter_hub(hub: int, command: Callable[[str], list[str]], read_end: int, write_end: int) -> None:
    """Start the program, then move this helper into the hub, so that /proc/<pid>/ns/net is the hub.

    The helper drops its capabilities: a program without capabilities can access only processes without capabilities.
    """
    helper_process.run_in_pid_namespace(command(f"/proc/{os.getpid()}/ns/net"), start_descriptor=read_end)
    kernel.set_namespace(hub, kernel.CLONE_NEWNET)
    kernel.drop_capabilities()
    os.write(write_end, b"!")


def _bring_up(helper: helper_process.HelperProcess, probed: tuple[str, int]) -> None:
    """Wait for the interface, configure it, and wait for a first connection through it."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    _retry(helper, deadline, functools.partial(socket.if_nametoindex, LINK))
    _configure(_USER_MODE_ADDRESS, 24, _USER_MODE_GATEWAY)
    _retry(helper, deadline, functools.partial(_try_connection, probed))


def _retry(helper: helper_process.HelperProcess, deadline: float, attempt: Callable[[], object]) -> None:
    """Repeat the attempt until it raises no OSError. Raises OSError at the deadline or when the helper has ended."""
    while not helper.has_ended(timeout=0.01):
        try:
            attempt()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(error.errno or 0, f"no connection through it ({error})") from error
    raise OSError(0, "it has ended")


def _try_connection(target: tuple[str, int]) -> None:
    with socket.socket() as connection:
        connection.settimeout(1)
        connection.connect(target)


def _configure(address: str, prefix_length: int, gateway: str) -> None:
    with links.connection() as netlink_connection, masquerade.connection() as nft_connection:
        links.bring_up(netlink_connection, LINK)
        links.add_address(netlink_connection, LINK, address, prefix_length)
        links.add_default_route(netlink_connection, gateway)
        links.enable_forwarding(netlink_connection, LINK)
        match = masquerade.leaving_by(LINK)
        masquerade.masquerade(nft_connection, "windlass", match, ends_with_connection=False)


def _nat(hub: int) -> Uplink:
    if os.geteuid() != 0:
        raise OSError(0, "needs root")
    if _FORWARDING.read_text().strip() != "1":
        raise OSError(0, "IP forwarding is disabled (net.ipv4.ip_forward is 0)")
    near, far = _transit_addresses(os.getpid())
    helper = helper_process.start(
        functools.partial(_hold_nat, hub, f"windlass{os.getpid()}", near, far), needed=(hub,)
    )
    try:
        netns_exec.run_in_namespace(hub, functools.partial(_configure, far, 30, near))
    except OSError:
        helper.end()
        raise
    return Uplink("NAT", helper, _nameservers(_RESOLVED))


def _hold_nat(hub: int, name: str, near: str, far: str) -> netlink.Connection:
    """Set up NAT. The kernel deletes the table when the helper process closes the returned connection."""
    nft_connection = masquerade.connection()
    chain = masquerade.dropping_chain(nft_connection)
    if chain:
        raise OSError(0, f"the firewall drops forwarded packets (chain {chain})")
    masquerade.masquerade(nft_connection, name, masquerade.coming_from(far), ends_with_connection=True)
    with links.connection() as netlink_connection:
        links.create_veth_pair(netlink_connection, name, LINK, hub)
        links.add_address(netlink_connection, name, near, 30)
        links.enable_forwarding(netlink_connection, name)
    return nft_connection


def _transit_addresses(pid: int) -> tuple[str, str]:
    """Return addresses for the two ends of the link. No other cluster on this machine uses them."""
    count = 1 << (30 - _TRANSIT_NETWORKS.prefixlen)
    for attempt in range(count):
        first = _TRANSIT_NETWORKS.network_address + 4 * ((pid + attempt) % count)
        if not _is_own(str(first + 1)):
            return str(first + 1), str(first + 2)
    raise OSError(0, f"no free network in {_TRANSIT_NETWORKS}")


def _is_own(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _own_address() -> str:
    """Return the machine's address on its default route. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNUSED_ADDRESS)
        except OSError as error:
            raise OSError(error.errno or 0, "the machine has no default route") from error
        return str(probe.getsockname()[0])


def _has_nameserver_on_loopback() -> bool:
    """Return whether a nameserver of the machine is on its loopback, which is the default if none is configured."""
    nameservers = _nameservers(_RESOLV_CONF)
    return not nameservers or any(name.startswith("127.") or name == "::1" for name in nameservers)


def _nameservers(resolv_conf: Path) -> tuple[str, ...]:
    """Return the nameservers in a file; none if the file cannot be read."""
    try:
        lines = resolv_conf.read_text().splitlines()
    except OSError:
        return ()
    fields = [line.split() for line in lines]
    return tuple(each[1] for each in fields if len(each) > 1 and each[0] == "nameserver")


def _delete_link() -> None:
    """Delete the interface of an earlier or failed uplink."""
    with links.connection() as netlink_connection:
        links.delete(netlink_connection, LINK)


def _require_program(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise OSError(0, "not installed")
    return path


_KINDS: dict[str, Callable[[int], Uplink]] = {"pasta": _pasta, "slirp4netns": _slirp, "NAT": _nat}
