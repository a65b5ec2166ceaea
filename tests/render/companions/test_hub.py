"""JupyterHub of a job: permissions, servers of users, and passwords, which no object contains."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_schemas
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendered_companions import by_kind, container_of, pod_of

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import HUB_INTERNAL_PORT, Companion, Hub, PasswordFrom
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role, Volume
from windlass.model.resources import Resources
from windlass.render.companions import hub, hub_support, passwords
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import ResolvedCompanions

JOB = Job(
    name="digits",
    namespace="research",
    runtime=Runtime.TENSORFLOW,
    image="digits:1",
    command="python train.py",
    env={"SHAPE": "{8x8}", "HOME": "/elsewhere"},
    env_from=({"secretRef": {"name": "keys"}},),
    secrets={"TOKEN": "hush"},
    labels={"team": "vision"},
    image_pull_secrets=("registry",),
    node_selector={"disk": "ssd"},
    tolerations=({"key": "gpu", "operator": "Exists"},),
    volumes={"data": Volume(at="/data", pvc="data", read_only=True), "output": Volume(at="/output", pvc="o")},
    roles={"worker": Role(tasks=2)},
    pod={"spec": {"securityContext": {"runAsUser": 1000}}},
)
HASHES = {ALL_USERS: passwords.hub_hash("correct horse")}
CLUSTER = ResolvedCompanions(hashes={Companion.HUB: HASHES})
MACHINE = ResolvedCompanions(hashes={Companion.HUB: HASHES}, is_embedded=True)


def made(resolved: ResolvedCompanions = CLUSTER, job: Job = JOB, **fields: Any) -> dict[str, Json]:
    """Return the objects by kind."""
    return by_kind(hub.objects(job, Hub(**fields), resolved, None))


def settings_of(found: dict[str, Json]) -> Json:
    settings: Json = json.loads(found["ConfigMap"]["data"]["hub.json"])
    return settings


def user_pod(found: dict[str, Json]) -> Json:
    """Return the pod as KubeSpawner creates it."""
    pod = settings_of(found)["pod"]
    container = {"name": "notebook", "image": pod["image"], **pod["container"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "digits-hub-ana", "labels": pod["labels"]},
        "spec": {**pod["spec"], "containers": [container]},
    }


RIGHTS = ["ServiceAccount", "Role", "RoleBinding"]
SERVER = ["ConfigMap", "Deployment", "Service"]
SECRET = PasswordFrom(secret="logins")  # noqa: S106 — its name
KINDS: dict[str, tuple[dict[str, Json], list[str]]] = {
    "on a cluster": (made(), [*RIGHTS, "Secret", *SERVER]),
    "on a cluster, with a Secret of one's own": (made(password_from=SECRET), [*RIGHTS, *SERVER]),
    "on one machine": (made(MACHINE), ["Secret", *SERVER]),
    "on one machine, with a Secret of one's own": (made(MACHINE, password_from=SECRET), SERVER),
}


@pytest.mark.parametrize(("found", "kinds"), KINDS.values(), ids=KINDS)
def test_hub_objects_by_target_and_password_source(found: dict[str, Json], kinds: list[str]) -> None:
    assert list(found) == kinds
    for body in found.values():
        assert list(kubernetes_schemas.faults(body)) == [], body["kind"]
        assert body["metadata"] == {
            "name": "digits-hub",
            "namespace": "research",
            "labels": {"team": "vision", names.JOB_LABEL: "digits", names.COMPANION_LABEL: "hub"},
        }


@pytest.mark.parametrize(
    ("fields", "secret"), [({}, "digits-hub"), ({"password_from": SECRET}, "logins")], ids=str
)
@pytest.mark.parametrize("resolved", [CLUSTER, MACHINE], ids=["cluster", "machine"])
def test_password_hashes_are_only_in_secret(resolved: ResolvedCompanions, fields: Json, secret: str) -> None:
    found = made(resolved, **fields)
    mounted = [each["secret"] for each in pod_of(found)["volumes"] if "secret" in each]
    assert mounted == [{"secretName": secret}]
    if "Secret" in found:
        assert json.loads(found.pop("Secret")["stringData"]["passwords.json"]) == HASHES
    assert HASHES[ALL_USERS] not in json.dumps(list(found.values()))


def test_hub_account_may_only_manage_pods() -> None:
    found = made()
    rules = {
        (resource, *rule.get("resourceNames", ())): sorted(rule["verbs"])
        for rule in found["Role"]["rules"]
        for resource in rule["resources"]
    }
    assert rules == {
        ("pods",): ["create", "delete", "get", "list", "watch"],
        ("events",): ["get", "list", "watch"],
        ("deployments", "digits-hub"): ["get"],
    }
    assert pod_of(found)["serviceAccountName"] == "digits-hub"
    assert pod_of(found)["automountServiceAccountToken"] is True
    assert pod_of(made(MACHINE))["automountServiceAccountToken"] is False


def names_of(bodies: list[Json]) -> set[str]:
    return {each["name"] for each in bodies}


def test_hub_on_cluster_has_no_volumes_or_variables_of_job() -> None:
    pod = pod_of(made())
    (container,) = pod["containers"]
    assert container["image"] == hub.HUB_IMAGE
    assert names_of(container["env"]) == {"WINDLASS_ADDRESS", "WINDLASS_PASSWORDS"}
    assert "envFrom" not in container
    assert not {"data", "output"} & names_of(pod["volumes"])
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_hub_on_one_machine_has_volumes_and_variables_of_users() -> None:
    found = made(MACHINE, folder="/output/people")
    pod = pod_of(found)
    (container,) = pod["containers"]
    assert container["image"] == "digits:1"
    assert {"SHAPE", "TOKEN", "CLUSTER_CONFIG", "WINDLASS_JOB"} < names_of(container["env"])
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert {"data", "output"} < names_of(pod["volumes"])
    assert {"data", "output"} < names_of(container["volumeMounts"])
    assert settings_of(found)["isLocal"] is True
    assert settings_of(found)["folder"] == "/output/people"


def test_pod_of_a_user_has_volumes_and_variables_of_job() -> None:
    wanted = Resources(cpus=2, memory="4Gi")
    body = user_pod(made(user_image="lab:1", resources=wanted))
    assert list(kubernetes_schemas.faults(body)) == []
    spec, (container,) = body["spec"], body["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert container["image"] == "lab:1"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert variables["SHAPE"] == "{8x8}"
    assert variables["HOME"] == "/windlass/home"
    assert json.loads(str(variables["CLUSTER_CONFIG"]))["worker"][1] == "worker-1.digits:2222"
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        *("/data", "/output", "/windlass/home"),
        "/dev/shm",  # noqa: S108 — in the container
    }
    assert names_of(spec["volumes"]) == {"data", "output", "windlass-home", "windlass-shm"}
    assert {"name": "windlass-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}} in spec["volumes"]
    assert spec["securityContext"] == {"runAsUser": 1000}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["automountServiceAccountToken"] is False


def test_hub_service_does_not_select_pods_of_users() -> None:
    found = made()
    labels = user_pod(found)["metadata"]["labels"]
    assert labels == {"team": "vision", names.JOB_LABEL: "digits"}
    assert not found["Service"]["spec"]["selector"].items() <= labels.items()


def annotations(found: dict[str, Json]) -> Json:
    of_the_pod: Json = found["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    return of_the_pod


OTHER = ResolvedCompanions(hashes={Companion.HUB: {"ana": passwords.hub_hash("correct horse")}})
CHANGES: dict[str, tuple[dict[str, Json], set[str]]] = {
    "nothing": (made(), set()),
    "its users": (made(users=("ana",)), {names.CONFIGURATION_ANNOTATION}),
    "what is added to it": (made(config="c.JupyterHub.log_level = 10"), {names.CONFIGURATION_ANNOTATION}),
    "a password": (made(OTHER), {names.PASSWORD_ANNOTATION}),
}


@pytest.mark.parametrize(("after", "changed"), CHANGES.values(), ids=CHANGES)
def test_changed_configuration_replaces_pod(after: dict[str, Json], changed: set[str]) -> None:
    before = annotations(made())
    assert {key for key in before if before[key] != annotations(after)[key]} == changed


def test_hub_ports() -> None:
    found = made(port=8080)
    assert found["Service"]["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": 8080}]
    assert settings_of(found)["hubPort"] == HUB_INTERNAL_PORT


def test_shipped_files_compile() -> None:
    files = made(config="c.JupyterHub.log_level = 10")["ConfigMap"]["data"]
    programs = {name: text for name, text in files.items() if name.endswith(".py")}
    assert "added_config.py" in programs
    for name, text in programs.items():
        compile(text, name, "exec")
        assert "import windlass" not in text
        assert "from windlass" not in text


# Servers of users


def started(
    folder: Path,
    programs: str = "jupyterhub-singleuser jupyter-lab",
    words: list[str] | None = None,
    **variables: str,
) -> Any:
    tools = folder / "bin"
    tools.mkdir()
    for name in programs.split():
        program = tools / name
        program.write_text('#!/bin/sh\necho "$JUPYTERHUB_ROOT_DIR" "$@"; ls -l | sed 1d\n')
        program.chmod(0o755)
    words = words or settings_of(made(MACHINE))["start"]
    home = folder / "home"
    home.mkdir()
    return subprocess.run(  # noqa: S603
        [*words, "jupyterhub-singleuser", "--port=1"],
        env={"PATH": f"{tools}{os.pathsep}/usr/bin:/bin", "HOME": str(home), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_user_server_has_links_to_volumes_and_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "people" / "a b%"
    done = started(tmp_path, WINDLASS_NOTEBOOKS=str(folder))
    assert done.returncode == 0, done.stderr
    home = tmp_path / "home"
    assert done.stdout.splitlines()[0] == f"{home} --port=1"
    links = {each.name: str(each.readlink()) for each in home.iterdir() if each.is_symlink()}
    assert links == {"data": "/data", "output": "/output", "notebooks": str(folder)}
    assert folder.is_dir()


def test_notebooks_without_folder_are_in_home(tmp_path: Path) -> None:
    assert started(tmp_path, WINDLASS_NOTEBOOKS="").returncode == 0
    notebooks = tmp_path / "home" / "notebooks"
    assert notebooks.is_dir()
    assert not notebooks.is_symlink()


def test_volume_may_be_named_like_notebook_folder(tmp_path: Path) -> None:
    job = msgspec.structs.replace(JOB, volumes={"notebooks": Volume(at="/notebooks", pvc="n")})
    settings = settings_of(made(MACHINE, job=job))
    assert settings["notebooks"] == "windlass-notebooks"
    assert started(tmp_path, words=settings["start"], WINDLASS_NOTEBOOKS="").returncode == 0
    home = tmp_path / "home"
    assert str((home / "notebooks").readlink()) == "/notebooks"
    assert (home / "windlass-notebooks").is_dir()


@pytest.mark.parametrize("there", ["", "jupyter-lab", "jupyterhub-singleuser"])
def test_missing_program_is_reported_in_one_line(tmp_path: Path, there: str) -> None:
    done = started(tmp_path, there, PATH=str(tmp_path / "bin"))
    assert done.returncode == 127
    assert len(done.stderr.splitlines()) == 1
    assert "pip install jupyterhub jupyterlab" in done.stderr


def test_missing_jupyterhub_is_reported_in_one_line(tmp_path: Path) -> None:
    container = container_of(made(MACHINE))
    done = subprocess.run(  # noqa: S603
        container["command"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert len(done.stderr.splitlines()) == 1
    assert "pip install jupyterhub jupyterlab" in done.stderr


FOLDERS = {
    "ana": "ana",
    "ana@example.org": "ana@example.org",
    "..": "%2E.",
    ".hidden": "%2Ehidden",
    "a/b": "a%2Fb",
    "a%2Fb": "a%252Fb",
    "grüße": "gr%C3%BC%C3%9Fe",
}


@pytest.mark.parametrize(("user", "folder"), FOLDERS.items())
def test_folder_name_of_a_user(user: str, folder: str) -> None:
    assert hub_support.folder_of(user) == folder


@given(st.lists(st.text(min_size=1).filter(lambda user: user.isprintable()), unique=True))
def test_folder_names_are_unique_and_valid(users: list[str]) -> None:
    folders = [hub_support.folder_of(user) for user in users]
    assert len(set(folders)) == len(users)
    for folder in folders:
        assert "/" not in folder
        assert not folder.startswith(".")
        assert len(folder.encode()) <= 255


def test_long_user_names_have_different_folders() -> None:
    ends = {hub_support.folder_of("ü" * 200 + end) for end in "ab"}
    assert len(ends) == 2
    assert all(len(each) <= 255 for each in ends)


# Failed logins


def waits(*attempts: tuple[str, str, float]) -> list[float]:
    """Return the seconds to wait for each attempt: account, address and time. All of them fail."""
    limit = hub_support.LoginLimit()
    return [limit.start(*attempt, is_account=True) for attempt in attempts]


def test_attempts_at_the_same_time_count_before_they_fail() -> None:
    assert waits(*[("ana", "192.0.2.1", 0.0)] * 7) == [0, 0, 0, 0, 0, 1, 1]


def test_delay_doubles_up_to_a_minute() -> None:
    limit, now, delays = hub_support.LoginLimit(), 0.0, []
    for _ in range(14):
        if wait := limit.start("ana", "192.0.2.1", now, is_account=True):
            now += wait
            assert limit.start("ana", "192.0.2.1", now, is_account=True) == 0
        delays.append(wait)
    assert delays == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(
    "other", [("ben", "192.0.2.1", 0.0), ("ana", "192.0.2.2", 0.0), ("ana", "192.0.2.1", 901.0)], ids=str
)
def test_other_accounts_and_addresses_are_not_delayed(other: tuple[str, str, float]) -> None:
    assert waits(*[("ana", "192.0.2.1", 0.0)] * 6, other)[-2:] == [1, 0]


def test_successful_login_resets_the_delay() -> None:
    limit = hub_support.LoginLimit()
    for _ in range(20):
        assert limit.start("ana", "192.0.2.1", 0, is_account=True) == 0
        limit.succeeded("ana", "192.0.2.1")


@pytest.mark.parametrize(
    ("first", "second", "delay"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", 1),
        ("2001:db8::1", "2001:db8:0:1::1", 0),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", 0),
        ("::ffff:192.0.2.1", "192.0.2.1", 1),
        ("fe80::1%eth0", "fe80::2%eth0", 1),
    ],
)
def test_addresses_of_one_ipv6_network_count_together(first: str, second: str, delay: float) -> None:
    assert waits(*[("ana", first, 0.0)] * 5, ("ana", second, 0.0))[-1] == delay


def test_invented_names_do_not_reset_the_delay_of_an_account() -> None:
    limit = hub_support.LoginLimit()
    for _ in range(5):
        limit.start("ana", "192.0.2.1", 0, is_account=True)
    for number in range(limit.MAX_ENTRIES + 5):
        limit.start(f"nobody{number}", "192.0.2.1", 0, is_account=False)
    assert limit.start("ana", "192.0.2.1", 0, is_account=True) == 1
    assert limit.start("nobody9999", "192.0.2.1", 0, is_account=False) == 0


@pytest.mark.parametrize("is_account", [True, False])
def test_remembered_failures_are_bounded_and_expire(is_account: bool) -> None:
    limit = hub_support.LoginLimit()
    for number in range(limit.MAX_ENTRIES + 5):
        limit.start("a" * 1000, str(number), 0, is_account=is_account)
    table = limit._failures[is_account]
    assert len(table) == limit.MAX_ENTRIES
    assert {len(key) for key in table} == {32}
    limit.start("ben", "192.0.2.1", limit.FORGET_AFTER_SECONDS + 1, is_account=is_account)
    assert len(table) == 1
