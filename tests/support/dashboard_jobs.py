"""`windlass ui` as a process, and jobs to look at."""

import contextlib
import json
import os
import re
import signal
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import yaml
from pods.commands import Command, Home, Local

from conformance.waiting import wait_for

LINK: Final = re.compile(r"http://127\.0\.0\.1:(\d+)/\S*")


class Dashboard:
    """A running server."""

    def __init__(self, home: Home, options: tuple[str, ...]) -> None:
        self._home = home
        self._options = options
        self._command: Command | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> str:
        """Return the printed link, which logs in once. A restarted server has the same port."""
        command = self._home.begin("ui", "--local", "--no-open", *self._options, "--port", str(self.port))
        self._command = command
        command.says("/\n" if self._options else "code=")
        found = LINK.search(command.output)
        assert found is not None, command.output
        self.port = int(found[1])
        return found[0]

    def stop(self) -> None:
        if self._command is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._command.process.pid, signal.SIGTERM)
        self._command.process.wait()
        self._command = None


@contextlib.contextmanager
def serving(home: Home, *options: str) -> Iterator[tuple[Dashboard, str]]:
    """Start a server, and yield it with its link."""
    dashboard = Dashboard(home, options)
    try:
        yield dashboard, dashboard.start()
    finally:
        dashboard.stop()


# Jobs

TRAINING: Final = """
    import math, time
    for step in range(1, 100001):
        print(f"windlass progress {step}/100000 loss={math.exp(-step / 300):.4f}", flush=True)
        time.sleep(0.2)
"""
UNSTABLE: Final = """
    import os, time
    print("loading the data", flush=True)
    time.sleep(1)
    if os.environ["FC_TASK_INDEX"] == "1":
        print("warning: the learning rate is high", flush=True)
        raise ValueError("loss is NaN at step 17")
    time.sleep(3600)
"""
"""One of the tasks fails in each attempt."""
HOSTILE: Final = r"""
    import sys
    lines = [
        b"<img src=x onerror=\"document.title='attacked'\"><script>document.title='attacked'</script>",
        b"\x1b[31mred\x1b[0m \x1b]0;attacked\x07after",
        "\u202eright to left\u2066 \u200bhidden".encode(),
        b"nul \x00 bell \x07 bytes \xff\xfe",
        b"data: {}",
        b"long " + b"x" * 3_000_000,
        b"the last line",
    ]
    sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
"""
"""A script whose output tries to be markup, terminal sequences, a message of the server, and too long."""
FAILURES: Final = {
    "code": "raise SystemExit(3)",
    "traceback": "{}['missing']",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "aborted": "import os; os.abort()",
    "segfault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hostile": "raise SystemExit('<script>document.title=\"attacked\"</script>')",
    "missing": "import no_such_module",
    "longline": "print('x' * 200000); raise SystemExit(9)",
    "shell": "import os; raise SystemExit(os.waitstatus_to_exitcode(os.system('no-such-command')))",
    "temporary": "raise SystemExit(75)",
}
"""Ways to fail, by the name of the role."""


def python(source: str) -> str:
    """Return the command of a job that runs a Python script."""
    text = textwrap.dedent(source).replace("'", "'\"'\"'")
    return f"python3 -u -c '{text}'"


def job(name: str, source: str = "print('hello')", tasks: int = 1, **fields: Any) -> str:
    body = {"name": name, "command": python(source), "roles": {"worker": {"tasks": tasks}}, **fields}
    return yaml.safe_dump(body, sort_keys=False)


def failing_job(name: str) -> str:
    """Return a job whose tasks all fail, one of them twice. No failure ends the others."""
    roles: dict[str, Any] = {
        role: {"command": python(source), "completion": {"minFailedTaskCount": -1}}
        for role, source in FAILURES.items()
    }
    roles["temporary"]["retry"] = 1
    return yaml.safe_dump({"name": name, "roles": roles}, sort_keys=False)


def submit(local: Local, text: str, *options: str) -> None:
    local.home.windlass("submit", "--local", *options, local.home.file(text)).expect(0)


def wait_for_state(local: Local, name: str, *states: str) -> None:
    """Wait until the job has one of these states, in lower case."""

    def look() -> bool:
        done = local.home.windlass("status", "--local", name, "--output", "json")
        return done.code == 0 and json.loads(done.stdout)["verdict"] in states

    wait_for(f"{name} to be {' or '.join(states)}", look, 240)
