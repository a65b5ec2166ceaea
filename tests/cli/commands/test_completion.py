"""Shell completion of commands, options, and the names of jobs and tasks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_cluster
from click.shell_completion import FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner
from operated import jobs
from scripted_cluster import Place, ScriptedCluster

from windlass.cli import name_completion
from windlass.cli.commands.completion import VARIABLE
from windlass.cli.main import COMMANDS, main


@pytest.fixture(scope="module")
def world() -> Iterator[ScriptedCluster]:
    with scripted_cluster.running(has_controller=False) as world:
        yield world


@pytest.fixture(scope="module")
def place(world: ScriptedCluster) -> Place:
    place = world.new_scripted_place()
    roles = (jobs.role("ps", 1), jobs.role("worker", 2))
    for name in ("digits", "digits-large", "mnist"):
        place.submit(jobs.framework(name, *roles))
    return place


@pytest.fixture
def at_the_place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("KUBECONFIG", str(place.kubeconfig))
    monkeypatch.setattr(name_completion, "TIMEOUT_SECONDS", 60.0)  # the machine may be busy
    return place


def completed(*words: str) -> list[str]:
    """Return the completions of the last word."""
    *before, last = words
    found = ShellComplete(main, {}, "windlass", VARIABLE).get_completions(before, last)
    return [item.value for item in found]


TASKS = ["digits-large/ps-0", "digits-large/worker-0", "digits-large/worker-1"]
CASES = {
    "a-command": (("lo",), ["local", "logs"]),
    "an-option": (("logs", "--prev"), ["--previous"]),
    "a-choice": (("logs", "--output", "j"), ["json"]),
    "jobs": (("logs", "NS", ""), ["digits", "digits-large", "mnist"]),
    "a-job": (("why", "NS", "m"), ["mnist"]),
    "no-job": (("why", "NS", "x"), []),
    "tasks-of-the-previous-argument": (("logs", "NS", "mnist", "w"), ["worker-0", "worker-1"]),
    "jobs-with-tasks": (("env", "NS", "di"), ["digits-large/", "digits/"]),
    "single-completion": (("env", "NS", "digits-"), TASKS),
    "tasks": (("exec", "NS", "digits-large/w"), TASKS[1:]),
    "no-tasks": (("env", "NS", "missing/"), []),
}


@pytest.mark.parametrize(("words", "expected"), CASES.values(), ids=CASES.keys())
def test_completions(at_the_place: Place, words: tuple[str, ...], expected: list[str]) -> None:
    given = [part for word in words for part in (("-n", at_the_place.name) if word == "NS" else (word,))]
    assert sorted(completed(*given)) == sorted(expected)


def test_commands_are_completed_without_importing_them() -> None:
    names = set(completed(""))
    assert names == set(COMMANDS)
    code = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from windlass.cli.main import main\n"
        "ShellComplete(main, {}, 'windlass', 'X').get_completions([], '')\n"
        "print(*(name for name in sys.modules if name.startswith('windlass.cli.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert set(done.stdout.split()) <= {
        "windlass.cli.main",
        "windlass.cli.errors",
        "windlass.runner.exit_codes",
    }


NO_CLUSTER = {
    "no-such-file": "/no/such/kubeconfig",
    "nothing": "",
}


@pytest.mark.parametrize("kubeconfig", NO_CLUSTER.values(), ids=NO_CLUSTER.keys())
def test_no_completions_without_a_cluster(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert completed("why", "a") == []
    assert capfd.readouterr() == ("", "")


def test_completion_times_out_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import socket

    monkeypatch.setattr(name_completion, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = tmp_path / "config"
        config.write_text(
            "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],"
            f' clusters: [{{name: a, cluster: {{server: "http://127.0.0.1:{port}"}}}}],'
            " users: [{name: a, user: {}}]}"
        )
        assert completed("why", "--kubeconfig", str(config), "") == []
    assert capfd.readouterr() == ("", "")


# Real shells


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with a `windlass` command, whose completion waits longer for the cluster: the machine may be busy."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "windlass"
    code = (
        "from windlass.cli import main, name_completion; "
        "name_completion.TIMEOUT_SECONDS = 60.0; main.main(prog_name='windlass')"
    )
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def in_bash(path: str, kubeconfig: Path, *words: str) -> list[str]:
    listed = " ".join(f"'{word}'" for word in ("windlass", *words))
    script = (
        'eval "$(windlass completion bash)"\n'
        "complete -p windlass > /dev/null || exit 3\n"
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}\n"
        "function=$(complete -p windlass | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\n"
        '$function windlass "" ""\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(  # noqa: S603
        [shutil.which("bash") or "bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes(place: Place, path: str) -> None:
    cases = {
        ("lo",): ["local", "logs"],
        ("logs", "--prev"): ["--previous"],
        ("why", "-n", place.name, "dig"): ["digits", "digits-large"],
        ("exec", "-n", place.name, "digits-large/w"): TASKS[1:],
    }
    for words, choices in cases.items():
        assert in_bash(path, place.kubeconfig, *words) == choices


@pytest.mark.parametrize(
    ("shell", "kind", "told"),
    [("zsh", ZshComplete, "plain\nmnist\n_"), ("fish", FishComplete, "plain,mnist")],
)
def test_completion_protocol_of_other_shells(
    shell: str, kind: type[ShellComplete], told: str, at_the_place: Place
) -> None:
    printed = CliRunner().invoke(main, ["completion", shell])
    assert printed.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in printed.stdout
    completion = kind(main, {}, "windlass", VARIABLE)
    found = completion.get_completions(["why", "-n", at_the_place.name], "m")
    assert [item.value for item in found] == ["mnist"]
    assert [completion.format_completion(item) for item in found] == [told]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_script_is_valid_in_its_shell(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell} (Debian package {shell})")
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    checked = subprocess.run([program, "-n", str(script)], capture_output=True, check=False, timeout=60)  # noqa: S603
    assert (script.stat().st_size > 0, checked.returncode, checked.stderr) == (True, 0, b"")


def test_unknown_shell_is_rejected() -> None:
    result = CliRunner().invoke(main, ["completion", "powershell"])
    assert result.exit_code == 2
    assert "'powershell' is not one of 'bash', 'zsh', 'fish'" in result.stderr
