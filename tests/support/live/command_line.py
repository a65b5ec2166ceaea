"""The command line of a user: a folder, a kubeconfig and a namespace; one process per command."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import yaml
from live import jobs

SECONDS: Final = 300.0
"""Timeout of a command."""

UNTIL_TOLD: Final = """
import os, pathlib, signal, sys, time

from parts import words

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
me = f"{os.environ['FC_TASKROLE_NAME']}-{os.environ['FC_TASK_INDEX']}"
print(words.greeting(me), flush=True)
end = pathlib.Path("/tmp/end")
while not (end.exists() and end.read_text().endswith("\\n")):
    time.sleep(0.1)
print("the end of", me, flush=True)
sys.exit(int(end.read_text()))
"""
"""A program of several files whose tasks run until they get an exit code."""

GREETING: Final = """
def greeting(who):
    return f"{who} begins"
"""

CODE: Final = {"main.py": UNTIL_TOLD, "parts/__init__.py": "", "parts/words.py": GREETING}


SHORT_GRACE: Final = {"spec": {"terminationGracePeriodSeconds": 2}}
"""The first process of a container ignores SIGTERM until it has a handler."""


class CommandResult(msgspec.Struct, frozen=True):
    code: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


class Console(msgspec.Struct, frozen=True):
    kubeconfig: Path
    namespace: str
    """Empty: the namespace of the kubeconfig's context."""
    folder: Path

    def __call__(self, command: str, *arguments: str, code: int = 0, given: bytes = b"") -> CommandResult:
        """Run a command and return its output, if it exits with that code."""
        done = subprocess.run(  # noqa: S603
            self._words(command, *arguments),
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            timeout=SECONDS,
        )
        result = CommandResult(done.returncode, done.stdout, done.stderr.decode())
        assert result.code == code, f"windlass {command} {' '.join(arguments)}: {result}"
        return result

    def message(self, command: str, *arguments: str, code: int = 1) -> str:
        """Return the error message of a failing command. Commands that change something also name the cluster."""
        result = self(command, *arguments, code=code)
        [message] = [line for line in result.errors.splitlines() if not line.startswith("cluster: ")]
        assert message.startswith("windlass: "), result
        return message

    @contextlib.contextmanager
    def started(
        self, command: str, *arguments: str, errors: IO[bytes] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a command with piped output; it ends with the block."""
        words = self._words(command, *arguments)
        with subprocess.Popen(  # noqa: S603
            words,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def completed(self, *words: str) -> list[str]:
        """Return the shell completions of the last word."""
        asked = {
            "_WINDLASS_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["windlass", *words]),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(  # noqa: S603
            [_program()], env={**self.environment, **asked}, capture_output=True, text=True, timeout=SECONDS
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment, without a width: piped output is not wrapped."""
        kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**kept, "KUBECONFIG": str(self.kubeconfig)}

    def _words(self, command: str, *arguments: str) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [_program(), command, *where, *arguments]

    # Files of the user

    def write(self, files: dict[str, str]) -> None:
        write(self.folder, files)

    def write_job(self, name: str, **fields: Any) -> str:
        """Write a job file and return its name. By default its two workers run until they are ended."""
        if "command" not in fields:
            self.write({f"src/{path}": text for path, text in CODE.items()})
            fields = {"code": "./src", "command": "python3 main.py", **fields}
        usual = {"image": jobs.IMAGE, "roles": {"worker": {"tasks": 2}}, "pod": SHORT_GRACE}
        job = {"name": name, **usual, **fields}
        self.write({f"{name}.yaml": yaml.safe_dump(job)})
        return f"{name}.yaml"

    def end(self, task: str, code: int = 0) -> None:
        """End a task of that program, e.g. job/worker-0."""
        self("exec", task, "--", "sh", "-c", f"echo {code} > /tmp/end")


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files by their paths in the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _program() -> str:
    return str(Path(sys.executable).with_name("windlass"))
