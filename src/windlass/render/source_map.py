"""Map a rendered Framework to the job file, so that its diagnostics refer to lines of the job file."""

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree
from windlass.wire.yaml.text import Position

Keys = tuple[str | int, ...]

# Fields of the job file by fields of the Framework.
_CONTAINER_FIELDS = {
    "command": "command",
    "image": "image",
    "ports": "port",
    "resources": "resources",
    "envFrom": "envFrom",
    "volumeMounts": "volumes",
    "workingDir": "code",
}
_POD_FIELDS = {
    "volumes": "volumes",
    "serviceAccountName": "serviceAccount",
    "imagePullSecrets": "imagePullSecrets",
    "nodeSelector": "nodeSelector",
    "tolerations": "tolerations",
    "affinity": "volumes",
}
_SPEC_FIELDS = {
    "retryPolicy": "retry",
    "pendingDeadlineSeconds": "pendingDeadline",
    "activeDeadlineSeconds": "activeDeadline",
    "ttlSecondsAfterFinished": "ttl",
}
_ANNOTATIONS = {
    names.RUNTIME_ANNOTATION: "runtime",
    names.BARRIER_ANNOTATION: "barrier",
    names.IDLE_ANNOTATION: "idle",
}


class SourceMap(msgspec.Struct, frozen=True):
    root: tree.Mapping
    """The Framework, with positions in the job file."""
    origins: dict[str, str]
    """Path in the job file by path in the Framework."""

    def in_job_file(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return the diagnostic with its path in the job file, and its fix only if both paths name the same field."""
        path = diagnostic.path
        while path and path not in self.origins:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        origin = self.origins.get(path, "")
        is_same_field = path == diagnostic.path and origin.rpartition(".")[2] == path.rpartition(".")[2]
        fix = diagnostic.fix if is_same_field else None
        return msgspec.structs.replace(diagnostic, path=origin, fix=fix)


def source_map(framework: Json, job: tree.Mapping, path: str) -> SourceMap:
    """Return the map of a rendered Framework. `path` is the path of the job in its document."""
    origins: dict[str, str] = {}

    def node(value: Any, keys: Keys, at: str) -> tree.Node:
        origin, origins[at] = _origin(framework, job, keys, path)
        match value:
            case dict():
                entries = {
                    key: node(item, (*keys, key), diagnostics.field(at, key)) for key, item in value.items()
                }
                positions = {key: Position(entry.line, entry.column) for key, entry in entries.items()}
                return tree.Mapping(entries, positions, origin.line, origin.column)
            case list() | tuple():
                items = (
                    node(item, (*keys, index), diagnostics.item(at, index))
                    for index, item in enumerate(value)
                )
                return tree.Sequence(tuple(items), origin.line, origin.column)
        return tree.Scalar(value, origin.line, origin.column)

    root = node(framework, (), "")
    assert isinstance(root, tree.Mapping)  # noqa: S101 — a Framework is a mapping
    return SourceMap(root, origins)


def _origin(framework: Json, job: tree.Mapping, keys: Keys, path: str) -> tuple[diagnostics.Located, str]:
    """Return the position and the path of the field that a value comes from, or else those of the job."""
    for candidate in _candidates(framework, keys):
        *parents, key = candidate
        parent = tree.dig(job, *parents)
        value = tree.dig(parent, key)
        if isinstance(parent, tree.Mapping) and value is not None:
            position = value if isinstance(value, tree.Scalar) else parent.keys[key]
            return position, diagnostics.field(path, *candidate)
    return job, path


def _candidates(framework: Json, keys: Keys) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the job file that a value of the Framework may come from, the most specific first."""
    match keys:
        case ("metadata", "annotations", str(key), *_):
            yield (_ANNOTATIONS[key],) if key in _ANNOTATIONS else ("annotations", key)
        case ("metadata", str(key), *_):
            yield (key,)
        case ("spec", "taskRoles", int(index), *rest):
            role = framework["spec"]["taskRoles"][index]
            yield from _role_candidates(role, tuple(rest))
            yield ("framework", "taskRoles")
            yield ("roles", role["name"])
        case ("spec", "taskRoles"):
            yield ("roles",)
        case ("spec", "completionPolicies", *_):
            yield ("framework", "completionPolicies")
            yield ("completion",)
        case ("spec", str(key), *_):
            yield ("framework", key)
            yield (_SPEC_FIELDS.get(key, key),)


def _role_candidates(role: Json, keys: Keys) -> Iterator[tuple[str, ...]]:
    """Yield the fields that a value of a role may come from. A field of the role comes before the same field of the
    job."""
    fields: tuple[str, ...] = ()
    match keys:
        case ("taskNumber",):
            fields = ("tasks",)
        case ("frameworkAttemptCompletionPolicy", *rest):
            yield ("roles", role["name"], "completion", *(str(key) for key in rest))
            fields = ("completion",)
        case ("startAfter", *_):
            fields = ("after",)
        case ("task", "retryPolicy", *_):
            fields = ("retry",)
        case ("task", "pod", "spec", "containers", 0, "env", int(index), *_):
            variable = str(role["task"]["pod"]["spec"]["containers"][0]["env"][index]["name"])
            yield ("secrets", variable)
            fields = ("env", variable)
        case ("task", "pod", "spec", "containers", 0, str(key), *_):
            fields = (_CONTAINER_FIELDS.get(key, "pod"),)
        case ("task", "pod", "spec", "volumes", int(index), *_):
            fields = ("volumes", str(role["task"]["pod"]["spec"]["volumes"][index]["name"]))
        case ("task", "pod", "spec", str(key), *_):
            fields = (_POD_FIELDS.get(key, "pod"),)
        case ("task", "pod", "metadata", str(key), *_):
            fields = (key,)
    if fields:
        yield ("roles", role["name"], *fields)
        yield fields
    if fields[:1] != ("pod",) and keys[:2] == ("task", "pod"):
        yield ("roles", role["name"], "pod")
        yield ("pod",)
