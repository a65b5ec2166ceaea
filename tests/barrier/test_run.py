"""The barrier from its environment to its exit code, and the files that it writes."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import barrier_api as apis
import gang_objects
import msgspec
import pytest
import unprivileged
from barrier_api import Answer, Step, Watch, event, refusal

from windlass.barrier import run as module
from windlass.barrier.run import run
from windlass.wire import codec

OWN = gang_objects.WORKER_1
Options = Mapping[str, Any]
Steps = Mapping[str, Sequence[Step]]
THERE = [Watch([event("ADDED", gang_objects.stored(gang_objects.gang()))], "more")]
FULL = msgspec.json.decode(codec.encode_framework(gang_objects.framework()))
FILES = {
    *("framework.json", "injector.sh", "cluster.env", "hostfile", "hostfile.hydra", "ssh_config"),
    "tf_config.json",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the barrier."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Ended(msgspec.Struct, frozen=True):
    code: int
    messages: list[str]


def barrier(steps: Steps, options: Options = MappingProxyType({}), **environment: str) -> Ended:
    messages: list[str] = []
    with apis.serving(steps) as api:
        variables = {**OWN, "KUBE_APISERVER_ADDRESS": api.url, **environment}
        code = run(variables, messages.append, **options)
    return Ended(code, messages)


# Exit codes: one line each


def test_barrier_writes_files_and_exits_with_0(folder: Path) -> None:
    ended = barrier({"watch_gangs": THERE})
    assert ended.code == 0
    (message,) = ended.messages
    assert message.startswith("all 3 tasks of research/digits have addresses, after ")
    assert {each.name for each in folder.iterdir()} == FILES


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances only while the barrier sleeps."""
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds: float) -> None:
        clock.now += max(seconds, 0.001)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))


@pytest.mark.usefixtures("quick")
def test_timeout_exits_with_201(folder: Path) -> None:
    """The message has a command that lists the missing tasks."""
    ended = barrier({"watch_gangs": [Watch()]}, BARRIER_CHECK_TIMEOUT_SEC="60")
    assert ended.code == 201
    (message,) = ended.messages
    assert message.startswith(
        "timed out after 60 s: not all tasks of research/digits are known to have an address"
    )
    assert "kubectl get pods -n research -l FC_FRAMEWORK_NAME=digits" in message
    assert not list(folder.iterdir())


NO_RIGHTS: Steps = {
    "watch_gangs": [refusal(403)],
    "get_launcher": [refusal(403)],
    "get_framework": [refusal(403)],
}


@pytest.mark.parametrize(
    ("steps", "environment", "code", "words"),
    [
        ({}, {"WINDLASS_GANG": ""}, 210, "Framework digits not found in namespace research"),
        ({}, {"FC_FRAMEWORK_NAME": ""}, 210, "FC_FRAMEWORK_NAME is not set"),
        ({}, {"BARRIER_CHECK_TIMEOUT_SEC": "59"}, 210, "BARRIER_CHECK_TIMEOUT_SEC: found '59'"),
        ({}, {"BARRIER_CHECK_INTERVAL_SEC": "1"}, 210, "BARRIER_CHECK_INTERVAL_SEC: found '1'"),
        ({}, {"FC_TASK_INDEX": "x"}, 210, "FC_TASK_INDEX: found 'x'"),
        ({}, {"KUBE_APISERVER_ADDRESS": ""}, 1, "no API server is configured"),
        ({}, {"KUBE_APISERVER_ADDRESS": "http://a:b"}, 1, "invalid address of an API server"),
        (NO_RIGHTS, {}, 1, "not allowed to read Framework research/digits or its Gang"),
    ],
    ids=[
        "no-framework",
        "no-identity",
        "timeout",
        "interval",
        "index",
        "no-server",
        "no-address",
        "no-rights",
    ],
)
def test_failures_have_exit_codes_and_messages(
    steps: Steps, environment: dict[str, str], code: int, words: str, folder: Path
) -> None:
    """The last line has a remedy."""
    ended = barrier(steps, {}, **environment)
    assert ended.code == code
    assert words in ended.messages[-1]
    assert len(ended.messages) == (2 if steps else 1)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["framework.json", "hostfile"])
def test_file_that_cannot_be_written_is_reported(name: str, folder: Path) -> None:
    (folder / name).mkdir()
    ended = barrier({"watch_gangs": THERE})
    assert ended == Ended(
        1,
        [f"cannot write {name}: Is a directory. Mount an emptyDir at the working directory of the barrier."],
    )


def test_deleted_folder_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ended = barrier({"watch_gangs": THERE})
    (message,) = ended.messages
    assert (ended.code, message.startswith("cannot write framework.json: ")) == (1, True)
    monkeypatch.chdir(folder)


def test_read_only_folder_is_reported(folder: Path) -> None:
    folder.chmod(0o500)
    with unprivileged.as_nobody(folder):
        ended = barrier({"watch_gangs": THERE})
    folder.chmod(0o700)
    assert ended.code == 1
    assert "Permission denied. Mount an emptyDir" in ended.messages[0]


def test_closed_output_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, write_through=True))
        ended = barrier({"watch_gangs": THERE}, {"prints_hosts": True})
    assert ended == Ended(1, ["cannot print the addresses: Broken pipe"])


# What is in the files


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def test_framework_json_is_made_from_the_gang(folder: Path) -> None:
    barrier({"watch_gangs": THERE})
    attempt = json.loads(read(folder, "framework.json"))["status"]["attemptStatus"]
    assert attempt["taskRoleStatuses"][1]["taskStatuses"][1]["attemptStatus"]["podIP"] == "10.0.0.6"


def test_framework_json_is_the_stored_framework(folder: Path) -> None:
    """Unknown fields are kept."""
    stored = {**FULL, "spec": {**FULL["spec"], "unknownField": "ü"}}
    ended = barrier({"watch_gangs": [refusal(403)], "get_framework": [Answer(200, stored)]})
    assert ended.code == 0
    assert json.loads(read(folder, "framework.json")) == stored


def test_tf_config_file_is_written(folder: Path) -> None:
    """With addresses unless TF_CONFIG is in the environment."""
    barrier({"watch_gangs": THERE})
    config = json.loads(read(folder, "tf_config.json"))
    assert config == {
        "cluster": {"ps": ["10.0.0.4:2222"], "worker": ["10.0.0.5:2222", "10.0.0.6:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    given = '{"cluster":{"worker":["127.0.0.1:20000"]},"task":{"type":"worker","index":0}}'
    barrier({"watch_gangs": THERE}, TF_CONFIG=given)
    assert read(folder, "tf_config.json") == f"{given}\n"


def test_existing_files_are_overwritten(folder: Path) -> None:
    """A restarted init container finds its own files."""
    (folder / "injector.sh").write_text("old\n" * 1000)
    assert barrier({"watch_gangs": THERE}).code == 0
    assert "old" not in read(folder, "injector.sh")


def test_files_are_readable_by_all_users(folder: Path) -> None:
    """Containers may run as other users than the barrier."""
    before = os.umask(0o022)
    try:
        barrier({"watch_gangs": THERE})
    finally:
        os.umask(before)
    assert {each.stat().st_mode & 0o444 for each in folder.iterdir()} == {0o444}


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"configfile": "sub/configfile"}, {}),
        ({}, {"BARRIER_CONFIGFILE": "sub/configfile"}),
        ({"configfile": "sub/configfile"}, {"BARRIER_CONFIGFILE": "elsewhere"}),
    ],
    ids=["option", "variable", "the-option-comes-first"],
)
def test_configfile_is_written_on_request(
    options: Options, environment: dict[str, str], folder: Path
) -> None:
    (folder / "sub").mkdir()
    assert barrier({"watch_gangs": THERE}, options, **environment).code == 0
    assert read(folder, "sub/configfile") == "10.0.0.5:2222,10.0.0.6:2222\n10.0.0.4:2222\n"
    assert {each.name for each in folder.iterdir()} == {*FILES, "sub"}


def test_configfile_that_cannot_be_written_is_reported(folder: Path) -> None:
    ended = barrier({"watch_gangs": THERE}, BARRIER_CONFIGFILE="/nowhere/configfile")
    assert ended.code == 1
    assert "cannot write /nowhere/configfile: No such file or directory" in ended.messages[0]


# Addresses for a shell


def test_hosts_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = barrier({"watch_gangs": THERE}, {"prints_hosts": True})
    assert ended.code == 0
    assert capsys.readouterr().out == "windlass_ps_ips='10.0.0.4'\nwindlass_worker_ips='10.0.0.5,10.0.0.6'\n"
    assert not list(folder.iterdir())


def test_addresses_of_another_framework(capsys: pytest.CaptureFixture[str]) -> None:
    """The Framework is read, because our Gang is not that of the other Framework."""
    ended = barrier({"get_framework": [Answer(200, FULL)]}, {"framework": "other", "prints_hosts": True})
    assert ended.code == 0
    assert "windlass_ps_ips='10.0.0.4'" in capsys.readouterr().out


@pytest.mark.usefixtures("quick")
def test_missing_other_framework_is_reported() -> None:
    """Statement 53: it is named."""
    ended = barrier({}, {"framework": "tf example", "prints_hosts": True})
    assert ended == Ended(210, ["Framework tf example not found in namespace research"])


def test_files_can_be_sourced_by_shells(folder: Path) -> None:
    barrier({"watch_gangs": THERE})
    done: Any = subprocess.run(
        ["sh", "-c", ". ./injector.sh >/dev/null; . ./cluster.env; echo $FB_PS_ADDRESSES"],  # noqa: S607
        cwd=folder,
        env={"PATH": os.defpath, "FB_PS_PORT": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("10.0.0.4:7\n", "")
