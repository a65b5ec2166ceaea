"""Derive completion policies from the runtime, unless a role sets one.

The first failure of a task ends the attempt, except for the tasks of notebooks and TensorBoards. A job succeeds as
follows:

* The tasks of endless roles (parameter servers, evaluators, idle servers, workers of MPI, notebooks, TensorBoards) do
  not have to succeed.
* Some of the other roles are leaders: TensorFlow's chief, or its workers if there is no chief; MPI's launcher or
  master; without such a role, or with another runtime, all of them. If the job also has other roles, it succeeds
  when all tasks of any one leader role have succeeded.
* If all roles with tasks are leaders, no policy is needed: a job succeeds when all its tasks have succeeded.
* An elastic role has succeeded when its minimum number of tasks has: torchrun ends at once in all tasks that train. A
  task that is being retried at that moment can no longer succeed.
"""

from collections.abc import Mapping

import msgspec

from windlass.model import role_names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import CompletionPolicySpec
from windlass.model.job import Job, Role
from windlass.render.framework import pods

_OBSERVERS = role_names.NON_MEMBERS - {"evaluator"}
"""Roles whose failures do not end the attempt."""
MPI_LEADERS = frozenset({"launcher", "master"})
_NEVER = -1


def policies(job: Job) -> dict[str, CompletionPolicySpec]:
    leader_names = leaders(job) if job.completion is None else ()
    are_counted = has_non_leaders(job) or bool(job.elastic_ranges)
    return {
        name: role.completion or _policy(name, role, is_counted=name in leader_names and are_counted)
        for name, role in job.roles.items()
    }


def job_completion(job: Job) -> Json:
    """Return the field of the Framework for a job whose success is that of one task."""
    if job.completion is None:
        return {}
    role, _, index = job.completion.task.rpartition("-")
    rule = {
        "name": f"{job.completion.task} succeeded",
        "taskRoles": [role],
        "taskIndexes": index,
        "minSucceededTaskCount": 1,
    }
    return {"completionPolicies": [rule]}


def leaders(job: Job) -> tuple[str, ...]:
    """Return the roles that decide the success of the job by default, in the order of the file. The result
    is empty if no role with tasks ends by itself."""
    finite_roles = {
        name: role for name, role in job.roles.items() if role.tasks > 0 and not is_endless(job, name)
    }
    return next((chosen for chosen in _leader_candidates(job.runtime, finite_roles) if chosen), ())


def has_non_leaders(job: Job) -> bool:
    """Return whether the job has roles besides the leaders. A role without tasks counts if it is endless: if it is
    scaled up later, its tasks never succeed, and the job must not wait for them."""
    others = {name: role for name, role in job.roles.items() if name not in leaders(job)}
    return any(role.tasks > 0 or is_endless(job, name) for name, role in others.items())


def is_endless(job: Job, name: str) -> bool:
    """Return whether the tasks of the role run until they are stopped."""
    if name in role_names.NON_MEMBERS:
        return True
    if job.runtime is Runtime.MPI:
        return is_ssh_server(job, name)
    if job.runtime is not Runtime.TENSORFLOW:
        return False
    return role_names.type_of(name) == "ps" or is_idle_server(job, name)


def is_idle_server(job: Job, name: str) -> bool:
    """Return whether the tasks of the role run an idle TensorFlow server."""
    return bool(_idle(job, name)) and name in commandless_roles(job)


def runs_entrypoint(job: Job, name: str) -> bool:
    """Return whether the tasks of the role run the entrypoint of their image, as the job says with `idle: false`."""
    role = job.roles[name]
    return _idle(job, name) is False and bool(role.image or job.image) and not has_command(job, role)


def commandless_roles(job: Job) -> tuple[str, ...]:
    """Return the roles of TensorFlow's cluster without a command: each runs idle servers, or the entrypoint of its
    image."""
    if job.runtime is not Runtime.TENSORFLOW:
        return ()
    members = (name for name in job.roles if role_names.is_member(name))
    return tuple(name for name in members if not has_command(job, job.roles[name]))


def undecided_roles(job: Job) -> tuple[str, ...]:
    """Return the commandless roles of a job that does not set `idle` for them."""
    return tuple(name for name in commandless_roles(job) if _idle(job, name) is None)


def without_entrypoints(job: Job) -> Job:
    """Return the job for a target that does not know the entrypoints of images: undecided roles are idle servers there,
    as they were before there was `idle`."""
    idle = {name: msgspec.structs.replace(job.roles[name], idle=True) for name in undecided_roles(job)}
    return msgspec.structs.replace(job, roles={**job.roles, **idle})


def _idle(job: Job, name: str) -> bool | None:
    """Return the field `idle` of the role, otherwise of the job."""
    role = job.roles[name]
    return job.idle if role.idle is None else role.idle


def is_ssh_server(job: Job, name: str) -> bool:
    """Return whether the tasks of the role run sshd for mpirun: a job with a launcher needs no other command for its
    workers, and the command of the job is the launcher's."""
    is_worker = role_names.is_member(name) and name not in MPI_LEADERS
    has_launcher = not MPI_LEADERS.isdisjoint(job.roles)
    role = job.roles[name]
    return (
        job.runtime is Runtime.MPI
        and is_worker
        and has_launcher
        and role.command is None
        and not _has_command_in_pod(job, role)
    )


def has_command(job: Job, role: Role) -> bool:
    """Return whether the role or the job sets a command, or its `pod` sets a command or arguments for the tasks."""
    return pods.command_of(job, role) is not None or _has_command_in_pod(job, role)


def _has_command_in_pod(job: Job, role: Role) -> bool:
    return any(_has_command(pod, pods.container_name(job, role)) for pod in (job.pod, role.pod))


def _has_command(pod: Json, name: str) -> bool:
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return any(
        container.get("command") or container.get("args")
        for container in containers or ()
        if container.get("name") == name
    )


def _leader_candidates(runtime: Runtime, finite_roles: Mapping[str, Role]) -> tuple[tuple[str, ...], ...]:
    """Return groups of roles that may be the leaders. The first group that is not empty is used."""
    types = {name: role_names.type_of(name) for name in finite_roles}
    all_roles = tuple(finite_roles)
    if runtime is Runtime.TENSORFLOW:
        chiefs = tuple(name for name, task_type in types.items() if task_type == "chief")
        workers = tuple(name for name, task_type in types.items() if task_type == "worker")
        return chiefs, workers, all_roles
    if runtime is Runtime.MPI:
        return tuple(name for name in finite_roles if name in MPI_LEADERS), all_roles
    return (all_roles,)


def _policy(name: str, role: Role, *, is_counted: bool) -> CompletionPolicySpec:
    needed = role.tasks if role.elastic is None else role.elastic.min
    return CompletionPolicySpec(
        min_failed_task_count=_NEVER if name in _OBSERVERS else 1,
        min_succeeded_task_count=needed if is_counted else _NEVER,
    )
