"""Measure the time of `windlass --help` and `windlass lint`, compared with a bare interpreter start.

The commands alternate, so that all are affected alike by noise; medians are reported.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from figures import Sheet, argument_parser  # next to this file

AIM_MS = 150.0
WINDLASS = str(Path(sys.executable).with_name("windlass"))
JOB = Path(__file__).parents[1] / "examples" / "digits-ps" / "job.yaml"
TASK_ROLE = """\
  - name: role{index}
    taskNumber: 2
    frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
    task:
      retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 3}}
      pod:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: python:3.11
            command: [python3, train.py]
            ports:
            - containerPort: {port}
            resources:
              limits: {{cpu: 1, memory: 1Gi}}
"""
FRAMEWORK = """\
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: hundred-lines
spec:
  taskRoles:
"""


def hundred_lines() -> str:
    """Return a typical Framework with enough roles for a hundred lines."""
    text, index = FRAMEWORK, 0
    while text.count("\n") < 100:
        text += TASK_ROLE.format(index=index, port=2000 + index)
        index += 1
    return text


def milliseconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    # As for users, with cached bytecode.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603
    return (time.perf_counter() - began) * 1000


def measured(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):  # the first run reads from disk
        for name, command in commands.items():
            taken[name].append(milliseconds(command))
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    sheet = Sheet("commands")
    sheet.title("What a person waits for; of the runs, the median:")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "framework.yaml")
        file.write_text(hundred_lines())
        found = measured(
            {
                "bare": [sys.executable, "-c", "pass"],
                "`windlass --help`": [WINDLASS, "--help"],
                "`windlass lint` of 100 lines": [WINDLASS, "lint", str(file)],
                "`windlass lint` of a job file": [WINDLASS, "lint", str(JOB)],
            },
            rounds,
        )
    bare = found.pop("bare")
    sheet.add(f"{rounds} runs: a bare start of the interpreter", bare, "ms")
    for name, taken in found.items():
        note = f"{taken:.0f} ms in all"
        sheet.add(f"{rounds} runs: {name}, more than a bare start", taken - bare, "ms", aim=AIM_MS, note=note)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
