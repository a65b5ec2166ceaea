"""JupyterLab of a job: volumes, permissions, and the password, which no object contains."""

import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_schemas
import msgspec
import pytest
from rendered_companions import by_kind, container_of, pod_of

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import Companion, Jupyter, PasswordFrom, ServiceType
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role, Volume
from windlass.model.resources import Resources
from windlass.render.companions import jupyter, passwords, servers
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import ResolvedCompanions

JOB = Job(
    name="digits",
    namespace="research",
    runtime=Runtime.TENSORFLOW,
    image="digits:1",
    command="python train.py",
    env={"LEVEL": 3, "JUPYTER_CONFIG_PATH": "/elsewhere", "WINDLASS_JOB": "other"},
    env_from=({"secretRef": {"name": "keys"}},),
    secrets={"TOKEN": "hush"},
    labels={"team": "vision"},
    volumes={"data": Volume(at="/data", pvc="data", read_only=True), "output": Volume(at="/output", pvc="o")},
    roles={"ps": Role(port=3333, env={"OF_PS": "1"}), "worker": Role(tasks=2, node_selector={"gpu": "yes"})},
)
HASH = passwords.jupyter_hash("correct horse")
SETTLED = ResolvedCompanions(hashes={Companion.JUPYTER: {ALL_USERS: HASH}})
LABELS = {names.JOB_LABEL: "digits", names.COMPANION_LABEL: "jupyter"}


def made(job: Job = JOB, resolved: ResolvedCompanions = SETTLED, **fields: Any) -> dict[str, Json]:
    """Return the objects by kind."""
    return by_kind(jupyter.objects(job, Jupyter(**fields), resolved, None))


def variables_of(found: dict[str, Json]) -> Json:
    env = container_of(found)["env"]
    by_name = {each["name"]: each.get("value", each.get("valueFrom")) for each in env}
    assert len(by_name) == len(env)
    return by_name


def test_service_selects_pod_and_pod_mounts_its_objects() -> None:
    found = made()
    assert list(found) == [
        *("ServiceAccount", "Role", "RoleBinding", "Secret", "ConfigMap", "Deployment", "Service")
    ]
    for body in found.values():
        assert body["metadata"] == {
            "name": "digits-jupyter",
            "namespace": "research",
            "labels": {"team": "vision", **LABELS},
        }
    template = found["Deployment"]["spec"]["template"]
    assert template["metadata"]["labels"].items() >= LABELS.items()
    assert found["Service"]["spec"]["selector"] == LABELS
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == LABELS
    assert found["Service"]["spec"]["ports"] == [{"name": "http", "port": 8888, "targetPort": 8888}]
    assert pod_of(found)["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container_of(found)["volumeMounts"]}
    sources = {volume["name"]: volume for volume in pod_of(found)["volumes"]}
    assert mounts.keys() == sources.keys()
    (secret,) = (name for name, source in sources.items() if "secret" in source)
    assert sources[secret]["secret"]["secretName"] == found["Secret"]["metadata"]["name"]
    assert variables_of(found)["JUPYTER_CONFIG_PATH"] == mounts[secret]
    assert (mounts["data"], mounts["output"]) == ("/data", "/output")


@pytest.mark.parametrize("service", ServiceType)
@pytest.mark.parametrize("namespace", ["", "research"])
def test_api_server_accepts_objects(service: ServiceType, namespace: str) -> None:
    job = msgspec.structs.replace(JOB, namespace=namespace)
    found = made(job, service=service, resources=Resources(cpus=2, memory="4Gi"), port=9999)
    for body in found.values():
        assert list(kubernetes_schemas.faults(body)) == []
        assert ("namespace" in body["metadata"]) is bool(namespace)
    assert found["Service"]["spec"]["type"] == service
    assert container_of(found)["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert container_of(found)["readinessProbe"]["httpGet"]["port"] == 9999


def test_jupyter_account_may_only_read() -> None:
    rules = made()["Role"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources >= {"frameworks", "pods", "pods/log", "events", "configmaps", "services"}
    assert "secrets" not in resources


def test_given_service_account_is_used() -> None:
    found = made(service_account="robot")
    assert not found.keys() & {"ServiceAccount", "Role", "RoleBinding"}
    assert pod_of(found)["serviceAccountName"] == "robot"
    assert pod_of(found)["automountServiceAccountToken"] is True


def test_jupyter_has_variables_of_job_and_addresses_of_tasks() -> None:
    variables = variables_of(made())
    assert variables["LEVEL"] == "3"
    assert variables["TOKEN"]["secretKeyRef"] == {
        "name": "digits-secrets",
        "key": "TOKEN",
        "optional": True,
    }
    assert container_of(made())["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert variables["WINDLASS_JOB"] == "digits", "what it needs counts before what the job says"
    assert variables["JUPYTER_CONFIG_PATH"] == jupyter.CONFIG_FOLDER
    assert not {"OF_PS", "TF_CONFIG", "TASK_INDEX"} & variables.keys(), "variables of tasks only"
    assert json.loads(variables["CLUSTER_CONFIG"]) == {
        "ps": ["ps-0.digits:3333"],
        "worker": ["worker-0.digits:2222", "worker-1.digits:2222"],
    }


def test_addresses_of_plain_tasks() -> None:
    of_job = json.loads(
        variables_of(made(resolved=msgspec.structs.replace(SETTLED, is_plain=True)))["CLUSTER_CONFIG"]
    )
    assert of_job["ps"] == ["digits-ps-0.research.svc.cluster.local:3333"]
    prefixed = msgspec.structs.replace(SETTLED, is_plain=True, prefix="")
    assert "ps-0.research" in variables_of(made(resolved=prefixed))["CLUSTER_CONFIG"]


@pytest.mark.parametrize("runtime", [Runtime.PYTORCH, Runtime.JAX, Runtime.PLAIN, Runtime.MPI])
def test_addresses_for_every_runtime(runtime: Runtime) -> None:
    job = msgspec.structs.replace(JOB, runtime=runtime)
    assert json.loads(variables_of(made(job))["CLUSTER_CONFIG"])["worker"][0].startswith("worker-0.digits:")


# The password


def test_secret_has_hash_for_old_and_new_servers() -> None:
    data = made()["Secret"]["stringData"]
    config = json.loads(data["jupyter_server_config.json"])
    assert config == {"PasswordIdentityProvider": {"hashed_password": HASH}}
    older = json.loads(data["jupyter_notebook_config.json"])
    assert older == {"NotebookApp": {"password": HASH}}


def test_changed_password_replaces_pod() -> None:
    changed = ResolvedCompanions(hashes={Companion.JUPYTER: {ALL_USERS: passwords.jupyter_hash("other")}})
    again, other = made(), made(resolved=changed)
    annotations = [
        each["Deployment"]["spec"]["template"]["metadata"]["annotations"] for each in (made(), again, other)
    ]
    assert annotations[0] == annotations[1] != annotations[2]
    assert HASH not in json.dumps(annotations)


def test_password_hash_is_only_in_secret() -> None:
    found = made()
    assert HASH not in json.dumps([each for kind, each in found.items() if kind != "Secret"])


def test_user_secret_is_mounted() -> None:
    found = made(resolved=ResolvedCompanions(), password_from=PasswordFrom(secret="mine"))  # noqa: S106
    assert "Secret" not in found
    assert {"name": "windlass-jupyter", "secret": {"secretName": "mine"}} in pod_of(found)["volumes"]


# Start script


def started(
    tmp_path: Path, found: dict[str, Json], *programs: str, address: str = "10.1.2.3"
) -> subprocess.CompletedProcess[str]:
    """Run the script of the container with fake programs, which print their arguments, in a home folder of the test."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    for needed in ("mkdir", "ln", "cp", "cat", "sh"):
        if not (tools / needed).exists():
            (tools / needed).symlink_to(f"/bin/{needed}")
    for program in programs:
        (tools / program).write_text('#!/bin/sh\nfor word in "${0##*/}" "$@"; do echo "$word"; done\n')
        (tools / program).chmod(0o755)
    home, starter = tmp_path / "home", tmp_path / "starter"
    home.mkdir(exist_ok=True)
    starter.mkdir(exist_ok=True)
    (starter / "start.ipynb").write_text(found["ConfigMap"]["data"]["start.ipynb"])
    places = {servers.HOME: home, jupyter.STARTER_FOLDER: starter, "/output": tmp_path / "output"}
    words = [word.replace("$$", "$") for word in container_of(found)["command"]]
    for place, here in places.items():
        words[4:] = [
            str(here) + word.removeprefix(place) if f"{word}/".startswith(f"{place}/") else word
            for word in words[4:]
        ]
    return subprocess.run(  # noqa: S603
        words,
        env={"PATH": str(tools), "WINDLASS_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_start_script_links_volumes_and_opens_first_notebook(tmp_path: Path) -> None:
    result = started(tmp_path, made(folder="/output/note books"), "jupyter-lab")
    assert result.returncode == 0, result.stderr
    words = result.stdout.splitlines()
    assert words[0] == "jupyter-lab"
    assert {"--ip=0.0.0.0", "--port=8888", "--port-retries=0"} <= set(words)
    assert "--LabApp.default_url=/lab/tree/notebooks/start.ipynb" in words
    home = tmp_path / "home"
    assert (home / "data").readlink() == Path("/data")
    assert (home / "notebooks").resolve() == (tmp_path / "output" / "note books").resolve()
    assert json.loads((home / "notebooks" / "start.ipynb").read_text())["nbformat"] == 4


def test_edited_notebook_is_not_overwritten(tmp_path: Path) -> None:
    for text in ("mine", "mine too"):
        started(tmp_path, made(folder="/output"), "jupyter-lab")
        (tmp_path / "output" / "start.ipynb").write_text(text)
    started(tmp_path, made(folder="/output"), "jupyter-lab")
    assert (tmp_path / "output" / "start.ipynb").read_text() == "mine too"


def test_notebooks_without_folder_are_next_to_volumes(tmp_path: Path) -> None:
    assert started(tmp_path, made(), "jupyter-lab").returncode == 0
    assert not (tmp_path / "home" / "notebooks").is_symlink()
    assert (tmp_path / "home" / "notebooks" / "start.ipynb").exists()


def test_image_without_lab_starts_jupyter_notebook(tmp_path: Path) -> None:
    words = started(tmp_path, made(), "jupyter-notebook").stdout.splitlines()
    assert words[0] == "jupyter-notebook"
    assert "--NotebookApp.default_url=/tree/notebooks/start.ipynb" in words


def test_image_without_jupyter_reports_what_to_do(tmp_path: Path) -> None:
    result = started(tmp_path, made())
    assert result.returncode == 127
    assert result.stderr == (
        "JupyterLab is not installed. On this machine: pip install jupyterlab. On a cluster: set an image that has it "
        "with jupyter: {image: …}\n"
    )


def test_notebook_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("a file")
    result = started(tmp_path, made(folder="/output/notebooks"), "jupyter-lab")
    assert result.returncode == 1
    assert "output/notebooks: set another one with jupyter: {folder: …}" in result.stderr


def test_server_on_shared_network_listens_on_own_address(tmp_path: Path) -> None:
    assert "--ip=127.0.5.7" in started(tmp_path, made(), "jupyter-lab", address="127.0.5.7").stdout


def test_server_with_ipv6_address_listens_on_ipv6(tmp_path: Path) -> None:
    assert "--ip=::" in started(tmp_path, made(), "jupyter-lab", address="fd00::7").stdout.split()


def test_remote_access_is_allowed(tmp_path: Path) -> None:
    """Users may connect through a forwarded port of another machine. A password is always required."""
    words = started(tmp_path, made(), "jupyter-lab", address="127.0.5.7").stdout.split()
    assert "--ServerApp.allow_remote_access=True" in words


CALLED: dict[str, tuple[str, str, str]] = {
    # where a volume called notebooks is, where notebooks are kept, what their folder is called
    "the same": ("/notebooks", "/notebooks/", "notebooks"),
    "another place": ("/notebooks", "/output", "windlass-notebooks"),
    "not kept": ("/notebooks", "", "windlass-notebooks"),
}


@pytest.mark.parametrize(("at", "folder", "expected"), CALLED.values(), ids=CALLED)
def test_volume_may_be_named_like_notebook_folder(at: str, folder: str, expected: str) -> None:
    job = msgspec.structs.replace(JOB, volumes={"notebooks": Volume(at=at, pvc="n")})
    assert container_of(made(job, folder=folder))["command"][6] == expected
