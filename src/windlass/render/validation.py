"""Check a job: its file, its roles and mount paths, and the Framework that is rendered from it.

The Framework is checked like any other Framework. Its diagnostics refer to the lines of the job file that they come
from.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from windlass.jobfile import reader
from windlass.jobfile import volumes as jobfile_volumes
from windlass.model.framework import Framework
from windlass.model.job import Job
from windlass.render import code, source_map
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


def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a job at `path` of its document."""
    found = list(islice(reader.check(node, path), diagnostics.MAX_DIAGNOSTICS + 1))
    yield from found
    if any(diagnostic.is_error for diagnostic in found) or not isinstance(node, tree.Mapping):
        return
    job = reader.job_of(node)
    job_diagnostics = [
        *_check_commands(node, job, path),
        *_check_leaders(node, job, path),
        *_check_mount_paths(node, job, path),
    ]
    yield from job_diagnostics
    if any(diagnostic.is_error for diagnostic in job_diagnostics):
        return
    reported = {diagnostic.message for diagnostic in found}
    for diagnostic in _check_framework(node, job, path):
        if diagnostic.message not in reported:
            yield diagnostic


def diagnostics_of(job: Job) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a job without a file. Only their paths are meaningful, not their lines."""
    parsed = yaml_parse.parse(msgspec.json.encode(job))
    found = [] if parsed.failure is None else [parsed.failure]
    for document in parsed.documents:
        found += [*document.diagnostics, *check(document.root, "")]
    return diagnostics.collect(found, _FILE)


def _check_commands(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    for name, role in job.roles.items():
        if role.tasks == 0 or completion.has_command(job, role):
            continue
        position, at = _role_location(node, name, path)
        if completion.is_idle_server(job, name):
            message = (
                "the role has no command: its tasks are idle TensorFlow servers, which other programs drive. If that "
                "is not intended, add a command"
            )
            yield diagnostics.warning(position, at, message)
        else:
            message = "neither the role nor the job has a command: add one"
            yield diagnostics.error(position, at, message, Rule.MISSING_FIELD)


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


def _check_mount_paths(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    taken = {volumes.STATE_FOLDER: "the progress of a task"}
    if job.shm_size is not None:
        taken[volumes.SHM_FOLDER] = "shmSize"
    if job.code:
        taken[code.FOLDER] = "code"
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
    found = [_with_job_advice(mapped.in_job_file(diagnostic)) for diagnostic in framework.check(mapped.root)]
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
    """Return the position of a role, and its path."""
    roles, at = node.get("roles"), diagnostics.field(path, "roles", name)
    return (roles.keys[name], at) if isinstance(roles, tree.Mapping) else (node, at)
