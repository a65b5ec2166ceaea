"""The pods of MPI jobs: who gets the key, and which commands run."""

from typing import Any

import pytest

from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render import prerequisites, ssh
from windlass.render.framework import builder, completion, pods

LAUNCH, SSHD = "/windlass/ssh/launch", "/windlass/ssh/sshd"


def job(**fields: Any) -> Job:
    roles = {"launcher": Role(), "worker": Role(tasks=2)}
    given: dict[str, Any] = {"name": "pi", "runtime": Runtime.MPI, "command": "mpirun x", "roles": roles}
    return Job(**{**given, **fields})


def containers(wanted: Job) -> dict[str, Json]:
    """Return the first container of each role."""
    roles = builder.framework(wanted)["spec"]["taskRoles"]
    return {role["name"]: role["task"]["pod"]["spec"]["containers"][0] for role in roles}


def pod_command(*words: str) -> Json:
    return {"spec": {"containers": [{"name": "mpi", "command": list(words)}]}}


COMMANDS: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "the job's is the launcher's": ({}, {"launcher": [LAUNCH, "mpirun", "x"], "worker": [SSHD]}),
    "of the launcher": (
        {"command": None, "roles": {"launcher": Role(command="mpirun y"), "worker": Role()}},
        {"launcher": [LAUNCH, "mpirun", "y"], "worker": [SSHD]},
    ),
    "a worker's own": (
        {"roles": {"launcher": Role(), "worker": Role(command="serve")}},
        {"launcher": [LAUNCH, "mpirun", "x"], "worker": ["serve"]},
    ),
    "a worker's own in its pod": (
        {"roles": {"launcher": Role(), "worker": Role(pod=pod_command("serve"))}},
        {"launcher": [LAUNCH, "mpirun", "x"], "worker": ["serve"]},
    ),
    "a master is a launcher": (
        {"roles": {"master": Role(), "worker": Role()}},
        {"master": [LAUNCH, "mpirun", "x"], "worker": [SSHD]},
    ),
    "without a launcher, every worker runs the job's": ({"roles": {"worker": Role()}}, {"worker": ["mpirun", "x"]}),
    "a TensorBoard": (
        {"roles": {"launcher": Role(), "tensorboard": Role(command="board")}},
        {"launcher": [LAUNCH, "mpirun", "x"], "tensorboard": ["board"]},
    ),
    "another runtime": (
        {"runtime": Runtime.PLAIN},
        {"launcher": ["mpirun", "x"], "worker": ["mpirun", "x"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), COMMANDS.values(), ids=COMMANDS.keys())
def test_commands_of_roles(fields: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert {name: each["command"] for name, each in containers(job(**fields)).items()} == expected


def test_only_tasks_that_mpi_uses_have_the_key() -> None:
    roles = {"launcher": Role(), "worker": Role(), "jupyter": Role(command="lab")}
    framework = builder.framework(job(roles=roles))
    with_key = {
        role["name"]
        for role in framework["spec"]["taskRoles"]
        if any(
            volume.get("secret", {}).get("secretName") == "pi-ssh"
            for volume in role["task"]["pod"]["spec"].get("volumes") or ()
        )
    }
    assert with_key == {"launcher", "worker"}


def test_variables_of_the_job_override_those_of_mpi() -> None:
    found = containers(job(env={"HYDRA_ENV": "all"}))["launcher"]["env"]
    assert [each["value"] for each in found if each["name"] == "HYDRA_ENV"] == ["all"]


def test_slots_are_an_annotation_of_the_pod() -> None:
    wanted = job(roles={"launcher": Role(), "worker": Role(slots=4)})
    launcher, worker = (role["task"]["pod"] for role in builder.framework(wanted)["spec"]["taskRoles"])
    assert worker["metadata"]["annotations"] == {"windlass.dev/slots": "4"}
    assert "metadata" not in launcher


def test_workers_run_until_the_launcher_has_succeeded() -> None:
    wanted = job()
    assert completion.leaders(wanted) == ("launcher",)
    assert completion.is_endless(wanted, "worker")
    assert not completion.is_endless(wanted, "launcher")


def test_template_of_another_runtime_is_unchanged() -> None:
    wanted = job(runtime=Runtime.PYTORCH)
    template = pods.template(wanted, wanted.roles["worker"], None)
    assert ssh.with_ssh(template, wanted, "worker") is template


def test_annotation_requests_a_key_without_mpi() -> None:
    annotated = job(runtime=Runtime.PLAIN, annotations={"windlass.dev/ssh-key": "true"})
    assert [each.body["kind"] for each in prerequisites.objects_of(annotated)] == ["Secret"]
    assert "/windlass/ssh" not in str(containers(annotated))
    assert prerequisites.objects_of(job(runtime=Runtime.PLAIN)) == ()


def test_key_does_not_appear_in_representations() -> None:
    key = ssh.KeyPair("PRIVATE", "ssh-ed25519 AAAA")
    assert "PRIVATE" not in f"{key!r} {key} {[key]}"
    assert "PRIVATE" not in str(ssh.secret(job(), key)["data"]), "encoded"
