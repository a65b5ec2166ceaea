"""The files of the barrier, read by shells, mpirun and TensorFlow."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import gang_objects
import pytest

from windlass.discovery import files
from windlass.model.gang import GangMember, GangRole, GangSpec

SHELLS: Final = ("bash", "dash" if shutil.which("dash") else "sh")
SIX: Final = {"worker": ["fd00::5", "fd00::6"]}
NAMES: Final = (
    *("framework.json", "injector.sh", "cluster.env", "hostfile", "hostfile.hydra", "ssh_config"),
    "tf_config.json",
)


def injector(gang: GangSpec) -> str:
    return files.contents(gang, "worker", 0)["injector.sh"]


def sourced(shell: str, folder: Path, text: str, asked: str, **variables: str) -> str:
    """Return the variables that a shell exports after reading the text."""
    (folder / "script").write_text(text)
    script = f"set -eu; . ./script; exec env sh -c 'echo \"{asked}\"'"
    return subprocess.run(  # noqa: S603
        [shell, "-c", script],
        cwd=folder,
        env={"PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_file_names() -> None:
    assert tuple(files.contents(gang_objects.gang(), "worker", 0)) == NAMES
    assert all(text.endswith("\n") for text in files.contents(gang_objects.gang(), "worker", 0).values())


def test_members_have_their_own_ports(tmp_path: Path, shell: str) -> None:
    """Members of a shared network have their own ports."""
    members = (GangMember("a", "127.1.0.5", 31000), GangMember("b", "127.1.0.6", 31001))
    gang = GangSpec(roles=(GangRole("worker", 2222, 1, members),))
    asked = sourced(shell, tmp_path, files.contents(gang, "worker", 0)["cluster.env"], "$FB_WORKER_ADDRESSES")
    assert asked.strip() == files.variables(gang)["FB_WORKER_ADDRESSES"] == "127.1.0.5:31000,127.1.0.6:31001"
    assert files.configfile(gang).splitlines()[0] == "127.1.0.5:31000,127.1.0.6:31001"
    told = json.loads(files.contents(gang, "worker", 0)["tf_config.json"])
    assert told["cluster"] == {"worker": ["127.1.0.5:31000", "127.1.0.6:31001"]}


# injector.sh and cluster.env (statement 48)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "10.0.0.5,10.0.0.6 10.0.0.5:2222,10.0.0.6:2222"),
        ({"FB_WORKER_PORT": "49866"}, "10.0.0.5,10.0.0.6 10.0.0.5:49866,10.0.0.6:49866"),
        ({"FB_WORKER_PORT": ""}, "10.0.0.5,10.0.0.6 10.0.0.5:2222,10.0.0.6:2222"),
        ({"FB_PS_PORT": "49866"}, "10.0.0.5,10.0.0.6 10.0.0.5:2222,10.0.0.6:2222"),
        ({"FB_WORKER_IPS": "old"}, "10.0.0.5,10.0.0.6 10.0.0.5:2222,10.0.0.6:2222"),
    ],
)
@pytest.mark.parametrize("name", ["injector.sh", "cluster.env"])
def test_port_variable_overrides_the_port(
    name: str, variables: dict[str, str], expected: str, shell: str, tmp_path: Path
) -> None:
    text = files.contents(gang_objects.gang(), "worker", 0)[name]
    said = sourced(shell, tmp_path, text, "$FB_WORKER_IPS $FB_WORKER_ADDRESSES", **variables)
    assert said.splitlines()[-1] == expected


def test_port_can_be_set_as_a_shell_variable(shell: str, tmp_path: Path) -> None:
    text = "FB_PS_PORT=1234\n" + injector(gang_objects.gang())
    assert sourced(shell, tmp_path, text, "$FB_PS_ADDRESSES").splitlines()[-1] == "10.0.0.4:1234"


def test_injector_prints_what_it_exports(shell: str, tmp_path: Path) -> None:
    assert sourced(shell, tmp_path, injector(gang_objects.gang()), "end").splitlines() == [
        "FB_PS_IPS=10.0.0.4",
        "FB_PS_ADDRESSES=10.0.0.4:2222",
        "FB_WORKER_IPS=10.0.0.5,10.0.0.6",
        "FB_WORKER_ADDRESSES=10.0.0.5:2222,10.0.0.6:2222",
        "end",
    ]


def test_cluster_env_prints_nothing(shell: str, tmp_path: Path) -> None:
    text = files.contents(gang_objects.gang(), "worker", 0)["cluster.env"]
    assert sourced(shell, tmp_path, text, "end") == "end\n"


def test_role_without_tasks_has_empty_lists(shell: str, tmp_path: Path) -> None:
    text = injector(gang_objects.gang({"ps": [], "worker": ["10.0.0.5"]}))
    assert sourced(shell, tmp_path, text, "<$FB_PS_IPS><$FB_PS_ADDRESSES>").endswith("<><>\n")


def test_ipv6_addresses_have_brackets(shell: str, tmp_path: Path) -> None:
    said = sourced(
        shell,
        tmp_path,
        injector(gang_objects.gang(SIX)),
        "$FB_WORKER_IPS $FB_WORKER_ADDRESSES",
    )
    assert said.splitlines()[-1] == "fd00::5,fd00::6 [fd00::5]:2222,[fd00::6]:2222"


def test_variables_equal_the_exports_of_the_injector(tmp_path: Path) -> None:
    for gang in (gang_objects.gang(), gang_objects.gang(SIX), gang_objects.gang({"ps": []})):
        for name, value in files.variables(gang).items():
            said = sourced("sh", tmp_path, injector(gang), f"${name}")
            assert said.splitlines()[-1] == value


# hostfile


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        (
            gang_objects.gang({"worker": ["10.0.0.5", "10.0.0.6"]}, service="pi", slots=2),
            "worker-0.pi slots=2\nworker-1.pi slots=2\n",
        ),
        (
            gang_objects.gang({"launcher": ["10.0.0.4"], "worker": ["10.0.0.5"]}, service="pi"),
            "worker-0.pi slots=1\n",
        ),
        (gang_objects.gang({"launcher": ["10.0.0.4"]}, service="pi"), "launcher-0.pi slots=1\n"),
        (gang_objects.gang(), "10.0.0.4 slots=1\n10.0.0.5 slots=1\n10.0.0.6 slots=1\n"),
        (gang_objects.gang(SIX), "fd00::5 slots=1\nfd00::6 slots=1\n"),
    ],
    ids=["by-name", "without-its-launcher", "launcher-alone", "by-address", "version-6"],
)
def test_host_files_have_names_and_slots(gang: GangSpec, expected: str) -> None:
    found = files.contents(gang, gang.roles[0].name, 0)
    assert found["hostfile"] == expected
    assert found["hostfile.hydra"] == expected.replace(" slots=", ":")


def test_ssh_config_has_the_port_of_the_role() -> None:
    gang = gang_objects.gang({"launcher": ["10.0.0.4"], "worker": ["10.0.0.5", "10.0.0.6"]}, service="pi")
    assert files.contents(gang, "worker", 0)["ssh_config"] == (
        "Host worker-0.pi worker-1.pi\n    HostName %h\n    Port 2222\n    HostKeyAlias windlass\n"
    )


def test_ssh_config_has_ports_of_members_on_a_shared_network() -> None:
    members = (GangMember("a", "127.1.0.5", 31000), GangMember("b", "127.1.0.6", 31001))
    gang = GangSpec(service="pi", roles=(GangRole("worker", 2222, 1, members),))
    assert files.contents(gang, "worker", 0)["ssh_config"] == "".join(
        f"Host worker-{index}.pi\n    HostName 127.0.0.1\n    Port {31000 + index}\n    HostKeyAlias windlass\n"
        for index in range(2)
    )


# tf_config.json


@pytest.mark.parametrize(
    ("gang", "ps"),
    [
        (gang_objects.gang(), "10.0.0.4:2222"),
        (gang_objects.gang(port=49867), "10.0.0.4:49867"),
        (gang_objects.gang({"ps": ["fd00::4"]}), "[fd00::4]:2222"),
        (gang_objects.gang(service="digits"), "ps-0.digits:2222"),
    ],
    ids=["by-address", "declared-port", "version-6", "by-name"],
)
def test_tf_config_of_a_gang(gang: GangSpec, ps: str) -> None:
    config = json.loads(files.contents(gang, "ps", 0)["tf_config.json"])
    assert config["cluster"]["ps"] == [ps]
    assert config["task"] == {"type": "ps", "index": 0}


def test_tf_config_of_the_environment_is_written() -> None:
    """On a shared network, only the environment has the ports."""
    given = '{"cluster":{"worker":["127.0.0.1:20000"]},"task":{"type":"worker","index":0}}'
    assert files.contents(gang_objects.gang(), "worker", 0, given)["tf_config.json"] == f"{given}\n"


# configfile (statement 53)


def role(name: str, port: int, *ips: str) -> GangRole:
    return GangRole(name, port, members=tuple(GangMember(ip=ip) for ip in ips))


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (
            (role("worker", 49866, "10.0.0.5", "10.0.0.6"), role("ps", 49867, "10.0.0.4")),
            "10.0.0.5:49866,10.0.0.6:49866\n10.0.0.4:49867\n",
        ),
        (
            (role("ps", 49867, "10.0.0.4"), role("worker", 49866, "10.0.0.5")),
            "10.0.0.5:49866\n10.0.0.4:49867\n",
        ),
        ((role("workers", 1, "10.0.0.5"), role("chief", 2, "10.0.0.3")), "10.0.0.5:1\n\n"),
        ((role("worker", 1, "10.0.0.5"), role("workers", 2, "10.0.0.6")), "10.0.0.5:1,10.0.0.6:2\n\n"),
        ((role("ps", 1, "fd00::4"),), "\n[fd00::4]:1\n"),
    ],
    ids=["example", "ps-first", "without-ps", "two-roles-of-workers", "without-workers"],
)
def test_configfile_has_workers_first_and_ps_last(roles: tuple[GangRole, ...], expected: str) -> None:
    """The workers on the first line, the parameter servers on the last."""
    assert files.configfile(GangSpec(roles=roles)) == expected


# What get_ips.sh reads


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        (gang_objects.gang(), "windlass_ps_ips='10.0.0.4'\nwindlass_worker_ips='10.0.0.5,10.0.0.6'\n"),
        (gang_objects.gang(SIX), "windlass_worker_ips='fd00::5,fd00::6'\n"),
        (gang_objects.gang({"ps": []}), "windlass_ps_ips=''\n"),
    ],
    ids=["version-4", "version-6-without-brackets", "no-task"],
)
def test_shell_lists_have_addresses_without_ports(gang: GangSpec, expected: str) -> None:
    """Addresses without brackets: get_ips.sh adds them with a port."""
    assert files.shell_lists(gang) == expected


# framework.json


def test_framework_json_has_the_structure_of_a_framework() -> None:
    """Readers of the reference find names, counts and addresses at their places."""
    made = json.loads(files.contents(gang_objects.gang(), "worker", 0)["framework.json"])
    assert (made["kind"], made["metadata"]["name"]) == ("Framework", "digits")
    assert [(role["name"], role["taskNumber"]) for role in made["spec"]["taskRoles"]] == [
        ("ps", 1),
        ("worker", 2),
    ]
    attempt = made["status"]["attemptStatus"]
    assert attempt["instanceUID"] == gang_objects.ATTEMPT
    found = {
        (role["name"], task["index"]): task["attemptStatus"]["podIP"]
        for role in attempt["taskRoleStatuses"]
        for task in role["taskStatuses"]
    }
    assert found == {("ps", 0): "10.0.0.4", ("worker", 0): "10.0.0.5", ("worker", 1): "10.0.0.6"}
