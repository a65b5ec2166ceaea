"""`windlass run` and `windlass local` as users run them: as processes with a home folder and given files.

Whether anything of them is left is asked of `machine`.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from pods import daemons, levels, machine, specs
from pods.levels import Level, Name
from pods.machine import Process, Traces
from pods.place import Place

from conformance.client import Access, Client, Json
from conformance.waiting import wait_for

GROUP: Final = "frameworkcontroller.microsoft.com/v1"
SECONDS: Final = 240.0
"""Timeout of a command, which only a broken one reaches."""


class Done(msgspec.Struct, frozen=True):
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    def expect(self, code: int) -> "Done":
        assert self.code == code, f"expected {code}, got {self}"
        return self

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def verdict(self) -> str:
        """The last line of a run, before the place of its output."""
        return next(line for line in reversed(self.lines) if not line.startswith("output: "))

    @property
    def json_lines(self) -> list[Json]:
        """The objects of `--output json`, one per line."""
        return [json.loads(line) for line in self.lines]


class Command:
    """A running command. Like a command started by a shell, it leads its own process group."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdout: Path, stderr: Path) -> None:
        self.process = process
        self._stdout = stdout
        self._stderr = stderr

    @property
    def output(self) -> str:
        return self._stdout.read_text(errors="replace")

    def says(self, words: str) -> None:
        def look() -> bool:
            if words in self.output:
                return True
            assert self.process.poll() is None, f"it ended without {words!r}: {self.done()}"
            return False

        try:
            wait_for(f"{words!r}", look)
        except AssertionError as error:
            error.add_note(f"it has said:\n{self.output}\n{self._stderr.read_text(errors='replace')}")
            raise

    def press_ctrl_c(self) -> None:
        """A terminal tells the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """With -9, and this process alone."""
        self.process.kill()
        self.process.wait()

    def done(self) -> Done:
        """When it has ended."""
        code = self.process.wait(SECONDS)
        return Done(code, self.output, self._stderr.read_text(errors="replace"))


class Home:
    """The home directory of a user with the permissions of the level. Its processes carry a mark."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-home-"))
        self.state = self.folder / "state" / "windlass"
        self.data = self.state / "local"
        self._output_folder = Path(tempfile.mkdtemp(prefix="windlass-output-"))
        if level.user is not None:
            os.chown(self.folder, level.user, level.user)

    def windlass(self, *arguments: str | Path, given: bytes = b"") -> Done:
        """Wait for the end, and return exit code and output."""
        return self.begin(*arguments, given=given).done()

    def begin(self, *arguments: str | Path, given: bytes = b"", before: tuple[str, ...] = ()) -> Command:
        """Start a command, preceded by the words of another one, e.g. `env`."""
        name = uuid.uuid4().hex
        stdout, stderr = self._output_folder / f"{name}.out", self._output_folder / f"{name}.err"
        with tempfile.TemporaryFile() as stdin, stdout.open("wb") as out, stderr.open("wb") as err:
            stdin.write(given)
            stdin.seek(0)
            process = self.started(arguments, before, stdin=stdin, stdout=out, stderr=err)
        return Command(process, stdout, stderr)

    def started(
        self, arguments: tuple[str | Path, ...], before: tuple[str, ...] = (), **streams: Any
    ) -> "subprocess.Popen[bytes]":
        own = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.state.parent), machine.MARKER: self.mark}
        return subprocess.Popen(  # noqa: S603
            [*before, *self.level.command("-m", "windlass.cli.main", *map(str, arguments))],
            env={**self.level.surroundings(self.folder), **own},
            cwd=self.folder,
            start_new_session=True,
            **streams,
        )

    def run(self, *documents: Json, options: tuple[str | Path, ...] = ()) -> Done:
        return self.begin_run(*documents, options=options).done()

    def begin_run(
        self, *documents: Json, options: tuple[str | Path, ...] = (), before: tuple[str, ...] = ()
    ) -> Command:
        return self.begin("run", *options, self.written(*documents), before=before)

    def written(self, *documents: Json) -> Path:
        return self.file(yaml.safe_dump_all(documents))

    def file(self, text: str) -> Path:
        path = self.folder / f"{uuid.uuid4().hex}.yaml"
        path.write_text(text)
        path.chmod(0o644)
        return path

    def container(self, run: str | list[str], **fields: Any) -> Json:
        """Return a container with the mark in its environment."""
        env = [*fields.pop("env", ()), {"name": machine.MARKER, "value": self.mark}]
        return specs.container(run, env=env, **fields)

    @property
    def runs(self) -> list[str]:
        """The folders of runs, of which there is one as long as one runs."""
        folder = self.state / "runs"
        return [each.name for each in folder.iterdir() if each.is_dir()] if folder.exists() else []

    def traces(self) -> Traces:
        return machine.traces(self.mark, self.folder)

    def remove(self) -> None:
        """Whatever happened before: no process and no file stays."""
        wait_for("all processes to be killed", self._kill_marked)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._output_folder, ignore_errors=True)

    def _kill_marked(self) -> bool:
        left = machine.marked(self.mark)
        machine.kill_all(left)
        return not left


def best() -> Level:
    """Return the highest level that the user of the tests may have."""
    names: tuple[Name, ...] = ("root", "nobody", "plain")
    return levels.level(next(name for name in names if not levels.why_not(name)))


@contextlib.contextmanager
def home(level: Level) -> Iterator[Home]:
    created = Home(level)
    try:
        yield created
    finally:
        created.remove()


class Local:
    """A cluster of `windlass local`, by default in the default directory of the home."""

    def __init__(self, home: Home, data: Path | None = None) -> None:
        self.home = home
        self.data = data or home.data
        self._place = () if data is None else ("--data-dir", data)
        self._clients: list[Client] = []

    def tell(self, command: str, *options: str | Path, given: bytes = b"") -> Done:
        return self.home.windlass("local", command, *self._place, *options, given=given)

    def up(self, *options: str) -> Done:
        done = self.tell("up", *options).expect(0)
        self.connect(done.stdout)
        return done

    def connect(self, printed: str) -> None:
        """By what was printed, and by nothing else."""
        export, setting = shlex.split(printed)
        name, _, kubeconfig = setting.partition("=")
        assert (export, name) == ("export", "KUBECONFIG")
        self.client = Client(Access.of_kubeconfig(Path(kubeconfig)))
        self._clients.append(self.client)

    def status(self) -> Json:
        """Return the status of a running cluster."""
        return json.loads(self.tell("status", "--output", "json").expect(0).stdout)

    def daemon(self) -> Process:
        pid = self.status()["pid"]
        return next(each for each in machine.marked(self.home.mark) if each.pid == pid)

    def kill(self) -> None:
        """The daemon, with -9, and it alone."""
        daemon = self.daemon()
        daemon.kill()
        wait_for("the daemon to be dead", lambda: not daemon.is_alive)

    def new_place(self) -> Place:
        return daemons.new_place(self.client, {machine.MARKER: self.home.mark})

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.tell("down")


@contextlib.contextmanager
def local(home: Home, *options: str, data: Path | None = None) -> Iterator[Local]:
    created = Local(home, data)
    try:
        created.up(*options)
        yield created
    finally:
        created.close()


def role(container: Json, name: str = "worker", tasks: int = 1, retries: int = 0, **pod: Any) -> Json:
    """Return a role that completes the job when all its tasks have succeeded, and fails it with the first failure."""
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        **pod,
    }
    return {
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": tasks},
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": retries},
            "pod": {"spec": spec},
        },
    }


def framework(*roles: Json, name: str = "job", **spec: Any) -> Json:
    return {
        "apiVersion": GROUP,
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {"executionType": "Start", "taskRoles": list(roles), **spec},
    }
