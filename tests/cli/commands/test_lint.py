"""`windlass lint`: its output and its exit codes."""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from windlass import __version__
from windlass.cli.main import main
from windlass.wire.diagnostics import Rule

LAUNCHER = Path(__file__).parents[2] / "data" / "launcher"
CLEAN = LAUNCHER / "nfs-volume.yaml"
WARNED = LAUNCHER / "simple-tensorflow.yaml"
MISSPELT = LAUNCHER / "init-container.yaml"
EXAMPLES = Path(__file__).parents[3] / "examples"


def windlass(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture
def misspelt(tmp_path: Path) -> Path:
    """A file with a fixable error."""
    (tmp_path / "folder").mkdir()
    return Path(shutil.copyfile(MISSPELT, tmp_path / "folder" / "framework.yaml"))


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.yaml"
    file.write_text(CLEAN.read_text().replace("taskNumber: 1", "taskNumber: -1"))
    return file


def test_valid_file_has_no_diagnostics() -> None:
    result = windlass("lint", CLEAN)

    assert (result.exit_code, result.stdout) == (0, "1 file, 0 errors, 0 warnings\n")


@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--strict",), 1)])
def test_strict_treats_warnings_as_errors(options: tuple[str, ...], exit_code: int) -> None:
    result = windlass("lint", *options, CLEAN, WARNED)

    *lines, summary = result.stdout.splitlines()
    assert result.exit_code == exit_code
    assert summary == "2 files, 0 errors, 3 warnings"
    assert all(line.startswith(f"{WARNED}:") and ": warning: spec.taskRoles[" in line for line in lines)
    assert len(lines) == 3


def test_misspelt_field_is_an_error_in_lint() -> None:
    """Statement 54: the controller only warns about it."""
    result = windlass("lint", MISSPELT)

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith(
        f"{MISSPELT}:32:17: error: spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts: "
    )
    assert lines[-1] == "1 file, 1 error, 4 warnings"


def test_diagnostics_are_printed_with_positions(faulty: Path) -> None:
    result = windlass("lint", faulty, CLEAN)

    line, summary = result.stdout.splitlines()
    assert result.exit_code == 1
    assert line == (
        f"{faulty}:13:19: error: spec.taskRoles[0].taskNumber: "
        "found the number -1, expected an integer from 0 to 10000"
    )
    assert summary == "2 files, 1 error, 0 warnings"


def test_standard_input_is_checked() -> None:
    result = windlass("lint", "-", stdin=b"hello\n")

    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:1:1: error: found the string")


def test_missing_file_is_one_message(faulty: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"

    result = windlass("lint", missing, faulty)

    assert result.exit_code == 2
    assert result.stderr == f"cannot read {missing}: No such file or directory\n"
    assert result.stdout.splitlines()[-1] == "2 files, 1 error, 0 warnings, 1 not readable"


def test_directory_is_reported(tmp_path: Path) -> None:
    result = windlass("lint", tmp_path)

    assert (result.exit_code, result.stderr) == (2, f"cannot read {tmp_path}: Is a directory\n")


def test_json_report(faulty: Path) -> None:
    result = windlass("lint", "--output", "json", faulty, WARNED)

    report = msgspec.json.decode(result.stdout)
    assert result.exit_code == 1
    assert (report["files"], report["errors"], report["warnings"], report["unreadable"]) == (2, 1, 3, [])
    assert report["faults"][0] == {
        "severity": "error",
        "file": str(faulty),
        "line": 13,
        "column": 19,
        "path": "spec.taskRoles[0].taskNumber",
        "message": "found the number -1, expected an integer from 0 to 10000",
        "rule": "wrong-value",
        "fix": None,
    }


def test_json_fields_are_stable(misspelt: Path) -> None:
    """Fields may be added, but not removed, and their types do not change."""
    before, after = (
        msgspec.json.decode(windlass("lint", "--output", "json", *options, misspelt).stdout)
        for options in ((), ("--fix",))
    )

    for report in (before, after):
        assert {name: type(value).__name__ for name, value in report.items()} == {
            "files": "int",
            "errors": "int",
            "warnings": "int",
            "unreadable": "list",
            "unwritable": "list",
            "fixed": "list",
            "faults": "list",
        }
    assert before["faults"][0]["fix"] == {"remedy": "rename", "becomes": "volumeMounts"}
    assert {name: type(value).__name__ for name, value in before["faults"][0].items()} == {
        "severity": "str",
        "file": "str",
        "line": "int",
        "column": "int",
        "path": "str",
        "message": "str",
        "rule": "str",
        "fix": "dict",
    }
    assert after["fixed"] == [
        {
            "file": str(misspelt),
            "line": 32,
            "column": 17,
            "path": "spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts",
            "rule": "misspelt-field",
            "was": "olumeMounts",
            "becomes": "volumeMounts",
        }
    ]


def test_rule_names_are_stable() -> None:
    """Rules may be added, but not removed."""
    assert set(Rule) >= {
        *("unreadable", "empty-file", "too-many-faults", "duplicate-key", "not-json", "other-kind"),
        *("misspelt-field", "unknown-field", "missing-field", "wrong-value"),
        *(
            "duplicate-name",
            "duplicate-port",
            "long-pod-name",
            "unknown-volume",
            "undeclared-port",
            "no-port",
        ),
        *("other-framework", "never-exits", "min-failed-too-large", "min-succeeded-too-large", "no-tasks"),
        *("endless-retry", "host-path", "doubtful"),
    }


def test_fix_corrects_the_file(misspelt: Path) -> None:
    before = misspelt.read_text()
    misspelt.chmod(0o640)

    result = windlass("lint", "--fix", misspelt)

    first, *_, summary = result.stdout.splitlines()
    assert result.exit_code == 0
    assert first == (
        f"{misspelt}:32:17: fixed: spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts: "
        "olumeMounts is now volumeMounts"
    )
    assert summary == "1 file, 0 errors, 4 warnings, 1 fixed"
    assert misspelt.read_text() == before.replace("olumeMounts", "volumeMounts", 1)
    assert stat.S_IMODE(misspelt.stat().st_mode) == 0o640
    assert list(misspelt.parent.iterdir()) == [misspelt]


def test_second_fix_changes_nothing(misspelt: Path) -> None:
    windlass("lint", "--fix", misspelt)
    first = misspelt.stat().st_mtime_ns

    assert "fixed" not in windlass("lint", "--fix", misspelt).stdout
    assert misspelt.stat().st_mtime_ns == first


def test_fix_follows_a_symbolic_link(misspelt: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.yaml"
    link.symlink_to(misspelt)

    windlass("lint", "--fix", link)

    assert link.is_symlink()
    assert "olumeMounts" not in misspelt.read_text().replace("volumeMounts", "")


def test_fix_of_standard_input_prints_the_text(misspelt: Path) -> None:
    data = misspelt.read_bytes()

    result = windlass("lint", "--fix", "-", stdin=data)

    assert result.stdout_bytes == data.replace(b"olumeMounts", b"volumeMounts", 1)
    assert result.stderr.startswith("<stdin>:32:17: fixed: ")


def test_fix_of_standard_input_rejects_json() -> None:
    result = windlass("lint", "--fix", "--output", "json", "-", stdin=b"a: 1")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--output json cannot be combined" in result.stderr


def test_rejected_fix_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text('name: a\ncommand: x\nroles: {worker: {tasks: "20000"}}\n')

    result = windlass("lint", "--fix", file)

    assert result.exit_code == 1
    assert "remove the quotes (not fixed automatically: edit the file)" in result.stdout


@pytest.mark.parametrize("output", ["text", "json"])
def test_read_only_file_is_unchanged(misspelt: Path, output: str) -> None:
    before = misspelt.read_bytes()
    misspelt.chmod(0o444)

    result = windlass("lint", "--fix", "--output", output, misspelt)

    assert result.exit_code == 1
    assert f"cannot write {misspelt}: the file is read-only" in result.output
    assert "is now" not in result.output
    assert misspelt.read_bytes() == before


def test_full_disk_leaves_the_file_unchanged(misspelt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The full disk is simulated."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = misspelt.read_bytes()

    result = windlass("lint", "--fix", misspelt)

    assert result.exit_code == 1
    assert result.stderr == f"cannot write {misspelt}: No space left on device. The file is unchanged.\n"
    assert misspelt.read_bytes() == before
    assert list(misspelt.parent.iterdir()) == [misspelt]


IDLE = EXAMPLES / "clustered-tensorflow" / "notebook.yaml"
"""Its servers are idle on purpose: a notebook uses them."""


@pytest.mark.parametrize(
    "file", sorted({*EXAMPLES.glob("*/*.yaml")} - {IDLE}), ids=lambda file: str(file.relative_to(EXAMPLES))
)
def test_examples_have_no_diagnostics(file: Path) -> None:
    result = windlass("lint", "--strict", file)

    assert result.stdout == "1 file, 0 errors, 0 warnings\n"


def test_example_with_idle_servers_has_only_that_warning() -> None:
    warning, last = windlass("lint", IDLE).stdout.splitlines()
    assert last == "1 file, 0 errors, 1 warning"
    assert "no role ends by itself" in warning


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
def test_invalid_input_is_one_line_without_traceback(data: bytes) -> None:
    result = windlass("lint", "-", stdin=data)

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [("lint",), ("lint", "--colour", "x.yaml"), ("lnt", "x.yaml")])
def test_invalid_usage_is_rejected(arguments: tuple[str, ...]) -> None:
    result = windlass(*arguments)

    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def test_version_is_printed() -> None:
    assert windlass("--version").stdout == f"windlass, version {__version__}\n"


def test_help_lists_the_commands() -> None:
    assert re.search(r"lint +Check job files and Frameworks", windlass("--help").stdout)
    assert "--strict" in windlass("lint", "--help").stdout


@pytest.mark.parametrize("arguments", ["--help", "--version"])
def test_help_imports_no_slow_modules(arguments: str) -> None:
    program = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        f"main([{arguments!r}], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in ('windlass', 'yaml', 'msgspec')))\n"
    )

    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    light = [
        "windlass",
        "windlass.cli",
        "windlass.cli.errors",
        "windlass.cli.main",
        "windlass.runner",
        "windlass.runner.exit_codes",
        "windlass.startup",
    ]
    assert run.stdout.splitlines()[-1] == str(light)


def test_lint_runs_as_a_process(faulty: Path) -> None:
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "windlass.cli.main", "lint", str(faulty)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.endswith("1 file, 1 error, 0 warnings\n")
