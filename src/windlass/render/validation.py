"""Check a job: its file, its roles and mount paths, and the Framework that is rendered from it.

The Framework is checked like any other Framework. Its diagnostics refer to the lines of the job file that they come
from.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from windlass.jobfile import reader
from windlass.jobfile import volumes as jobfile_volumes
from windlass.model import role_names
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.model.job import Job, Role
from windlass.render import code, source_map, ssh, ssh_scripts
from windlass.render.framework import builder, completion
from windlass.render.storage import volumes
from windlass.wire import diagnostics, semantic_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import framework
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

_FILE = "job"
_COMPANION_FOLDER = "/windlass/"
"""Parent of the folders of JupyterLab and JupyterHub."""


class FileProblem(msgspec.Struct, frozen=True):
    """A problem with a file that a job names."""

    keys: tuple[str, ...]
    """The path of the field, e.g. `("loadData", "0", "folder")`."""
    message: str
    is_error: bool = True


FileCheck = Callable[[Job], Iterable[FileProblem]]
"""A function that checks the files that a job names. This package does no I/O."""


def check(node: tree.Node, path: str, check_files: FileCheck | None = None) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a job at `path` of its document."""
    found = list(islice(reader.check(node, path), diagnostics.MAX_DIAGNOSTICS + 1))
    yield from found
    if any(diagnostic.is_error for diagnostic in found) or not isinstance(node, tree.Mapping):
        return
    job = reader.job_of(node)
    job_diagnostics = [
        *_check_commands(node, job, path),
        *_check_idle(node, job, path),
        *_check_slots(node, job, path),
        *_check_completion(node, job, path),
        *_check_leaders(node, job, path),
        *_check_elastic(node, job, path),
        *_check_mount_paths(node, job, path),
    ]
    yield from job_diagnostics
    if any(diagnostic.is_error for diagnostic in job_diagnostics):
        return
    reported = {diagnostic.message for diagnostic in found}
    for diagnostic in _check_framework(node, job, path):
        if diagnostic.message not in reported:
            yield diagnostic
    if check_files is not None:
        yield from (_file_diagnostic(problem, node, path) for problem in check_files(job))


def _file_diagnostic(problem: FileProblem, node: tree.Mapping, path: str) -> Diagnostic:
    position: tree.Node = node
    for key in problem.keys:
        items = tree.items_of(position)
        position = (items[int(key)] if items else tree.dig(position, key)) or position
        path = diagnostics.item(path, int(key)) if items else diagnostics.field(path, key)
    if problem.is_error:
        return diagnostics.error(position, path, problem.message, Rule.MISSING_FILE)
    return diagnostics.warning(position, path, problem.message, Rule.MISSING_FILE)


def diagnostics_of(job: Job) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a job without a file. Only their paths are meaningful, not their lines."""
    parsed = yaml_parse.parse(msgspec.json.encode(job))
    found = [] if parsed.failure is None else [parsed.failure]
    for document in parsed.documents:
        found += [*document.diagnostics, *check(document.root, "")]
    return diagnostics.collect(found, _FILE)


def _check_commands(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Check that each role has a command, except idle servers and roles that run the entrypoint of their image."""
    commandless, undecided = completion.commandless_roles(job), completion.undecided_roles(job)
    for name, role in job.roles.items():
        has_command = (
            completion.has_command(job, role)
            or completion.is_ssh_server(job, name)
            or completion.is_idle_server(job, name)
            or completion.runs_entrypoint(job, name)
        )
        if role.tasks == 0 or has_command:
            continue
        position, at = _role_location(node, name, path)
        if name in undecided:
            message = (
                "the role has no command, so its tasks run the entrypoint of their image. On this machine and with "
                "`--target plain`, where entrypoints are unknown, this release still runs idle TensorFlow servers "
                "instead. Add a command, `idle: true` for idle servers, or `idle: false` for the entrypoint"
            )
            yield diagnostics.warning(position, at, message, Rule.NO_COMMAND)
        elif name not in commandless or not (role.image or job.image):
            message = "neither the role nor the job has a command: add one"
            yield diagnostics.error(position, at, message, Rule.MISSING_FIELD)


def _check_slots(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    for name, role in job.roles.items():
        if role.slots is not None and job.runtime is not Runtime.MPI:
            position = tree.dig(node, "roles", name, "slots") or node
            message = f"found slots with the runtime {job.runtime}: only mpi has slots. Remove the field"
            yield diagnostics.error(position, diagnostics.field(path, "roles", name, "slots"), message)
        yield from _check_processes(
            tree.dig(node, "roles", name), role, job, diagnostics.field(path, "roles", name)
        )
    yield from _check_processes(node, job, job, path)


def _check_processes(node: tree.Node | None, owner: Job | Role, job: Job, path: str) -> Iterator[Diagnostic]:
    position = tree.dig(node, "processesPerTask")
    if position is None or owner.processes_per_task is None:
        return
    problem = ""
    if job.runtime not in (Runtime.MPI, Runtime.PYTORCH):
        problem = (
            f"found processesPerTask with the runtime {job.runtime}: only pytorch and mpi have it. Remove it"
        )
    elif job.runtime is Runtime.MPI and not isinstance(owner.processes_per_task, int):
        problem = (
            f"found {owner.processes_per_task} with the runtime mpi, expected a number. Without the field, a task has "
            "one process per GPU, or per CPU without GPUs"
        )
    elif isinstance(owner, Role) and owner.slots is not None:
        problem = "found slots and processesPerTask, which mean the same: remove one of them"
    if problem:
        yield diagnostics.error(position, diagnostics.field(path, "processesPerTask"), problem)


def _check_idle(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Check that roles with `idle: true` belong to TensorFlow's cluster and have no command."""
    if job.idle and job.command is not None:
        yield _idle_error(node, path, "the job has a command", "one of them, or set idle in roles")
    if job.idle and job.runtime is not Runtime.TENSORFLOW:
        yield _idle_error(node, path, f"the job has the runtime {job.runtime}", "it, or use tensorflow")
    for name, role in job.roles.items():
        role_node, at = tree.dig(node, "roles", name) or node, diagnostics.field(path, "roles", name)
        if role.idle and completion.has_command(job, role):
            yield _idle_error(role_node, at, "the role has a command", "one of them")
        elif role.idle and job.runtime is not Runtime.TENSORFLOW:
            yield _idle_error(
                role_node, at, f"the job has the runtime {job.runtime}", "it, or use tensorflow"
            )
        elif role.idle and not role_names.is_member(name):
            yield _idle_error(role_node, at, f"{name} is not part of TensorFlow's cluster", "it")


def _idle_error(node: tree.Node, path: str, reason: str, removed: str) -> Diagnostic:
    message = f"found idle: true for TensorFlow servers, but {reason}: remove {removed}"
    return diagnostics.error(tree.dig(node, "idle") or node, diagnostics.field(path, "idle"), message)


def _check_leaders(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Warn if no role ends by itself, or if the job ends as soon as one of several roles has succeeded."""
    leaders = completion.leaders(job)
    default_leaders = [name for name in leaders if job.roles[name].completion is None]
    has_completion = any(role.completion is not None for role in job.roles.values())
    if not leaders and not has_completion:
        message = (
            "no role ends by itself: the job runs until it is stopped. If that is not intended, add a role that ends, "
            "e.g. worker, or set a completion"
        )
        at = diagnostics.field(path, "roles")
        yield diagnostics.warning(node.keys["roles"], at, message, Rule.NEVER_EXITS)
    if len(default_leaders) > 1 and completion.has_non_leaders(job):
        message = (
            f"{' and '.join(default_leaders)} all decide the result: the job ends as soon as all tasks of one of them "
            "have succeeded, whatever the other roles do. Merge these roles, or set a completion"
        )
        yield diagnostics.warning(*_role_location(node, default_leaders[1], path), message)


def _check_completion(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Check that the task of `completion` and the roles of `after` exist."""
    if job.completion is not None:
        role, _, index = job.completion.task.rpartition("-")
        if role not in job.roles or int(index) >= job.roles[role].tasks:
            known = [f"{name}-0 to {name}-{role.tasks - 1}" for name, role in job.roles.items() if role.tasks]
            message = (
                f"found {diagnostics.quoted(job.completion.task)}, but the job has {' and '.join(known)}"
            )
            position = tree.dig(node, "completion", "task") or node
            yield diagnostics.error(position, diagnostics.field(path, "completion", "task"), message)
    for name, role_spec in job.roles.items():
        for other in role_spec.after:
            if other not in job.roles:
                at = diagnostics.field(path, "roles", name, "after")
                advice = diagnostics.did_you_mean(other, tuple(job.roles))
                message = f"unknown role {diagnostics.quoted(other)}. {advice}"
                yield diagnostics.error(tree.dig(node, "roles", name, "after") or node, at, message)


def _check_elastic(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    for name, tasks in job.elastic_ranges.items():
        role, problem = job.roles[name], ""
        if job.runtime is not Runtime.PYTORCH:
            problem = f"found the runtime {job.runtime}, but only pytorch has elastic roles: remove elastic"
        elif not role_names.is_member(name):
            problem = f"tasks of {name} do not take part in the training: remove elastic"
        elif tasks.min > tasks.max:
            problem = f"found min {tasks.min} and max {tasks.max}: expected a min that is not above max"
        elif not tasks.min <= role.tasks <= tasks.max:
            problem = (
                f"the role has {role.tasks} tasks: expected {tasks.min} to {tasks.max}, the range of elastic. Change "
                "tasks, min or max"
            )
        elif role.retry == 0:
            problem = (
                "an elastic role needs retries of its tasks, but retry is 0: remove it, or set at least 1"
            )
        if problem:
            position = tree.dig(node, "roles", name, "elastic") or node
            yield diagnostics.error(position, diagnostics.field(path, "roles", name, "elastic"), problem)


def _check_mount_paths(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    taken = {volumes.STATE_FOLDER: "the progress of a task"}
    if job.shm_size is not None or any(role.shm_size is not None for role in job.roles.values()):
        taken[volumes.SHM_FOLDER] = "shmSize"
    if job.code:
        taken[code.FOLDER] = "code"
    if ssh.is_needed(job):
        taken |= dict.fromkeys((ssh_scripts.FOLDER, ssh_scripts.STATE_FOLDER), "the SSH key")
    has_companion_folders = job.jupyter is not None or job.hub is not None
    for name, volume in job.volumes.items():
        mount_path = jobfile_volumes.normalize(volume.at)
        if has_companion_folders and f"{mount_path}/".startswith(_COMPANION_FOLDER):
            taken.setdefault(mount_path, "a folder of jupyter and hub")
        if mount_path in taken:
            owner = taken[mount_path]
            message = (
                f"found {diagnostics.quoted(volume.at)}, which is the path of {owner}: expected another path"
            )
            position = tree.dig(node, "volumes", name, "at") or node
            yield diagnostics.error(position, diagnostics.field(path, "volumes", name, "at"), message)


def _check_framework(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    rendered = builder.framework(job, code.Packed(code.config_map_name(job.name)) if job.code else None)
    mapped = source_map.source_map(rendered, node, path)
    found = [
        _with_job_advice(mapped.in_job_file(diagnostic))
        for diagnostic in framework.check(mapped.root)
        if diagnostic.rule != Rule.NO_COMMAND  # reported by `_check_commands`, in terms of the job file
    ]
    yield from found
    if not any(diagnostic.is_error for diagnostic in found):
        semantic_error = semantic_validation.semantic_error(msgspec.convert(rendered, Framework))
        if semantic_error:
            yield diagnostics.error(node, path, f"no controller could run this job: {semantic_error}")


def _with_job_advice(diagnostic: Diagnostic) -> Diagnostic:
    """Replace the advice about a host path in a Framework by advice for a job file, which has the field `nodes`."""
    if diagnostic.rule != Rule.HOST_PATH:
        return diagnostic
    problem = diagnostic.message.partition(" Pin them")[0]
    advice = (
        "List the nodes that have the folder as `nodes: [...]` of the volume, or use a volume that nodes share, "
        "e.g. nfs"
    )
    return msgspec.structs.replace(diagnostic, message=f"{problem} {advice}")


def _role_location(node: tree.Mapping, name: str, path: str) -> tuple[diagnostics.Located, str]:
    roles, at = node.get("roles"), diagnostics.field(path, "roles", name)
    return (roles.keys[name], at) if isinstance(roles, tree.Mapping) else (node, at)
