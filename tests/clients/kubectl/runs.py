"""Runs kubectl against one server, and shows its whole output when that is not as expected."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from conformance.client import SECONDS_TO_WAIT, Client
from conformance.waiting import wait_for

ServerName = Literal["embedded", "real"]

SECONDS_PER_RUN: Final = 2 * SECONDS_TO_WAIT
"""Longer than any timeout of kubectl in the tests."""


class Server(msgspec.Struct, frozen=True):
    name: ServerName
    kubeconfig: Path
    api: Client
    """For what not every kubectl can do: create namespaces and write statuses."""
    minor: int
    """The minor version: 37 for Kubernetes 1.37."""

    @property
    def is_real(self) -> bool:
        return self.name == "real"


class Outcome(msgspec.Struct, frozen=True):
    command: str
    code: int
    output: str
    errors: str

    def __str__(self) -> str:
        return f"$ {self.command}\nexit code {self.code}\n--- stdout\n{self.output}--- stderr\n{self.errors}"


class Running:
    """A running kubectl, whose output is in files that can be read at any time."""

    def __init__(self, command: str, process: subprocess.Popen[str], output: Path, errors: Path) -> None:
        self._command = command
        self._process = process
        self._output = output
        self._errors = errors

    @property
    def outcome(self) -> Outcome:
        code = self._process.poll()
        said = self._output.read_text(encoding="utf-8")
        return Outcome(self._command, -1 if code is None else code, said, self._errors.read_text("utf-8"))

    def wait_for_output(self, text: str) -> str:
        """Wait until the text is in the output or (with -v) in the log, and return the output."""

        def look() -> Outcome | None:
            has_ended = self._process.poll() is not None
            seen = self.outcome
            if text in seen.output or text in seen.errors:
                return seen
            assert not has_ended, f"it ended without saying {text!r}"
            return None

        try:
            return wait_for(f"{text!r}", look).output
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.outcome}") from error

    def wait_for_exit(self) -> Outcome:
        self._process.wait(SECONDS_PER_RUN)
        return self.outcome


class Kubectl:
    """One kubectl with a server, a namespace and a home directory, whose cache may be shared."""

    def __init__(
        self, program: Path, version: str, server: Server, namespace: str, home: Path, cache: Path
    ) -> None:
        self.version = version
        self.minor = int(version.partition(".")[2])
        self.server = server
        self.namespace = namespace
        self._program = program
        self._home = home
        home.mkdir(parents=True)
        cache.mkdir(parents=True, exist_ok=True)
        (home / ".kube").symlink_to(cache)
        config = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
        for context in config["contexts"]:
            context["context"]["namespace"] = namespace
        self._kubeconfig = home / "kubeconfig"
        self._kubeconfig.write_text(json.dumps(config), encoding="utf-8")
        self._kubeconfig.chmod(0o600)

    def run(self, *arguments: str, stdin: str = "") -> Outcome:
        """Run kubectl, whether it succeeds or fails."""
        try:
            done = subprocess.run(  # noqa: S603
                self._command(arguments),
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                env=self._environment,
                cwd=self._home,
                timeout=SECONDS_PER_RUN,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{error}: it said {error.stdout!r} and {error.stderr!r}") from error
        return Outcome(self._spelled(arguments), done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of a command, which must succeed."""
        outcome = self.run(*arguments, stdin=stdin)
        assert outcome.code == 0, f"it was to succeed: {outcome}"
        return outcome.output.rstrip("\n")

    def expect_failure(self, *arguments: str, stdin: str = "") -> str:
        """Return the error of a command, which must fail."""
        outcome = self.run(*arguments, stdin=stdin)
        assert outcome.code != 0, f"it was to fail: {outcome}"
        return outcome.errors.rstrip("\n")

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self(*arguments, "--output=json", stdin=stdin))

    def rows(self, *arguments: str) -> list[list[str]]:
        """Return the cells of a table without empty cells, with the header first."""
        return [line.split() for line in self(*arguments).splitlines()]

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        """Run kubectl in the background until the end of the `with` block at the latest."""
        output, errors = self._home / "running.stdout", self._home / "running.stderr"
        with output.open("w") as stdout, errors.open("w") as stderr:
            process = subprocess.Popen(  # noqa: S603
                self._command(arguments),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
                env=self._environment,
                cwd=self._home,
            )
        try:
            yield Running(self._spelled(arguments), process, output, errors)
        finally:
            process.kill()
            process.wait()

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [str(self._program), *arguments]

    def _spelled(self, arguments: Sequence[str]) -> str:
        return " ".join([f"kubectl-{self.version} ({self.server.name})", *arguments])

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self._home),
            "KUBECONFIG": str(self._kubeconfig),
            "PATH": os.environ.get("PATH", os.defpath),  # `kubectl diff` looks for diff there
            "LC_ALL": "C",
            "GOGC": "off",  # the process ends soon: no need to clean up
        }
