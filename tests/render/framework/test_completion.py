"""Completion policies by runtime, and those that a role sets."""

import msgspec
import pytest

from windlass.model.feature_annotations import Runtime
from windlass.model.framework import CompletionPolicySpec
from windlass.model.job import Job, Role
from windlass.render.framework import completion

NEVER = (-1, -1)
FAILS = (1, -1)

TF, TORCH, JAX, MPI, PLAIN = Runtime.TENSORFLOW, Runtime.PYTORCH, Runtime.JAX, Runtime.MPI, Runtime.PLAIN

CASES: dict[str, tuple[Runtime, dict[str, int], dict[str, tuple[int, int]]]] = {
    # runtime, tasks by role, (minFailed, minSucceeded) by role
    "ps and workers": (TF, {"ps": 2, "worker": 3}, {"ps": FAILS, "worker": (1, 3)}),
    "by other names": (TF, {"pserver": 1, "workers": 2}, {"pserver": FAILS, "workers": (1, 2)}),
    "a chief": (TF, {"chief": 1, "ps": 1, "worker": 2}, {"chief": (1, 1), "ps": FAILS, "worker": FAILS}),
    "a master": (TF, {"master": 1, "worker": 2}, {"master": (1, 1), "worker": FAILS}),
    "a chief of no tasks": (TF, {"chief": 0, "worker": 2}, {"chief": FAILS, "worker": FAILS}),
    "workers alone": (TF, {"worker": 2}, {"worker": FAILS}),
    "an evaluator": (TF, {"worker": 2, "evaluator": 1}, {"worker": (1, 2), "evaluator": FAILS}),
    "notebooks and TensorBoards": (
        TF,
        {"worker": 1, "tensorboard": 1, "jupyter": 1, "notebook": 1},
        {"worker": (1, 1), "tensorboard": NEVER, "jupyter": NEVER, "notebook": NEVER},
    ),
    "another role of TensorFlow": (TF, {"ps": 1, "trainer": 2}, {"ps": FAILS, "trainer": (1, 2)}),
    "PyTorch": (TORCH, {"master": 1, "worker": 2}, {"master": FAILS, "worker": FAILS}),
    "PyTorch with a role of no tasks": (
        TORCH, {"master": 1, "worker": 2, "extra": 0}, {"master": FAILS, "worker": FAILS, "extra": FAILS}
    ),
    "PyTorch with a TensorBoard": (TORCH, {"worker": 2, "tensorboard": 1}, {"worker": (1, 2), "tensorboard": NEVER}),
    "JAX": (JAX, {"worker": 4}, {"worker": FAILS}),
    "MPI": (MPI, {"launcher": 1, "worker": 2}, {"launcher": (1, 1), "worker": FAILS}),
    "MPI without a launcher": (MPI, {"worker": 2}, {"worker": FAILS}),
    "plain": (PLAIN, {"a": 1, "ps": 2}, {"a": FAILS, "ps": FAILS}),
}  # fmt: skip


@pytest.mark.parametrize(("runtime", "tasks", "expected"), CASES.values(), ids=CASES.keys())
def test_completion_policies_by_runtime(
    runtime: Runtime, tasks: dict[str, int], expected: dict[str, tuple[int, int]]
) -> None:
    roles = {name: Role(tasks=number) for name, number in tasks.items()}
    found = completion.policies(Job(name="job", runtime=runtime, command="run", roles=roles))
    assert {
        name: (policy.min_failed_task_count, policy.min_succeeded_task_count)
        for name, policy in found.items()
    } == expected


def test_completion_policy_of_role_is_used() -> None:
    own = CompletionPolicySpec(min_failed_task_count=2, min_succeeded_task_count=3)
    roles = {"worker": Role(tasks=4, completion=own), "ps": Role()}
    assert completion.policies(Job(name="job", runtime=TF, command="run", roles=roles))["worker"] == own


def test_idle_servers_are_not_waited_for() -> None:
    """Idle workers are driven by a notebook. The role with a command decides."""
    roles = {"ps": Role(), "worker": Role(tasks=2), "driver": Role(command="python drive.py")}
    job = Job(name="job", runtime=TF, idle=True, roles=roles)
    assert completion.leaders(job) == ("driver",)
    assert [name for name in roles if completion.is_idle_server(job, name)] == ["ps", "worker"]
    assert completion.leaders(Job(name="job", runtime=TF, idle=True, roles={"worker": Role()})) == ()


IDLE: dict[str, tuple[Job, list[str], tuple[str, ...]]] = {
    "the job": (Job(name="job", idle=True, roles={"ps": Role(), "worker": Role()}), ["ps", "worker"], ()),
    "one role": (Job(name="job", roles={"ps": Role(idle=True), "worker": Role()}), ["ps"], ("worker",)),
    "the job, but not a role": (
        Job(name="job", idle=True, roles={"ps": Role(), "worker": Role(idle=False)}),
        ["ps"],
        (),
    ),
    "a role instead of the job's command": (
        Job(name="job", command="run", roles={"ps": Role(idle=True), "worker": Role()}),
        ["ps"],
        (),
    ),
    "not a role with a command": (
        Job(name="job", idle=True, roles={"ps": Role(), "worker": Role(command="run")}),
        ["ps"],
        (),
    ),
    "not a notebook": (Job(name="job", idle=True, roles={"ps": Role(), "jupyter": Role()}), ["ps"], ()),
    "nobody says": (Job(name="job", roles={"ps": Role(), "worker": Role()}), [], ("ps", "worker")),
}


@pytest.mark.parametrize(("job", "idle", "undecided"), IDLE.values(), ids=IDLE)
def test_idle_servers_are_requested_by_job_or_role(
    job: Job, idle: list[str], undecided: tuple[str, ...]
) -> None:
    """Without entrypoints, undecided roles are idle servers too."""
    job = msgspec.structs.replace(job, runtime=TF)
    assert [name for name in job.roles if completion.is_idle_server(job, name)] == idle
    assert completion.undecided_roles(job) == undecided
    old = completion.without_entrypoints(job)
    assert [name for name in old.roles if completion.is_idle_server(old, name)] == [*idle, *undecided]


def test_command_in_pod_counts_as_command() -> None:
    own = {"spec": {"containers": [{"name": "tensorflow", "args": ["--serve"]}]}}
    beside = {"spec": {"containers": [{"name": "exporter", "command": ["export"]}]}}
    job = Job(name="job", runtime=TF, roles={"a": Role(pod=own), "b": Role(pod=beside)})
    assert completion.has_command(job, job.roles["a"])
    assert not completion.has_command(job, job.roles["b"])
