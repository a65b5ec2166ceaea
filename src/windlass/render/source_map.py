"""Map a rendered Framework to the job file, so that its diagnostics refer to lines of the job file."""

import functools
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

_OF_CONTAINERS = {
    "command": "command",
    "image": "image",
    "ports": "port",
    "resources": "resources",
    "envFrom": "envFrom",
    "volumeMounts": "volumes",
    "workingDir": "code",
}
_OF_PODS = {
    "volumes": "volumes",
    "serviceAccountName": "serviceAccount",
    "imagePullSecrets": "imagePullSecrets",
    "nodeSelector": "nodeSelector",
    "tolerations": "tolerations",
    "affinity": "volumes",
}
_OF_SPECS = {
    "retryPolicy": "retry",
    "pendingDeadlineSeconds": "pendingDeadline",
    "activeDeadlineSeconds": "activeDeadline",
    "ttlSecondsAfterFinished": "ttl",
}
_OF_ANNOTATIONS = {names.RUNTIME_ANNOTATION: "runtime", names.BARRIER_ANNOTATION: "barrier"}


class Placed(msgspec.Struct, frozen=True):
    root: tree.Mapping
    origins: dict[str, str]
    """Path in the job file by path in the Framework."""

    def in_job_file(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return the diagnostic with its path in the job file, and its fix only where both paths name one field."""
        path = diagnostic.path
        while path and path not in self.origins:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        origin = self.origins.get(path, "")
        is_the_same_field = path == diagnostic.path and _last(origin) == _last(path)
        return msgspec.structs.replace(
            diagnostic, path=origin, fix=diagnostic.fix if is_the_same_field else None
        )


def placed(framework: Json, job: tree.Mapping, path: str) -> Placed:
    """Return the Framework as a tree with positions. `path` is that of the job in its document."""
    origins: dict[str, str] = {}

    def node(value: Any, keys: Keys, where: str) -> tree.Node:
        origin, origins[where] = _origin(framework, job, keys, path)
        match value:
            case dict():
                entries = {
                    key: node(item, (*keys, key), diagnostics.field(where, key))
                    for key, item in value.items()
                }
                places = {key: Position(entry.line, entry.column) for key, entry in entries.items()}
                return tree.Mapping(entries, places, origin.line, origin.column)
            case list() | tuple():
                items = (
                    node(item, (*keys, at), diagnostics.item(where, at)) for at, item in enumerate(value)
                )
                return tree.Sequence(tuple(items), origin.line, origin.column)
        return tree.Scalar(value, origin.line, origin.column)

    root = node(framework, (), "")
    assert isinstance(root, tree.Mapping)  # noqa: S101 — a Framework is one
    return Placed(root, origins)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _origin(framework: Json, job: tree.Mapping, keys: Keys, path: str) -> tuple[diagnostics.Located, str]:
    """Return the first part of the job file that a value comes from, or else the whole file."""
    for candidate in _candidates(framework, keys):
        *above, last = candidate
        around = tree.dig(job, *above)
        value = tree.dig(around, last)
        if isinstance(around, tree.Mapping) and value is not None:
            place = value if isinstance(value, tree.Scalar) else around.keys[last]
            return place, functools.reduce(diagnostics.field, candidate, path)
    return job, path


def _candidates(framework: Json, keys: Keys) -> Iterator[tuple[str, ...]]:
    match keys:
        case ("metadata", "annotations", str(key), *_):
            yield (_OF_ANNOTATIONS[key],) if key in _OF_ANNOTATIONS else ("annotations", key)
        case ("metadata", str(key), *_):
            yield (key,)
        case ("spec", "taskRoles", int(index), *rest):
            role = framework["spec"]["taskRoles"][index]
            yield from _candidates_of_role(role, tuple(rest))
            yield ("roles", role["name"])
        case ("spec", "taskRoles"):
            yield ("roles",)
        case ("spec", str(key), *_):
            yield (_OF_SPECS.get(key, key),)


def _candidates_of_role(role: Json, keys: Keys) -> Iterator[tuple[str, ...]]:
    """Yield fields of the role, then those of the job."""
    fields: tuple[str, ...] = ()
    match keys:
        case ("taskNumber",):
            fields = ("tasks",)
        case ("frameworkAttemptCompletionPolicy", *rest):
            yield ("roles", role["name"], "completion", *(str(key) for key in rest))
            fields = ("completion",)
        case ("task", "retryPolicy", *_):
            fields = ("retry",)
        case ("task", "pod", "spec", "containers", 0, "env", int(index), *_):
            variable = str(role["task"]["pod"]["spec"]["containers"][0]["env"][index]["name"])
            yield ("secrets", variable)
            fields = ("env", variable)
        case ("task", "pod", "spec", "containers", 0, str(key), *_):
            fields = (_OF_CONTAINERS.get(key, "pod"),)
        case ("task", "pod", "spec", "volumes", int(index), *_):
            fields = ("volumes", str(role["task"]["pod"]["spec"]["volumes"][index]["name"]))
        case ("task", "pod", "spec", str(key), *_):
            fields = (_OF_PODS.get(key, "pod"),)
        case ("task", "pod", "metadata", str(key), *_):
            fields = (key,)
    if fields:
        yield ("roles", role["name"], *fields)
        yield fields
    if fields[:1] != ("pod",) and keys[:2] == ("task", "pod"):
        yield ("roles", role["name"], "pod")
        yield ("pod",)
