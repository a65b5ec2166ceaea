"""Check a job: its file, its roles for its runtime, and the Framework that is rendered from it.

The Framework is checked like any other. Its diagnostics refer to the lines of the job file that they come from.
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
    own = [
        *_check_commands(node, job, path),
        *_check_leaders(node, job, path),
        *_check_places(node, job, path),
    ]
    yield from own
    if any(diagnostic.is_error for diagnostic in own):
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
        place, at = _role(node, name, path)
        if completion.is_idle_server(job, name):
            yield diagnostics.warning(
                place,
                at,
                "the role has no command: its tasks are idle TensorFlow servers, which other programs drive. If that "
                "is not intended, add a command",
            )
        else:
            message = "neither the role nor the job has a command: add one"
            yield diagnostics.error(place, at, message, Rule.MISSING_FIELD)


def _check_leaders(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Warn if no role ends the job, or if the first of several does."""
    leading = completion.leaders(job)
    deciding = [name for name in leading if job.roles[name].completion is None]
    has_a_decision = any(role.completion is not None for role in job.roles.values())
    if not leading and not has_a_decision:
        message = (
            "no role ends by itself: the job runs until it is stopped. If that is not intended, add a role that ends, "
            "e.g. worker, or set a completion"
        )
        yield diagnostics.warning(
            node.keys["roles"], diagnostics.field(path, "roles"), message, Rule.NEVER_EXITS
        )
    if len(deciding) > 1 and len(leading) < len(job.roles):
        place, at = _role(node, deciding[1], path)
        yield diagnostics.warning(
            place,
            at,
            f"{' and '.join(deciding)} all decide the result, and other roles never end: the job ends when all tasks "
            "of the first of them have succeeded. Merge these roles, or set a completion",
        )


def _check_places(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    taken = {volumes.STATE_FOLDER: "the progress of a task"}
    if job.shm_size is not None:
        taken[volumes.SHM_FOLDER] = "shmSize"
    if job.code:
        taken[code.FOLDER] = "code"
    has_more_folders = job.jupyter is not None or job.hub is not None
    for name, volume in job.volumes.items():
        place = jobfile_volumes.normalize(volume.at)
        if has_more_folders and f"{place}/".startswith(_COMPANION_FOLDER):
            taken.setdefault(place, "a folder of jupyter and hub")
        if place in taken:
            at = tree.dig(node, "volumes", name, "at") or node
            yield diagnostics.error(
                at,
                diagnostics.field(diagnostics.field(diagnostics.field(path, "volumes"), name), "at"),
                f"found {diagnostics.quoted(volume.at)}, which is the path of {taken[place]}: expected another path",
            )


def _check_framework(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    rendered = builder.framework(job, code.Packed(code.config_map_name(job.name)) if job.code else None)
    placed = source_map.placed(rendered, node, path)
    found = [_for_a_job(placed.in_job_file(diagnostic)) for diagnostic in framework.check(placed.root)]
    yield from found
    if not any(diagnostic.is_error for diagnostic in found):
        semantic_error = semantic_validation.semantic_error(msgspec.convert(rendered, Framework))
        if semantic_error:
            yield diagnostics.error(node, path, f"no controller could run this job: {semantic_error}")


def _for_a_job(diagnostic: Diagnostic) -> Diagnostic:
    """Replace advice for a Framework by advice for a job file, which has a field for it."""
    if diagnostic.rule != Rule.HOST_PATH:
        return diagnostic
    what = diagnostic.message.partition(" Pin them")[0]
    advice = (
        "List those that have it as `nodes: [...]` of the volume, or use a volume that nodes share, e.g. nfs"
    )
    return msgspec.structs.replace(diagnostic, message=f"{what} {advice}")


def _role(node: tree.Mapping, name: str, path: str) -> tuple[diagnostics.Located, str]:
    roles = node.get("roles")
    at = diagnostics.field(diagnostics.field(path, "roles"), name)
    return (roles.keys[name], at) if isinstance(roles, tree.Mapping) else (node, at)
