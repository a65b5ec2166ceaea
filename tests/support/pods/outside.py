"""A server outside of the machine: in a network namespace that is linked to the machine. Needs root."""

import contextlib
import ipaddress
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.waiting import wait_for

PORT: Final = 7777
WORDS: Final = "hello from outside"
# A network that is reserved for tests.
SPACE: Final = ipaddress.ip_network("198.19.0.0/16")
SERVE: Final = f"""
import ctypes, signal, socket
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
with socket.create_server(("0.0.0.0", {PORT})) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall({WORDS.encode()!r})
"""


@contextlib.contextmanager
def somebody() -> Iterator[str]:
    """Yield the address of a server that sends WORDS to every client at PORT."""
    start = int(SPACE.network_address) + 4 * random.randrange(SPACE.num_addresses // 4)
    here, there = (str(ipaddress.ip_address(start + offset)) for offset in (1, 2))
    wire = f"wt{uuid.uuid4().hex[:10]}"
    command = ["unshare", "--net", sys.executable, "-c", SERVE]
    with subprocess.Popen(command) as server:  # noqa: S603
        try:
            network = Path(f"/proc/{server.pid}/ns/net")
            wait_for("its network", lambda: network.readlink() != Path("/proc/self/ns/net").readlink())
            inside = ("nsenter", "--target", str(server.pid), "--net")
            _do("ip", "link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", str(server.pid))
            _do("ip", "addr", "add", f"{here}/30", "dev", wire)
            _do("ip", "link", "set", wire, "up")
            _do(*inside, "ip", "addr", "add", f"{there}/30", "dev", "eth0")
            _do(*inside, "ip", "link", "set", "lo", "up")
            _do(*inside, "ip", "link", "set", "eth0", "up")
            _do(*inside, "ip", "route", "add", "default", "via", here)
            yield there
        finally:
            server.kill()  # and the wire goes with its network


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
