"""What a job says that no plain object can: refused, or left out with a word about it."""

import re
from collections.abc import Iterator

import msgspec

from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render.framework import pods
from windlass.render.plain import manifests
from windlass.render.plain import roles as plain_roles
from windlass.render.plain.roles import PlainRole

_STATEFUL_SET_LIMIT = 52
"""Its pods have a label that is its name and eleven characters more."""
_CONFIG_MAP_LIMIT = 1024 * 1024
_FC_VARIABLES = re.compile(r"(?<!\$)\$\((FC_[A-Z_]+)\)")
_FRAMEWORK = "render it with --target framework, for a cluster where Windlass is installed"


def refusals(job: Job, prefix: str | None = None) -> Iterator[str]:
    """Why it cannot be had without a controller. `prefix` is as `plain.plain` has it."""
    if job.runtime is Runtime.MPI:
        yield (
            f"the job {job.name} has the runtime mpi: mpirun reaches its other tasks by what the controller of "
            f"Windlass writes into their pods, and without it nobody does. Write another runtime, or {_FRAMEWORK}"
        )
        return
    roles = tuple(role for role in plain_roles.roles_of(job, prefix=prefix) if role.tasks > 0)
    found = [*_check_names(job, prefix, roles), *(each for role in roles for each in _check_role(job, role))]
    yield from found
    if not found:
        yield from _check_size(job, prefix)


def notes(job: Job) -> Iterator[str]:
    """What is lost without a controller, and is not refused for that."""
    if job.barrier:
        yield f"the job {job.name} has a barrier: without the controller its tasks start one by one, as they can"
    if job.pending_deadline is not None:
        yield f"the job {job.name} has a pendingDeadline: without the controller its tasks wait for as long as it takes"
    decided = [name for name, role in job.roles.items() if role.completion is not None]
    if decided:
        yield (
            f"the job {job.name} says of {' and '.join(decided)} when it has succeeded or failed: without the "
            "controller each role ends by itself, and ends no other one"
        )
    unknown = sorted({name for role in job.roles.values() for name in _of_the_controller(job, role)})
    if unknown:
        yield (
            f"the job {job.name} uses {' and '.join(unknown)}, which only the controller says: without it the text "
            "stays as it is written"
        )


def _of_the_controller(job: Job, role: Role) -> list[str]:
    return _FC_VARIABLES.findall(msgspec.json.encode(pods.template(job, role, None)).decode())


def _check_names(job: Job, prefix: str | None, roles: tuple[PlainRole, ...]) -> Iterator[str]:
    """A Service is called as a host is, from a letter on."""
    first = job.name if prefix is None else prefix
    begins_with_a_digit = [
        each for each in (first, *(role.name for role in roles if not first)) if each[:1].isdigit()
    ]
    for each in begins_with_a_digit:
        yield (
            f"the job {job.name}: {each} begins with a digit: expected a letter, for Services are called after it. "
            "Rename it"
        )
    for role in roles:
        limits = {role.task(role.tasks - 1): names.HOSTNAME_LIMIT}
        if role.is_endless:
            limits[role.workload] = _STATEFUL_SET_LIMIT
        too_long = [(called, limit) for called, limit in limits.items() if len(called) > limit]
        for called, limit in too_long[:1]:
            yield (
                f"the job {job.name}: {called} has {len(called)} characters, and may have {limit}. Shorten the name of "
                f"the job, or that of the role {role.name}"
            )


def _check_role(job: Job, role: PlainRole) -> Iterator[str]:
    where = f"the job {job.name}: the role {role.name}"
    if not role.main.get("command"):
        yield (
            f"{where} has args and no command: what its image runs is not known, and cannot be told of the other "
            "tasks. Write the command"
        )
    mounts = role.main.get("volumeMounts") or ()
    if any(mount.get("mountPath") == manifests.CLUSTER_FOLDER for mount in mounts):
        yield (
            f"{where} has a volume at {manifests.CLUSTER_FOLDER}, where tasks find who the others are. "
            "Choose another path"
        )


def _check_size(job: Job, prefix: str | None) -> Iterator[str]:
    alone = msgspec.structs.replace(job, needs=(), load_data=())
    cluster, *_ = manifests.plain(alone, prefix=prefix)
    size = sum(len(text.encode()) for text in cluster.body["data"].values())
    if size > _CONFIG_MAP_LIMIT:
        yield (
            f"the job {job.name} has so many tasks that what each is told of the others is {size} bytes, and a "
            f"ConfigMap holds {_CONFIG_MAP_LIMIT}. Write fewer tasks, or {_FRAMEWORK}"
        )
