"""Everything that is wrong with a job: with its file, with what it means for its runtime, and with its Framework.

The Framework that a job makes is held to what every Framework is held to, and what is wrong with it is said of the
line that it comes from.
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
_OF_COMPANIONS = "/windlass/"
"""In it are the folders of JupyterLab and JupyterHub."""


def check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """All faults of a job file that stands at `path` of its document."""
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
    said = {diagnostic.message for diagnostic in found}
    for diagnostic in _check_framework(node, job, path):
        if diagnostic.message not in said:
            yield diagnostic


def faults_of(job: Job) -> tuple[Diagnostic, ...]:
    """Of a job that stands in no file. The lines are those of nothing: `path` says what is meant."""
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
                "there is no command: its tasks are idle TensorFlow servers, which others drive. If that is not meant, "
                "add a command",
            )
        else:
            message = (
                "there is no command, of the role or of the job: nothing says what its tasks do. Add one"
            )
            yield diagnostics.error(place, at, message, Rule.MISSING_FIELD)


def _check_leaders(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    """Nobody ends the job, or whoever is done first does."""
    leading = completion.leaders(job)
    deciding = [name for name in leading if job.roles[name].completion is None]
    has_a_decision = any(role.completion is not None for role in job.roles.values())
    if not leading and not has_a_decision:
        message = (
            "no role ends by itself: the job goes on until somebody stops it. Where that is not meant, add a role that "
            "does, such as worker, or give one a completion"
        )
        yield diagnostics.warning(
            node.keys["roles"], diagnostics.field(path, "roles"), message, Rule.NEVER_EXITS
        )
    if len(deciding) > 1 and len(leading) < len(job.roles):
        place, at = _role(node, deciding[1], path)
        yield diagnostics.warning(
            place,
            at,
            f"{' and '.join(deciding)} all lead the job, and others in it never end: it ends with the first of them "
            "whose tasks have all succeeded. Make one role of them, or give them a completion",
        )


def _check_places(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    taken = {volumes.STATE_FOLDER: "what a task says about its progress"}
    if job.shm_size is not None:
        taken[volumes.SHM_FOLDER] = "shmSize"
    if job.code:
        taken[code.FOLDER] = "code"
    has_more_folders = job.jupyter is not None or job.hub is not None
    for name, volume in job.volumes.items():
        place = jobfile_volumes.normalize(volume.at)
        if has_more_folders and f"{place}/".startswith(_OF_COMPANIONS):
            taken.setdefault(place, "what jupyter and hub need")
        if place in taken:
            at = tree.dig(node, "volumes", name, "at") or node
            yield diagnostics.error(
                at,
                diagnostics.field(diagnostics.field(diagnostics.field(path, "volumes"), name), "at"),
                f"found {diagnostics.quoted(volume.at)}, which is where {taken[place]} is: expected another path",
            )


def _check_framework(node: tree.Mapping, job: Job, path: str) -> Iterator[Diagnostic]:
    rendered = builder.framework(job, code.Packed(code.config_map_name(job.name)) if job.code else None)
    placed = source_map.placed(rendered, node, path)
    found = [_for_a_job(placed.said_of_the_job(diagnostic)) for diagnostic in framework.check(placed.root)]
    yield from found
    if not any(diagnostic.is_error for diagnostic in found):
        semantic_error = semantic_validation.semantic_error(msgspec.convert(rendered, Framework))
        if semantic_error:
            yield diagnostics.error(node, path, f"no controller could run this job: {semantic_error}")


def _for_a_job(diagnostic: Diagnostic) -> Diagnostic:
    """A job file has a field for what a Framework can only say in a roundabout way."""
    if diagnostic.rule != Rule.HOST_PATH:
        return diagnostic
    what = diagnostic.message.partition(" Pin them")[0]
    advice = "Name those that have it, as `nodes: [...]` of the volume, or use a volume that nodes share, such as nfs"
    return msgspec.structs.replace(diagnostic, message=f"{what} {advice}")


def _role(node: tree.Mapping, name: str, path: str) -> tuple[diagnostics.Located, str]:
    roles = node.get("roles")
    at = diagnostics.field(diagnostics.field(path, "roles"), name)
    return (roles.keys[name], at) if isinstance(roles, tree.Mapping) else (node, at)
