"""`windlass plan`: its output, and invalid command lines.

A case is a file in `plans/`: its first line is the command, the rest its output. `WINDLASS_REGENERATE=1` rewrites the
output. Read the difference before you commit it.
"""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from windlass.cli.main import main

ROOT = Path(__file__).parents[3]
PLANS = Path(__file__).parent / "plans"
CASES = sorted(PLANS.glob("*.yaml"))
KILLED = str(PLANS / "killed-worker.yaml")
ALL_USED_UP = str(PLANS / "exit-3-every-time.yaml")
ELASTIC = str(PLANS / "elastic.yaml")
NEVER_ENDS = str(PLANS / "never-ends.yaml")


def plan(*arguments: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], input=data)


def arguments_of(case: Path) -> list[str]:
    program, command, file, *options = shlex.split(case.read_text().splitlines()[0].removeprefix("# "))
    assert (program, command, file) == ("windlass", "plan", case.name)
    return [str(case), *options]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_output_matches_the_golden_file(case: Path) -> None:
    told, expected = plan(*arguments_of(case)), case.with_suffix(".txt")
    assert told.exit_code == 0, told.output
    if os.environ.get("WINDLASS_REGENERATE"):
        expected.write_text(told.stdout)
    assert told.stdout == expected.read_text()


def test_golden_files_exist() -> None:
    assert len(CASES) >= 14
    assert {case.stem for case in CASES} == {text.stem for text in PLANS.glob("*.txt")}


def test_output_is_reproducible() -> None:
    case = PLANS / "too-late-task.yaml"
    assert plan(*arguments_of(case)).stdout == plan(*arguments_of(case)).stdout


def documents(text: str) -> list[Any]:
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def test_json_output() -> None:
    (told,) = documents(plan(KILLED, "--inject", "kill worker-1 after 5s", "--output", "json").stdout)
    assert told["job"] == "digits"
    assert told["outcome"] == {
        "ended": True,
        "state": "Completed",
        "code": 0,
        "phrase": "Succeeded",
        "type": "Succeeded",
        "why": "worker-1: SucceededTaskCount 2 has reached MinSucceededTaskCount 2 in the TaskRole",
        "seconds": 615.0,
        "attempts": 1,
        "retries": {"counted": 0, "uncounted": 0, "tasks": 1},
        "pods": 5,
        "never": [],
    }
    injected = {"at": 7.0, "role": "worker", "tasks": [1], "state": "", "what": "injected: kill"}
    assert injected in told["events"]
    times = [event["at"] for event in told["events"]]
    assert times == sorted(times)


def test_json_has_one_document_per_job() -> None:
    told = documents(plan(str(PLANS / "two-jobs.yaml"), "--output", "json").stdout)
    assert [each["job"] for each in told] == ["first", "second"]


def test_file_is_read_from_standard_input() -> None:
    assert "digits succeeds after" in plan("-", data=Path(KILLED).read_bytes()).stdout


EXITS = {
    "success": ([KILLED], 0),
    "a code": ([ALL_USED_UP, "--inject", "exit 3 worker-0 every time"], 3),
    "a code over 255": (
        [str(PLANS / "pending-deadline.yaml"), "--inject", "delay worker-1 by 1h"],
        125,
    ),
    "no end": ([NEVER_ENDS, "--endless", "worker"], 124),
    "the second job": ([str(PLANS / "two-jobs.yaml"), "--inject", "exit 7 worker-1 every time"], 7),
}


@pytest.mark.parametrize(("arguments", "code"), EXITS.values(), ids=EXITS.keys())
def test_exit_code_is_that_of_run(arguments: list[str], code: int) -> None:
    assert plan(*arguments).exit_code == 0
    assert plan(*arguments, "--exit-code").exit_code == code


def test_task_time_per_role() -> None:
    told = plan(KILLED, "--task-time", "1h", "--task-time", "ps=30s", "--start-time", "10s").stdout
    assert [line.split()[:3] for line in told.splitlines() if "Completed" in line] == [
        ["+0:40", "ps-0..1", "Completed"],
        ["+1:00:10", "worker-0..1", "Completed"],
        ["+1:00:10", "digits", "Completed"],
    ]


WRONG = {
    "no such file": (["no-such-file.yaml"], "no-such-file.yaml: cannot be read: No such file or directory"),
    "no such role": (
        [KILLED, "--inject", "kill wroker-1"],
        '--inject: "kill wroker-1" cannot be injected: unknown role "wroker". Did you mean "worker"?',
    ),
    "no such task": (
        [KILLED, "--inject", "kill worker-2"],
        "cannot be injected: unknown task worker-2. The role worker has worker-0 to worker-1.",
    ),
    "no such fault": (
        [KILLED, "--inject", "burn worker-1"],
        '--inject: "burn worker-1" cannot be injected: unknown action "burn". Known names: kill, exit, delete, delay.',
    ),
    "no such endless role": (
        [KILLED, "--endless", "sp"],
        '--endless: unknown role "sp". Known names: ps, worker.',
    ),
    "no such role with a time": (
        [KILLED, "--task-time", "workers=5m"],
        '--task-time: unknown role "workers". Did you mean "worker"?',
    ),
    "no time": ([KILLED, "--task-time", "soon"], "--task-time: found 'soon', expected a duration such as"),
    "no time of a role": (
        [KILLED, "--task-time", "ps="],
        "--task-time: found '', expected a duration such as",
    ),
    "no start time": (
        [KILLED, "--start-time", "-1s"],
        "--start-time: found '-1s', expected a duration such as",
    ),
    "no limit": ([KILLED, "--until", "never"], "--until: found 'never', expected a duration such as"),
    "no such form": ([KILLED, "--output", "xml"], "'xml' is not one of 'text', 'json'"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG.keys())
def test_invalid_command_line_is_rejected(arguments: list[str], words: str) -> None:
    told = plan(*arguments)
    assert (told.exit_code, told.stdout) == (2, "")
    assert words in told.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file has no job and no Framework"),
        (b"a: [", "invalid YAML"),
        (Path(KILLED).read_bytes().replace(b"taskNumber", b"taskNumbr"), 'Did you mean "taskNumber"?'),
    ],
    ids=["empty", "not YAML", "a misspelt field"],
)
def test_invalid_file_is_rejected(data: bytes, words: str) -> None:
    told = plan("-", data=data)
    assert (told.exit_code, told.stdout) == (2, "")
    assert words in told.stderr


@pytest.mark.parametrize("length", ["999999999d", "999999999999"])
def test_durations_beyond_the_calendar_are_rejected(length: str) -> None:
    everything = ("--task-time", length, "--until", length, "--inject", f"kill worker-1 after {length}")
    told = plan(KILLED, *everything, "--inject", f"delay ps-0 by {length}")
    assert told.exit_code == 0, told.output
    assert "digits does not end: ps-0..1, worker-0..1 never end" in told.stdout


def test_docs_page_shows_the_output() -> None:
    page = (ROOT / "docs" / "plan.md").read_text()
    command = next(line.strip() for line in page.splitlines() if line.startswith("    windlass plan "))
    _, _, file, *options = shlex.split(command)
    told = plan(str(ROOT / file), *options)
    printed = page.partition("```text\n")[2].partition("```")[0]
    if os.environ.get("WINDLASS_REGENERATE"):
        (ROOT / "docs" / "plan.md").write_text(page.replace(printed, told.stdout, 1))
        printed = told.stdout
    assert printed == told.stdout


def test_python_example_of_the_docs_runs() -> None:
    page = (ROOT / "docs" / "plan.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert "\nassert " in example
    exec(example, {})  # noqa: S102 — it is ours


@pytest.mark.parametrize(
    ("rescale", "problem"),
    [
        ("worker=3", "expected e.g. 'worker=4 after 5m'"),
        ("wroker=3 after 5m", "unknown role"),
        ("worker=3 after soon", "--scale: "),
        ("worker=5 after 5m", "expected 1 to 4 tasks"),
    ],
)
def test_invalid_rescales_are_rejected(rescale: str, problem: str) -> None:
    told = plan(ELASTIC, "--scale", rescale)
    assert told.exit_code == 2
    assert problem in told.stderr


def test_faults_of_tasks_that_are_added_later() -> None:
    told = plan(ELASTIC, "--scale", "worker=3 after 1m", "--inject", "exit 1 worker-2 after 5s")
    assert "worker-2                             injected: exit 1" in told.stdout


def test_rescale_that_is_never_due() -> None:
    told = plan(ELASTIC, "--scale", "worker=3 after 1h")
    assert "rescale that never occurred: worker=3 after 1h" in told.stdout
