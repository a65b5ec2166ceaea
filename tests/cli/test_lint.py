"""`windlass lint` as a person uses it: what it prints, how it exits, and that asking for help costs nothing."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass import __version__
from windlass.cli.main import main

LAUNCHER = Path(__file__).parents[1] / "data" / "launcher"
CLEAN = LAUNCHER / "nfs-volume.yaml"
WARNED = LAUNCHER / "simple-tensorflow.yaml"
MISSPELT = LAUNCHER / "init-container.yaml"


def windlass(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.yaml"
    file.write_text(CLEAN.read_text().replace("taskNumber: 1", "taskNumber: -1"))
    return file


def test_clean() -> None:
    result = windlass("lint", CLEAN)

    assert (result.exit_code, result.stdout) == (0, "1 file, 0 errors, 0 warnings\n")


@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--strict",), 1)])
def test_warnings_count_if_strict(options: tuple[str, ...], exit_code: int) -> None:
    result = windlass("lint", *options, CLEAN, WARNED)

    *lines, summary = result.stdout.splitlines()
    assert result.exit_code == exit_code
    assert summary == "2 files, 0 errors, 2 warnings"
    assert all(line.startswith(f"{WARNED}:") and ": warning: spec.taskRoles[" in line for line in lines)
    assert len(lines) == 2


def test_misspelt_field_is_an_error_in_lint() -> None:
    """Statement 54: a warning where a Framework is run, an error where somebody asks what is wrong."""
    result = windlass("lint", MISSPELT)

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith(
        f"{MISSPELT}:32:17: error: spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts: "
    )
    assert lines[-1] == "1 file, 1 error, 4 warnings"


def test_faults(faulty: Path) -> None:
    result = windlass("lint", faulty, CLEAN)

    line, summary = result.stdout.splitlines()
    assert result.exit_code == 1
    assert line == (
        f"{faulty}:13:19: error: spec.taskRoles[0].taskNumber: "
        "found the number -1, expected an integer from 0 to 10000"
    )
    assert summary == "2 files, 1 error, 0 warnings"


def test_stdin() -> None:
    result = windlass("lint", "-", stdin=b"hello\n")

    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:1:1: error: found the string")


def test_missing_file_is_one_message(faulty: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"

    result = windlass("lint", missing, faulty)

    assert result.exit_code == 2
    assert result.stderr == f"{missing}: cannot be read: No such file or directory\n"
    assert result.stdout.splitlines()[-1] == "2 files, 1 error, 0 warnings, 1 not readable"


def test_folder(tmp_path: Path) -> None:
    result = windlass("lint", tmp_path)

    assert (result.exit_code, result.stderr) == (2, f"{tmp_path}: cannot be read: Is a directory\n")


def test_json(faulty: Path) -> None:
    result = windlass("lint", "--output", "json", faulty, WARNED)

    report = msgspec.json.decode(result.stdout)
    assert result.exit_code == 1
    assert (report["files"], report["errors"], report["warnings"], report["unreadable"]) == (2, 1, 2, [])
    assert report["faults"][0] == {
        "severity": "error",
        "file": str(faulty),
        "line": 13,
        "column": 19,
        "path": "spec.taskRoles[0].taskNumber",
        "message": "found the number -1, expected an integer from 0 to 10000",
        "rule": "",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"\xff\xfe\x00",
        b"a: [",
        b"a: &a [*a]",
        b"a:\n\tb: 1",
        b"{a: " * 2_500_000,
        b"a: .nan",
        b"? {a: 1}\n: 2",
    ],
    ids=["empty", "scalar", "binary", "not YAML", "alias", "tab", "nesting", "NaN", "key"],
)
def test_bad_input_is_one_line_and_no_traceback(data: bytes) -> None:
    result = windlass("lint", "-", stdin=data)

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [("lint",), ("lint", "--colour", "x.yaml"), ("lnt", "x.yaml")])
def test_usage(arguments: tuple[str, ...]) -> None:
    result = windlass(*arguments)

    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def test_version() -> None:
    assert windlass("--version").stdout == f"windlass, version {__version__}\n"


def test_help_names_the_commands() -> None:
    assert re.search(r"lint +Say what is wrong with files of Frameworks\.", windlass("--help").stdout)
    assert "--strict" in windlass("lint", "--help").stdout


@pytest.mark.parametrize("arguments", ["--help", "--version"])
def test_help_imports_nothing_heavy(arguments: str) -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        f"main([{arguments!r}], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in ('windlass', 'yaml', 'msgspec')))\n"
    )

    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert run.stdout.splitlines()[-1] == "['windlass', 'windlass.cli', 'windlass.cli.main']"


def test_as_a_process(faulty: Path) -> None:
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", "lint", str(faulty)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.endswith("1 file, 1 error, 0 warnings\n")
