"""`windlass env` with an embedded API server, and its output in real shells."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import barrier_api as apis
import gang_objects
import msgspec
import pytest
from barrier_api import Answer, Step, refusal
from click.testing import CliRunner, Result

from server_process import RunningServer, serving_in_thread
from windlass.cli.commands import env as module
from windlass.cli.main import main
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.crd import manifests

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FULL: Final = {"ps": ["10.0.0.4"], "worker": ["10.0.0.5", "10.0.0.6"]}
GAPPED: Final = {"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""]}
SHELLS: Final = ("bash", "dash" if shutil.which("dash") else "sh")


class Cluster:
    def __init__(self, served: RunningServer) -> None:
        self.served = served
        for group in names.GROUPS:
            assert served.ask("POST", DEFINITIONS, manifests.framework_crd(group)).code == 201

    def create(self, framework: Framework) -> None:
        """Create a Framework and write its status, which is a subresource."""
        body = msgspec.json.decode(codec.encode_framework(framework))
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del body["metadata"][field]
        path = f"/apis/{framework.group}/v1/namespaces/{framework.namespace}/frameworks"
        created = self.served.ask("POST", path, body)
        assert created.code == 201, created.body
        patch = {"status": body["status"]}
        stored = self.served.ask(
            "PATCH", f"{path}/{framework.name}/status", patch, "application/merge-patch+json"
        )
        assert stored.code == 200, stored.body

    def env(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            main, ["env", *arguments, "--kubeconfig", str(self.served.data / "kubeconfig")]
        )

    def variables(self, task: str, *arguments: str) -> dict[str, str]:
        result = self.env(task, "--shell", "json", *arguments)
        assert result.exit_code == 0, result.output
        found: dict[str, str] = json.loads(result.stdout)
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with serving_in_thread(tmp_path_factory.mktemp("env") / "data") as served:
        yield Cluster(served)


def framework(name: str, ips: Any = FULL, runtime: str = "", **fields: Any) -> Framework:
    asks = {names.RUNTIME_ANNOTATION: runtime} if runtime else {}
    return gang_objects.framework(ips, name=name, namespace="default", annotations=asks, **fields)


def test_env_prints_all_discovery_variables(cluster: Cluster) -> None:
    cluster.create(framework("whole", runtime="tensorflow"))
    variables = cluster.variables("whole/worker-1")
    config = json.loads(variables["TF_CONFIG"])
    assert config["cluster"]["worker"] == ["worker-0.whole:2222", "worker-1.whole:2222"]
    assert config["task"] == {"type": "worker", "index": 1}
    assert variables["FC_TASKROLE_NAME"] == "worker"
    assert variables["FC_TASK_INDEX"] == "1"
    assert variables["FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"] == gang_objects.ATTEMPT
    assert variables["FC_POD_UID"] == "uid-worker-1"
    assert variables["FC_TASK_ATTEMPT_INSTANCE_UID"] == "0_uid-worker-1"
    assert variables["FB_WORKER_ADDRESSES"] == "10.0.0.5:2222,10.0.0.6:2222"
    assert "taskindex" in variables


def test_task_may_be_an_argument_of_its_own(cluster: Cluster) -> None:
    cluster.create(framework("apart"))
    assert cluster.variables("apart", "worker-1") == cluster.variables("apart/worker-1")


def test_env_before_all_tasks_have_addresses(cluster: Cluster) -> None:
    cluster.create(framework("early", GAPPED, "pytorch"))
    variables = cluster.variables("early/worker-0")
    assert variables["RANK"] == "1"
    assert not [name for name in variables if name.startswith("FB_")]


def test_env_of_a_job_without_a_runtime(cluster: Cluster) -> None:
    """No variable is set that would enable distribution in a library."""
    cluster.create(framework("modest", GAPPED))
    assert all(name.startswith("FC_") for name in cluster.variables("modest/ps-0"))


def test_env_of_the_old_api_group(cluster: Cluster) -> None:
    """Statement 52."""
    cluster.create(framework("old", GAPPED, group=names.LAUNCHER_GROUP))
    variables = cluster.variables("old/worker-1")
    assert (variables["taskindex"], variables["TASK_INDEX"], variables["FC_TASK_INDEX"]) == ("1", "1", "1")


def test_env_has_the_ports_of_a_shared_network(cluster: Cluster) -> None:
    made = framework("shared", runtime="plain")
    cluster.create(made)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "shared-attempt",
            "annotations": {names.PORTS_ANNOTATION: '{"ps":20000,"worker":20009}'},
        },
    }
    assert cluster.served.ask("POST", "/api/v1/namespaces/default/configmaps", body).code == 201
    assert cluster.variables("shared/ps-0")["WORKER_HOSTS"] == "127.0.0.1:20009,127.0.0.1:20010"


@pytest.mark.parametrize("shell", SHELLS)
def test_evaluated_values_are_unchanged(shell: str, cluster: Cluster, tmp_path: Path) -> None:
    """Child processes of the shell see the exact value."""
    cluster.create(framework(f"for-{shell}", runtime="tensorflow"))
    printed = cluster.env(f"for-{shell}/worker-0")
    assert printed.exit_code == 0
    (tmp_path / "printed").write_text(printed.stdout)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    done = subprocess.run(  # noqa: S603
        [shell, "-c", f'eval "$(cat printed)"; exec python3 -c "{show}"'],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    seen = json.loads(done.stdout)
    variables = cluster.variables(f"for-{shell}/worker-0")
    assert {name: seen.get(name) for name in variables} == variables


# Quoting

AWKWARD: Final = """it's "q" \\ $HOME `id` $(id) %x\n{a,b} ; # &"""


@pytest.mark.parametrize(
    ("shell", "written"),
    [
        ("sh", """export A='it'"'"'s "q" \\ $HOME `id` $(id) %x\n{a,b} ; # &'"""),
        ("fish", """set -gx A 'it\\'s "q" \\\\ $HOME `id` $(id) %x\n{a,b} ; # &'"""),
        ("powershell", """$Env:A = 'it''s "q" \\ $HOME `id` $(id) %x\n{a,b} ; # &'"""),
    ],
)
def test_values_are_quoted_for_each_shell(shell: str, written: str) -> None:
    assert module._FORMATTERS[shell]("A", AWKWARD) == written


def test_fish_reads_the_values() -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("needs fish (Debian package fish)")
    script = module._FORMATTERS["fish"]("A", AWKWARD) + "; printf %s $A"
    done = subprocess.run([fish, "-c", script], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    assert done.stdout == AWKWARD


@pytest.mark.parametrize("shell", SHELLS)
def test_posix_shells_read_the_values(shell: str) -> None:
    script = module._FORMATTERS["sh"]("A", AWKWARD) + '; printf %s "$A"'
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    assert done.stdout == AWKWARD


# Missing objects


def test_unknown_task_is_reported(cluster: Cluster) -> None:
    cluster.create(framework("known", {"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""], "empty": []}))
    for task, words in {
        "known/worker-2": "known has no task worker-2; its tasks are ps-0, worker-0..1",
        "known/chief-0": "known has no task chief-0; its tasks are ps-0, worker-0..1",
        "known/empty-0": "known has no task empty-0",
        "missing/worker-0": 'there is no job "missing" in the namespace default',
        "a b?c/worker-0": 'there is no job "a b?c" (names consist of lower-case letters, digits and hyphens) in',
    }.items():
        result = cluster.env(task)
        assert (result.exit_code, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert words in line


def test_env_of_another_namespace(cluster: Cluster) -> None:
    cluster.create(framework("placed"))
    result = cluster.env("placed/ps-0", "-n", "elsewhere")
    assert result.exit_code == 1
    assert 'there is no job "placed" in the namespace elsewhere' in result.stderr


@pytest.mark.parametrize(
    "task",
    ["digits", "digits/", "digits/worker", "digits/worker-", "digits/worker-x", "/worker-0", "a/b/c-0", ""],
)
def test_invalid_task_name_is_rejected(task: str) -> None:
    """No request is sent to the cluster."""
    result = CliRunner().invoke(main, ["env", task])
    assert result.exit_code == 2
    assert "expected NAME/ROLE-INDEX, e.g. digits/worker-1" in result.stderr


def test_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["env", "a/b-0", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert str(tmp_path / "none") in result.stderr
    assert len(result.stderr.splitlines()) == 1


# Permissions and error responses

CONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: "{url}"}}}}]
users: [{{name: a, user: {{}}}}]
"""
WRITTEN: Final = msgspec.json.decode(codec.encode_framework(framework("digits", runtime="jax")))


def scripted(tmp_path: Path, steps: Mapping[str, Sequence[Step]]) -> Result:
    with apis.serving(steps) as api:
        (tmp_path / "config").write_text(CONFIG.format(url=api.url))
        return CliRunner().invoke(main, ["env", "digits/worker-1", "--kubeconfig", str(tmp_path / "config")])


def test_permissions_for_one_api_group_suffice(tmp_path: Path) -> None:
    """ConfigMaps are not needed: only an embedded cluster has ports in them."""
    steps = {
        "get_launcher": [refusal(403)],
        "get_framework": [Answer(200, WRITTEN)],
        "get_config_map": [refusal(403)],
    }
    result = scripted(tmp_path, steps)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "export JAX_PROCESS_ID=2\n" in result.stdout


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"get_launcher": [refusal(403, "you may not")]}, "denied access: you may not."),
        ({"get_framework": [Answer(200, {"kind": "Framework"})]}, "Framework, at the top: "),
        ({"get_launcher": [Answer(200, b"<html>")]}, "Expected JSON"),
    ],
    ids=["forbidden", "no-framework", "no-json"],
)
def test_error_responses_are_reported(steps: dict[str, list[Step]], words: str, tmp_path: Path) -> None:
    result = scripted(tmp_path, steps)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert words in line
