"""Statement 53: get_ips.sh, sourced as in the launcher's manual, in bash and in a POSIX shell."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples" / "framework-launcher"
SCRIPT: Final = ROOT / "src" / "windlass" / "barrier" / "get_ips.sh"
SHELLS: Final = ("bash", "dash" if shutil.which("dash") else "sh")
SECONDS: Final = 60.0

PRINTED: Final = "windlass_worker_ips='10.0.0.1,10.0.0.2'\nwindlass_ps_ips='10.0.0.3'\n"
FAKE: Final = """\
#!/bin/sh
echo "$*" >>"$ASKED"
printf %s "$PRINTED"
exit "$CODE"
"""


class Done(msgspec.Struct, frozen=True):
    code: int
    stdout: str
    stderr: str


class Pod:
    """A working directory, and a fake `windlass` with configurable output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "windlass").write_text(FAKE)
        (self.bin / "windlass").chmod(0o755)
        shutil.copy(SCRIPT, folder)

    def run(self, shell: str, script: str, **env: str) -> Done:
        """Run a script with additional variables. PRINTED and CODE are the output and exit code of `windlass`."""
        done = subprocess.run(  # noqa: S603
            [shell, "-c", script],
            env={
                "PATH": f"{self.bin}:{os.defpath}",
                "ASKED": str(self.asked),
                "PRINTED": PRINTED,
                "CODE": "0",
                "FC_FRAMEWORK_NAME": "tfexample",
                **env,
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# What is exported

EXPORTED: Final = ". ./get_ips.sh && sh -c 'echo \"$worker_hosts $ps_hosts\"'"


@pytest.mark.parametrize(
    ("env", "printed", "expected"),
    [
        ({}, PRINTED, "10.0.0.1,10.0.0.2 10.0.0.3"),
        ({"worker_port": "1", "ps_port": "65535"}, PRINTED, "10.0.0.1:1,10.0.0.2:1 10.0.0.3:65535"),
        ({"ps_port": "49867"}, PRINTED, "10.0.0.1,10.0.0.2 10.0.0.3:49867"),
        (
            {"worker_port": "", "worker_tasknum": "", "framework_name": ""},
            PRINTED,
            "10.0.0.1,10.0.0.2 10.0.0.3",
        ),
        ({"worker_tasknum": "2", "ps_tasknum": "1"}, PRINTED, "10.0.0.1,10.0.0.2 10.0.0.3"),
        ({"worker_tasknum": "1", "worker_port": "2222"}, PRINTED, "10.0.0.1:2222 10.0.0.3"),
        ({"worker_tasknum": "0"}, PRINTED, " 10.0.0.3"),
        ({"worker_tasknum": "010"}, f"windlass_worker_ips='{'a,' * 9}a'", "a,a,a,a,a,a,a,a,a,a "),
        ({"ps_port": "2222"}, "windlass_worker_ips='10.0.0.1'\n", "10.0.0.1 "),
        ({"worker_port": "2222"}, "windlass_worker_ips='fd00::1,10.0.0.1'", "[fd00::1]:2222,10.0.0.1:2222 "),
        ({}, f"{PRINTED}windlass_chief_ips='10.0.0.4'\n", "10.0.0.1,10.0.0.2 10.0.0.3"),
        ({"windlass_ps_ips": "10.9.9.9"}, "windlass_worker_ips='10.0.0.1'\n", "10.0.0.1 "),
        ({"worker_hosts": "old", "ps_hosts": "old"}, PRINTED, "10.0.0.1,10.0.0.2 10.0.0.3"),
    ],
    ids=[
        *(
            "bare",
            "ports",
            "one-port",
            "empty-is-unset",
            "all-tasks",
            "fewer",
            "none",
            "decimal",
            "no-ps",
            "ipv6",
        ),
        *("another-role", "inherited", "overwritten"),
    ],
)
def test_lists_have_the_addresses_of_each_role(
    pod: Pod, shell: str, env: dict[str, str], printed: str, expected: str
) -> None:
    assert pod.run(shell, EXPORTED, PRINTED=printed, **env) == Done(0, f"{expected}\n", "")


@pytest.mark.parametrize(
    ("env", "asked"),
    [
        ({}, "barrier --print-hosts"),
        ({"framework_name": "tfexample"}, "barrier --print-hosts"),
        ({"framework_name": "other"}, "barrier --print-hosts --framework other"),
        ({"framework_name": "other", "FC_FRAMEWORK_NAME": ""}, "barrier --print-hosts --framework other"),
    ],
    ids=["own", "own-by-name", "another", "not-in-a-framework"],
)
def test_framework_argument_is_passed(pod: Pod, shell: str, env: dict[str, str], asked: str) -> None:
    assert pod.run(shell, ". ./get_ips.sh", **env).code == 0
    assert pod.asked.read_text() == f"{asked}\n"


# Failures

UNTOUCHED: Final = '. ./get_ips.sh && echo on; echo "$? ${worker_hosts-none} ${ps_hosts-none}"'


@pytest.mark.parametrize(
    ("env", "code", "words"),
    [
        ({"CODE": "210"}, 210, 'cannot wait for Framework "tfexample"'),
        (
            {"CODE": "210", "framework_name": "tf-example"},
            210,
            'cannot wait for Framework "tf-example"; this pod belongs to "tfexample"',
        ),
        ({"CODE": "201"}, 201, 'not every task of Framework "tfexample" has got an address in time'),
        ({"CODE": "1"}, 1, 'cannot read the addresses of Framework "tfexample"'),
        (
            {"CODE": "1", "framework_name": "tf-example"},
            1,
            'cannot read the addresses of Framework "tf-example"; this pod belongs to "tfexample"',
        ),
        ({"CODE": "143"}, 1, 'cannot read the addresses of Framework "tfexample"'),
        ({"CODE": "127"}, 127, "windlass is needed, and is not in the PATH of this image"),
        ({"ps_tasknum": "2"}, 210, 'ps_tasknum is 2, but Framework "tfexample" has 1 in role "ps"'),
        (
            {"worker_tasknum": "3"},
            210,
            'worker_tasknum is 3, but Framework "tfexample" has 2 in role "worker"',
        ),
        ({"worker_tasknum": "two"}, 210, 'worker_tasknum is "two": expected a number from 0 to 99999'),
        ({"worker_tasknum": "-1"}, 210, 'worker_tasknum is "-1": expected a number from 0 to 99999'),
        ({"worker_port": "$(echo 1)"}, 210, 'worker_port is "$(echo 1)": expected a number from 1 to 65535'),
        ({"worker_port": "0"}, 210, 'worker_port is "0": expected a number from 1 to 65535'),
        ({"ps_port": "65536"}, 210, 'ps_port is "65536": expected a number from 1 to 65535'),
        ({"ps_port": "99999999999999999999"}, 210, "expected a number from 1 to 65535"),
        ({"FC_FRAMEWORK_NAME": ""}, 210, "Neither framework_name nor FC_FRAMEWORK_NAME is set"),
    ],
    ids=[
        *(
            "unknown",
            "unknown-other",
            "late",
            "error",
            "error-other",
            "killed",
            "no-windlass",
            "few-ps",
            "few-workers",
            "word",
        ),
        *("negative", "no-code", "port-0", "big-port", "huge-port", "no-framework"),
    ],
)
def test_failure_returns_the_exit_code(
    pod: Pod, shell: str, env: dict[str, str], code: int, words: str
) -> None:
    done = pod.run(shell, UNTOUCHED, **env)
    assert (done.code, done.stdout) == (0, f"{code} none none\n")
    (message,) = done.stderr.splitlines()
    assert message.startswith("get_ips.sh: ")
    assert words in message


def test_failure_keeps_existing_variables(pod: Pod, shell: str) -> None:
    done = pod.run(shell, UNTOUCHED, CODE="201", worker_hosts="old", ps_hosts="older")
    assert done.stdout == "201 old older\n"


def test_unexpected_output_is_an_error(pod: Pod, shell: str) -> None:
    done = pod.run(shell, UNTOUCHED, PRINTED="windlass_worker_ips='10.0.0.1")
    assert "on" not in done.stdout.split()
    assert done.stdout.endswith(" none none\n")


def test_stderr_of_windlass_is_shown(pod: Pod, shell: str) -> None:
    fake = pod.bin / "windlass"
    fake.write_text(FAKE.replace("printf", "echo 'waits for ps-0' >&2; printf"))
    assert pod.run(shell, ". ./get_ips.sh").stderr == "waits for ps-0\n"


# What it leaves in the shell that sources it

LOOK: Final = (
    "{ set; set -o; echo \"IFS: $IFS\"; trap; alias; } | grep -v -e '^_=' -e '^BASH_' -e '^PIPESTATUS='"
)


@pytest.mark.parametrize("code", [0, 201])
@pytest.mark.parametrize(
    "options", ["true", "set -e", "set -u", "set -eu", "set -f", "set -a", "IFS=:0", "trap : EXIT"]
)
def test_no_temporary_variables_remain(pod: Pod, shell: str, options: str, code: int) -> None:
    # What a grep or an earlier sourcing might set is set before the first look.
    script = f"{options}; worker_hosts= ps_hosts=; export worker_hosts ps_hosts; {LOOK} >before; "
    script += f". ./get_ips.sh || echo failed; worker_hosts= ps_hosts=; {LOOK} >after; echo end"
    done = pod.run(shell, script, CODE=str(code))
    assert (done.code, done.stdout) == (0, "failed\nend\n" if code else "end\n")
    assert (pod.folder / "after").read_text() == (pod.folder / "before").read_text()


def test_failure_ends_a_shell_with_errexit(pod: Pod, shell: str) -> None:
    done = pod.run(shell, "set -e; . ./get_ips.sh; echo on", CODE="201")
    assert (done.code, done.stdout) == (201, "")


def test_works_with_nounset(pod: Pod, shell: str) -> None:
    done = pod.run(shell, f"set -eu; unset FC_FRAMEWORK_NAME; framework_name=other; {EXPORTED}")
    assert done == Done(0, "10.0.0.1,10.0.0.2 10.0.0.3\n", "")


# The commands of the manual, unchanged


def command(example: str, role: int, kind: str) -> str:
    framework = yaml.safe_load((EXAMPLES / example).read_text())
    spec = framework["spec"]["taskRoles"][role]["task"]["pod"]["spec"]
    interpreter, option, script = spec[kind][0]["command"]
    assert (interpreter, option) == ("/bin/bash", "-c")
    return str(script)


@pytest.mark.parametrize("role", [0, 1], ids=["worker", "ps"])
@pytest.mark.parametrize("example", ["init-container.yaml", "nfs-training.yaml", "host-path-training.yaml"])
def test_script_variant_with_ports(pod: Pod, example: str, role: int) -> None:
    script = command(example, role, "initContainers").replace("/configdir", str(pod.folder))
    assert pod.run("bash", script) == Done(0, "", "")
    assert (pod.folder / "configfile").read_text() == "10.0.0.1:49866\n10.0.0.3:49867\n"


@pytest.mark.parametrize("role", [0, 1], ids=["worker", "ps"])
def test_script_variant_without_ports(pod: Pod, role: int) -> None:
    (pod.bin / "python").write_text('#!/bin/sh\necho "$*"\n')
    (pod.bin / "python").chmod(0o755)
    one_each = "windlass_worker_ips='10.0.0.1'\nwindlass_ps_ips='10.0.0.3'\n"
    done = pod.run("bash", command("simple.yaml", role, "containers"), PRINTED=one_each)
    assert (done.code, done.stderr) == (0, "")
    assert "--ps_hosts=10.0.0.3:49867 --worker_hosts=10.0.0.1:49866 " in done.stdout


# The copies in the images of the examples: a folder of an image holds files, not links out of it


@pytest.mark.parametrize(
    "copy",
    [
        "k8s_initcontainer/get_ips.sh",
        "k8s_launcher/get_ips.sh",
        "k8s_launcher/benchmarks/scripts/tf_cnn_benchmarks/get_ips.sh",
    ],
)
def test_copies_are_identical(copy: str) -> None:
    path = EXAMPLES / "images" / copy
    assert not path.is_symlink()
    assert path.read_bytes() == SCRIPT.read_bytes(), (
        f"copy {SCRIPT.relative_to(ROOT)} to {path.relative_to(ROOT)}"
    )
