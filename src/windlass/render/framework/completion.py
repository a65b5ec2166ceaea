"""Derive completion policies from the runtime, unless a role sets one.

The first failure of a task ends the attempt, except for the tasks of notebooks and TensorBoards. A job succeeds as
follows:

* The tasks of endless roles (parameter servers, evaluators, idle servers, notebooks, TensorBoards) do not have to
  succeed.
* Some of the other roles are leaders: TensorFlow's chief, or its workers if there is no chief; MPI's launcher or
  master; without such a role, or with another runtime, all of them. If the job also has other roles, it succeeds
  when all tasks of any one leader role have succeeded.
* If all roles with tasks are leaders, no policy is needed: a job succeeds when all its tasks have succeeded.
"""

from collections.abc import Mapping

from windlass.model import role_names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import CompletionPolicySpec
from windlass.model.job import Job, Role
from windlass.render.framework import pods

_OBSERVERS = role_names.NON_MEMBERS - {"evaluator"}
"""Roles whose failures do not end the attempt."""
_MPI_LEADERS = frozenset({"launcher", "master"})
_NEVER = -1


def policies(job: Job) -> dict[str, CompletionPolicySpec]:
    """Return the policies by role."""
    leader_names = leaders(job)
    has_others = has_non_leaders(job)
    return {
        name: role.completion or _policy(name, role, is_counted=name in leader_names and has_others)
        for name, role in job.roles.items()
    }


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
    if job.runtime is not Runtime.TENSORFLOW:
        return False
    return role_names.type_of(name) == "ps" or is_idle_server(job, name)


def is_idle_server(job: Job, name: str) -> bool:
    """Return whether the tasks of the role have no command and therefore run a TensorFlow server."""
    is_member = job.runtime is Runtime.TENSORFLOW and role_names.is_member(name)
    return is_member and not has_command(job, job.roles[name])


def has_command(job: Job, role: Role) -> bool:
    """Return whether the role or the job sets a command, or its `pod` sets a command or arguments for the tasks."""
    is_set = role.command is not None or job.command is not None
    return is_set or any(_has_command(pod, pods.container_name(job)) for pod in (job.pod, role.pod))


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
        return tuple(name for name in finite_roles if name in _MPI_LEADERS), all_roles
    return (all_roles,)


def _policy(name: str, role: Role, *, is_counted: bool) -> CompletionPolicySpec:
    return CompletionPolicySpec(
        min_failed_task_count=_NEVER if name in _OBSERVERS else 1,
        min_succeeded_task_count=role.tasks if is_counted else _NEVER,
    )
