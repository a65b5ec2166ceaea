"""Generate the references of Frameworks: their fields, from the schema of the CRD, and their annotations and labels."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import docstrings  # next to this file
import update_crds
from windlass.wire.crd import manifests

PACKAGE: Final = Path(__file__).parents[1] / "src" / "windlass"
SECTIONS: Final = {
    "spec": "Spec",
    "spec.taskRoles[]": "Task roles",
    "spec.taskRoles[].task": "Tasks",
    "spec.taskRoles[].task.podFailureSpec[]": "Failure classes of a role",
    "spec.completionPolicies[]": "Completion policies",
    "status": "Status",
    "status.attemptStatus": "Status of an attempt",
    "status.attemptStatus.taskRoleStatuses[]": "Status of a task role",
    "status.attemptStatus.taskRoleStatuses[].taskStatuses[]": "Status of a task",
    "status.attemptStatus.taskRoleStatuses[].taskStatuses[].attemptStatus": "Status of an attempt of a task",
}
"""Headings by the path of the object."""
NOT_REPEATED: Final = ("status.earlierTaskAttempts[].attempt",)
"""Objects that have a section under another path."""
FRAMEWORK_PAGE: Final = """\
# Framework

A Framework is the Kubernetes object of a [job](glossary.md#job): `kind: Framework` of
`frameworkcontroller.microsoft.com/v1` or `launcher.microsoft.com/v1`. Windlass renders [job files](job-file.md) to
Frameworks, as `windlass render job.yaml` shows, and runs those that you write; `windlass lint` checks them.
[Behaviour](behaviours.md) says in detail what each field does, and [annotations](annotations.md) request features
beyond these fields.

"""
ANNOTATIONS_PAGE: Final = """\
# Annotations and labels

A [job file](job-file.md) sets the annotations that it needs. A [Framework](framework.md) that you write requests
features by the annotations of the first table, which [peer discovery](discovery.md) describes.

"""
REQUESTS: Final = (
    "RUNTIME_ANNOTATION",
    "BARRIER_ANNOTATION",
    "TASK_TYPES_ANNOTATION",
    "IDLE_ANNOTATION",
    "ELASTIC_ANNOTATION",
    "SLOTS_ANNOTATION",
    "SSH_KEY_ANNOTATION",
    "TASKS_PER_GPU_ANNOTATION",
    "READ_LOGS_ANNOTATION",
)
"""Annotations that users set."""
HEAD: Final = "| field | type | meaning | default |\n|---|---|---|---|\n"
_NAME = re.compile(r"windlass\.dev/[\w-]+")


def framework_page() -> str:
    prose = {
        entry: text for module in update_crds.MODULES for entry, text in update_crds.descriptions(module)
    }
    schema = manifests.framework_schema(prose)["properties"]
    parts = [FRAMEWORK_PAGE]
    for path, title in SECTIONS.items():
        rows = "".join(_rows(path, _at(schema, path)))
        parts.append(f"## {title}\n\n`{path}`\n\n{HEAD}{rows}\n")
    return "".join(parts).rstrip() + "\n"


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    first, *rest = path.split(".")
    found = _inner(schema[first.removesuffix("[]")])
    return _at(found["properties"], ".".join(rest)) if rest else found


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the items of a list, or the schema itself."""
    found: Mapping[str, Any] = schema.get("items", schema)
    return found


def _rows(section: str, schema: Mapping[str, Any], parents: str = "") -> Iterator[str]:
    for name, field in schema["properties"].items():
        inner = _inner(field)
        shown = f"{parents}{name}{'[]' if 'items' in field else ''}"
        path = f"{section}.{shown}"
        meaning = field.get("description") or inner.get("description") or ""
        title = SECTIONS.get(path, "").lower()
        below = f"See [{title}](#{title.replace(' ', '-')})." if title else ""
        text = " ".join(filter(None, (" ".join(meaning.split("\n")), below)))
        default = f"`{_json(field['default'])}`" if field.get("default") not in (None, "", {}, []) else ""
        yield f"| `{shown}` | {_type(field)} | {text.replace('|', chr(92) + '|')} | {default} |\n"
        if "properties" in inner and not below and path not in NOT_REPEATED:
            yield from _rows(section, inner, f"{shown}.")


def _type(field: Mapping[str, Any]) -> str:
    if "items" in field:
        return f"list of {_type(field['items'])}s"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def annotations_page() -> str:
    found = dict(annotations())
    requests = "".join(_row(*found.pop(name)) for name in REQUESTS)
    others = "".join(sorted(_row(*each) for each in found.values()))
    head = "| name | meaning |\n|---|---|\n"
    return (
        f"{ANNOTATIONS_PAGE}## Requests\n\n{head}{requests}\n"
        f"## Set by Windlass\n\nThese describe objects. Do not change them.\n\n{head}{others}"
    )


def annotations() -> Iterator[tuple[str, tuple[str, str]]]:
    """Return the annotations and labels of all modules: constant, name and docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        texts = dict(docstrings.of_fields(module))
        for node in module.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=constant)], value=ast.Constant(value=str(name))):
                    is_public = constant.endswith(("ANNOTATION", "LABEL"))
                    if is_public and _NAME.fullmatch(name):
                        yield constant, (name, texts[constant])


def _row(name: str, meaning: str) -> str:
    return f"| `{name}` | {' '.join(meaning.split())} |\n"
