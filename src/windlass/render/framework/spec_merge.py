"""Merge the field `framework` of a job file into the spec of its Framework."""

from typing import Any

from windlass.k8s import json_patch
from windlass.k8s.strategic_merge import merge_pod_template
from windlass.model.base import Json

_RULES = "completionPolicies"


def merge_spec(spec: Json, patch: Json) -> Json:
    """Return the spec with the fields of the patch. Roles are merged by name, pod templates as by Kubernetes; other
    lists are replaced, and null removes a field. The completion rules of the patch precede those of the spec."""
    merged: Json = json_patch.merge_patch(spec, {**patch, "taskRoles": spec["taskRoles"]})
    if patch.get(_RULES) is not None and _RULES in spec:
        merged = {**merged, _RULES: [*patch[_RULES], *spec[_RULES]]}
    patches = {role["name"]: role for role in patch.get("taskRoles") or ()}
    known = [_merge_role(role, patches.pop(role["name"], {})) for role in spec["taskRoles"]]
    return {**merged, "taskRoles": [*known, *patches.values()]}


def _merge_role(role: Json, patch: Json) -> Json:
    task: Any = patch.get("task") or {}
    if not task.get("pod"):
        return _merged(role, patch)
    pod = merge_pod_template(role["task"]["pod"], task["pod"])
    merged = _merged(role, {**patch, "task": {name: value for name, value in task.items() if name != "pod"}})
    return {**merged, "task": {**merged["task"], "pod": pod}}


def _merged(role: Json, patch: Json) -> Json:
    merged: Json = json_patch.merge_patch(role, patch)
    return merged
