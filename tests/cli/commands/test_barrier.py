"""`windlass barrier` as a process: its log and its exit codes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import barrier_api as apis
import gang_objects
import msgspec
import pytest
from barrier_api import Answer, Api, Watch, event, refusal
from click.testing import CliRunner

from windlass.cli.main import main
from windlass.wire import codec

SECONDS: Final = 120
OWN: Final = gang_objects.WORKER_1
OURS: Final = event("ADDED", gang_objects.stored(gang_objects.gang()))
GAPPED: Final = gang_objects.framework({"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""]})
GET_IPS: Final = Path(__file__).parents[3] / "src" / "windlass" / "barrier" / "get_ips.sh"


class Barrier:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun: list[subprocess.Popen[str]] = []

    def begin(self, api: Api, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "windlass.cli.main", "barrier", *arguments],
            env={"PATH": os.defpath, **OWN, "KUBE_APISERVER_ADDRESS": api.url, **environment},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun.append(process)
        return process


@pytest.fixture
def barrier(tmp_path: Path) -> Iterator[Barrier]:
    made = Barrier(tmp_path)
    yield made
    for process in made.begun:
        process.kill()
        process.communicate()


def test_barrier_passes_when_all_tasks_have_addresses(barrier: Barrier) -> None:
    """It prints one line while waiting, and sends one request."""
    with apis.serving(watch_gangs=[Watch((), "more")]) as api:
        process = barrier.begin(api)
        api.wait_until_asked(1)
        assert process.poll() is None
        api.push(OURS)
        out, err = process.communicate(timeout=SECONDS)
        assert api.questions == ["watch windlass.dev"]
    assert (process.returncode, out) == (0, "")
    (line,) = err.splitlines()
    assert line.startswith("windlass barrier: all 3 tasks of research/digits have addresses, after ")
    assert {each.name for each in barrier.folder.iterdir()} == {
        "framework.json",
        "injector.sh",
        "cluster.env",
        "hostfile",
        "hostfile.hydra",
        "ssh_config",
        "tf_config.json",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_sigterm_ends_the_barrier(number: signal.Signals, barrier: Barrier) -> None:
    """It ends immediately with a message and without partial files."""
    with apis.serving(watch_gangs=[Watch((), "more")]) as api:
        process = barrier.begin(api)
        api.wait_until_asked(1)
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    assert err == "windlass barrier: stopped: this pod is being deleted\n"
    assert not list(barrier.folder.iterdir())


def test_sigterm_ends_the_barrier_without_an_api_server(barrier: Barrier) -> None:
    with apis.serving() as gone:
        pass
    process = barrier.begin(gone)
    assert process.stderr is not None
    assert "does not respond" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (143, "windlass barrier: stopped: this pod is being deleted\n")


def test_deleted_framework_ends_the_barrier(barrier: Barrier) -> None:
    stored = msgspec.json.decode(codec.encode_framework(GAPPED))
    with apis.serving(
        watch_gangs=[refusal(403)], get_framework=[Answer(200, stored)], watch_framework=[Watch((), "more")]
    ) as api:
        process = barrier.begin(api)
        api.wait_until_asked(4)
        api.push(event("DELETED", stored))
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 210
    assert err.splitlines()[-1] == "windlass barrier: Framework research/digits was deleted"


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        ((), {"WINDLASS_GANG": ""}, 210, "Framework digits not found in namespace research"),
        (
            ("--framework", "tf-example"),
            {},
            210,
            "Framework tf-example not found in namespace research",
        ),
        ((), {"BARRIER_CHECK_TIMEOUT_SEC": "1201"}, 210, "expected an integer from 60 to 1200"),
        ((), {"KUBE_APISERVER_ADDRESS": "", "KUBECONFIG": "/nowhere"}, 1, "/nowhere"),
    ],
    ids=["no-framework", "another", "bad-value", "no-kubeconfig"],
)
def test_failure_has_its_exit_code(
    arguments: tuple[str, ...], environment: dict[str, str], code: int, words: str, barrier: Barrier
) -> None:
    with apis.serving() as api:
        process = barrier.begin(api, *arguments, **environment)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (code, "")
    (line,) = err.splitlines()
    assert line.startswith("windlass barrier: ")
    assert words in line


def test_options_of_the_reference_are_supported(barrier: Barrier) -> None:
    with apis.serving(watch_gangs=[Watch([OURS], "more")]) as api:
        process = barrier.begin(api, "--configfile", "configfile")
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        assert (barrier.folder / "configfile").read_text() == "10.0.0.5:2222,10.0.0.6:2222\n10.0.0.4:2222\n"


@pytest.mark.parametrize("shell", ["bash", "dash" if shutil.which("dash") else "sh"])
def test_printed_addresses_match_the_script(shell: str, barrier: Barrier, tmp_path: Path) -> None:
    """IPv6 addresses have brackets once."""
    gang = gang_objects.gang({"ps": ["fd00::4"], "worker": ["10.0.0.5", "10.0.0.6"]})
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "windlass").write_text(f'#!/bin/sh\nexec {sys.executable} -m windlass.cli.main "$@"\n')
    (programs / "windlass").chmod(0o755)
    with apis.serving(watch_gangs=[Watch([event("ADDED", gang_objects.stored(gang))], "more")]) as api:
        done = subprocess.run(  # noqa: S603
            [shell, "-c", f'. {GET_IPS} && echo "$worker_hosts $ps_hosts"'],
            env={
                **OWN,
                "PATH": f"{programs}:{os.defpath}",
                "KUBE_APISERVER_ADDRESS": api.url,
                "worker_port": "49866",
                "ps_port": "49867",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    assert done.stdout == "10.0.0.5:49866,10.0.0.6:49866 [fd00::4]:49867\n", done.stderr


def test_help_describes_the_exit_codes() -> None:
    result = CliRunner().invoke(main, ["barrier", "--help"])
    assert result.exit_code == 0
    assert all(word in result.output for word in ("201", "210", "--configfile", "--print-hosts"))
