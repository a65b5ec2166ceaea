"""The command line as a person uses it: in a folder, with a kubeconfig and a namespace, a process for each command."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from live import jobs

SECONDS: Final = 300.0
"""How long a command may take."""

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
"""A program of several files. Its tasks greet, and run until they are told what to exit with."""

GREETING: Final = """
def greeting(who):
    return f"{who} begins"
"""

CODE: Final = {"main.py": UNTIL_TOLD, "parts/__init__.py": "", "parts/words.py": GREETING}


SHORT_GRACE: Final = {"spec": {"terminationGracePeriodSeconds": 2}}
"""The first process of a container does not hear that it is to go before it listens to signals."""


class Said(msgspec.Struct, frozen=True):
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
    """Empty: that of the kubeconfig's context."""
    folder: Path

    def __call__(self, command: str, *arguments: str, code: int = 0, given: bytes = b"") -> Said:
        """What it said, once it has ended with that code."""
        done = subprocess.run(  # noqa: S603
            self._words(command, *arguments),
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            timeout=SECONDS,
        )
        said = Said(done.returncode, done.stdout, done.stderr.decode())
        assert said.code == code, f"windlass {command} {' '.join(arguments)}: {said}"
        return said

    def message(self, command: str, *arguments: str, code: int = 1) -> str:
        """The one message with which it gives up."""
        said = self(command, *arguments, code=code)
        [message] = [line for line in said.errors.splitlines() if line]
        assert message.startswith("windlass: "), said
        return message

    @contextlib.contextmanager
    def started(self, command: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Its output is a pipe. It does not outlive the block."""
        words = self._words(command, *arguments)
        with subprocess.Popen(  # noqa: S603
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def completed(self, *words: str) -> list[str]:
        """What a shell offers for the last of these words."""
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
        """Without a width: who reads a pipe minds no long lines."""
        kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**kept, "KUBECONFIG": str(self.kubeconfig)}

    def _words(self, command: str, *arguments: str) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [_program(), command, *where, *arguments]

    # What a person writes

    def write(self, files: dict[str, str]) -> None:
        write(self.folder, files)

    def write_job(self, name: str, **fields: Any) -> str:
        """The name of the job file. Without other fields its two workers run until they are told otherwise."""
        if "command" not in fields:
            self.write({f"src/{path}": text for path, text in CODE.items()})
            fields = {"code": "./src", "command": "python3 main.py", **fields}
        usual = {"image": jobs.IMAGE, "roles": {"worker": {"tasks": 2}}, "pod": SHORT_GRACE}
        job = {"name": name, **usual, **fields}
        self.write({f"{name}.yaml": yaml.safe_dump(job)})
        return f"{name}.yaml"

    def end(self, task: str, code: int = 0) -> None:
        """A task such as job/worker-0 of that program."""
        self("exec", task, "--", "sh", "-c", f"echo {code} > /tmp/end")


def write(folder: Path, files: dict[str, str]) -> None:
    """By their paths in the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _program() -> str:
    return str(Path(sys.executable).with_name("windlass"))
