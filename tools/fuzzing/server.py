"""The server under test: a process with a data folder, which can be killed and restarted."""

import contextlib
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import programs
from fuzzing import wire

_HISTORY = 2000
"""Short, so that watches and pages expire."""


class Server(msgspec.Struct, frozen=True):
    data: Path
    running: programs.Running
    url: str

    @property
    def socket(self) -> Path:
        return self.data / "socket"

    @property
    def local(self) -> wire.Open:
        return wire.over_socket(str(self.socket))

    @property
    def remote(self) -> wire.Open:
        context = ssl.create_default_context(cafile=str(self.data / "server.crt"))
        return wire.over_tls(self.url, context)

    @property
    def authorization(self) -> wire.Headers:
        return (("Authorization", f"Bearer {(self.data / 'token').read_text()}"),)

    @property
    def is_alive(self) -> bool:
        return self.running.process.poll() is None

    @property
    def log(self) -> str:
        return self.running.program.log.read_text(errors="replace")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run the server on a folder until the end of the block, and kill it then."""
    data = folder / "data"
    arguments = ["-m", "windlass.localcluster", "--data", data, "--socket", data / "socket"]
    program = programs.Program(
        Path(sys.executable),
        [*map(str, arguments), "--history", str(_HISTORY), "--body-seconds", "2"],
        folder,
    )
    with programs.running(program) as running:
        url = running.wait_until(lambda: _url_in(program.log.read_text()))
        yield Server(data, running, url)


def _url_in(log: str) -> str | None:
    for line in log.splitlines(keepends=True):
        if " is ready: " in line and line.endswith("\n"):
            return line.partition(" is ready: ")[0]
    return None
