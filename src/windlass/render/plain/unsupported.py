"""Features of a job that plain objects cannot express: errors and warnings."""

import re
from collections.abc import Iterator

import msgspec

from windlass.model import names
from windlass.model.job import Job, Role
from windlass.render.framework import pods
from windlass.render.plain import manifests
from windlass.render.plain import roles as plain_roles
from windlass.render.plain.roles import PlainRole

_STATEFUL_SET_LIMIT = 52
"""Maximum length of the name of a StatefulSet: the value of a pod label is this name and eleven more characters."""
_CONFIG_MAP_LIMIT = 1024 * 1024
_FC_VARIABLES = re.compile(r"(?<!\$)\$\((FC_[A-Z_]+)\)")
_FRAMEWORK_HINT = "use --target framework, for a cluster with Windlass"


def errors(job: Job, prefix: str | None = None) -> Iterator[str]:
    """Yield the reasons why plain objects cannot express a job. `prefix` is the prefix of the task names."""
    original = job.annotations.get(names.CONVERTED_ANNOTATION)
    if original is not None:
        yield f"the job {job.name} was converted from {original}, whose policies need the controller: {_FRAMEWORK_HINT}"
        return
    roles = tuple(role for role in plain_roles.roles_of(job, prefix=prefix) if role.tasks > 0)
    found = [*_check_names(job, prefix, roles), *(each for role in roles for each in _check_role(job, role))]
    yield from found
    if not found:
        yield from _check_size(job, prefix)


def warnings(job: Job) -> Iterator[str]:
    """Yield warnings about features that are lost without a controller."""
    if job.barrier:
        yield f"the job {job.name} has a barrier, which needs the controller: its tasks start independently"
    if job.pending_deadline is not None:
        yield f"the job {job.name} has a pendingDeadline, which needs the controller: its tasks may stay pending"
    roles_with_completion = [name for name, role in job.roles.items() if role.completion is not None]
    if roles_with_completion:
        yield (
            f"the job {job.name} sets the completion of {' and '.join(roles_with_completion)}, which needs the "
            "controller: each role ends independently of the others"
        )
    if job.completion is not None:
        yield (
            f"the job {job.name} sets completion.task, which needs the controller: the other tasks run on after "
            f"{job.completion.task} has succeeded"
        )
    ordered_roles = [name for name, role in job.roles.items() if role.after]
    if ordered_roles:
        yield (
            f"the job {job.name} sets after of {' and '.join(ordered_roles)}, which needs the controller: the roles "
            "start at the same time"
        )
    if job.framework:
        fields = " and ".join(f"framework.{name}" for name in job.framework)
        yield f"the job {job.name} sets {fields}, which only Frameworks have: plain objects do not have these fields"
    controller_variables = sorted(
        {name for role in job.roles.values() for name in _controller_variables(job, role)}
    )
    if controller_variables:
        yield (
            f"the job {job.name} uses {' and '.join(controller_variables)}, which only the controller sets: the text "
            "is not expanded"
        )


def _controller_variables(job: Job, role: Role) -> list[str]:
    return _FC_VARIABLES.findall(msgspec.json.encode(pods.template(job, role, None)).decode())


def _check_names(job: Job, prefix: str | None, roles: tuple[PlainRole, ...]) -> Iterator[str]:
    """Check names of Services, which must begin with a letter, and lengths of names."""
    first = job.name if prefix is None else prefix
    name_starts = (first, *(role.name for role in roles if not first))
    for start in (start for start in name_starts if start[:1].isdigit()):
        yield (
            f"the job {job.name}: {start} begins with a digit: expected a letter, because it is part of Service names. "
            "Rename it"
        )
    for role in roles:
        limits = {role.task_name(role.tasks - 1): names.HOSTNAME_LIMIT}
        if role.is_endless:
            limits[role.workload] = _STATEFUL_SET_LIMIT
        too_long = [(name, limit) for name, limit in limits.items() if len(name) > limit]
        for name, limit in too_long[:1]:
            yield (
                f"the job {job.name}: {name} has {len(name)} characters, but the limit is {limit}. Shorten the name of "
                f"the job, or that of the role {role.name}"
            )


def _check_role(job: Job, role: PlainRole) -> Iterator[str]:
    where = f"the job {job.name}: the role {role.name}"
    if not role.main.get("command"):
        yield (f"{where} has args but no command: the command of its image is not known. Set the command")
    mounts = role.main.get("volumeMounts") or ()
    if any(mount.get("mountPath") == manifests.CLUSTER_FOLDER for mount in mounts):
        yield (
            f"{where} has a volume at {manifests.CLUSTER_FOLDER}, the folder with the addresses of the tasks. "
            "Choose another path"
        )


def _check_size(job: Job, prefix: str | None) -> Iterator[str]:
    without_data = msgspec.structs.replace(job, needs=(), load_data=())
    cluster, *_ = manifests.plain(without_data, prefix=prefix)
    size = sum(len(text.encode()) for text in cluster.body["data"].values())
    if size > _CONFIG_MAP_LIMIT:
        yield (
            f"the job {job.name} has too many tasks: their addresses take {size} bytes, and a ConfigMap holds "
            f"{_CONFIG_MAP_LIMIT}. Use fewer tasks, or {_FRAMEWORK_HINT}"
        )
