"""Generate the documentation of the job file from the model: its JSON Schema and the tables of its fields.

A table stands between two comments. The first names a struct and optionally its fields:

    <!-- fields of Role: tasks command -->
    <!-- end of fields -->
"""

import ast
import inspect
import re

import msgspec
from msgspec import inspect as types

import docstrings  # next to this file
from windlass.jobfile import schema as jobfile_schema
from windlass.model.companions import Hub, Jupyter, PasswordFrom, TensorBoard
from windlass.model.framework import CompletionPolicySpec
from windlass.model.job import (
    CephFs,
    Elastic,
    Job,
    JobCompletion,
    LoadData,
    Nfs,
    NfsServer,
    Retry,
    Role,
    Volume,
)
from windlass.model.resources import Gpus, Resources

STRUCTS: dict[str, type[msgspec.Struct]] = {
    struct.__name__: struct
    for struct in (
        Job,
        Role,
        Elastic,
        JobCompletion,
        Resources,
        Gpus,
        Retry,
        Volume,
        Nfs,
        CephFs,
        NfsServer,
        LoadData,
        TensorBoard,
        Jupyter,
        Hub,
        PasswordFrom,
        CompletionPolicySpec,
    )
}
COMPLETION_POLICY_FIELDS = {
    "minFailedTaskCount": "Number of failed tasks of the role that fails the job; 0 and -1 disable the rule.",
    "minSucceededTaskCount": "Number of succeeded tasks of the role that completes the job; 0 and -1 disable the rule.",
}
"""Fields documented here because the Framework documents them in other words."""

_BLOCK = re.compile(
    r"(<!-- fields of (?P<struct>\w+)(?:: (?P<fields>[\w ]+))? -->\n).*?(<!-- end of fields -->)", re.DOTALL
)


def schema() -> str:
    meanings = {name: meanings_of(struct) for name, struct in STRUCTS.items()}
    return msgspec.json.format(msgspec.json.encode(jobfile_schema.schema(meanings))).decode() + "\n"


def page(text: str) -> str:
    """Return the page with its tables updated from the model."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_table(found['struct'], found['fields'])}{found[4]}", text)


def tables(text: str) -> list[tuple[str, str]]:
    """Yield struct and field of every row."""
    return [
        (found["struct"], field.encode_name)
        for found in _BLOCK.finditer(text)
        for field in _selected_fields(found["struct"], found["fields"])
    ]


def meanings_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the documentation of each field by its name in a file."""
    if struct is CompletionPolicySpec:
        return COMPLETION_POLICY_FIELDS
    (node,) = ast.parse(inspect.getsource(struct)).body
    if not isinstance(node, ast.ClassDef):
        raise TypeError(f"{struct} is not a class")
    texts = dict(docstrings.of_fields(node))
    return {
        field.encode_name: " ".join(texts[field.name].split()) for field in msgspec.structs.fields(struct)
    }


def _table(struct: str, fields: str | None) -> str:
    meanings = meanings_of(STRUCTS[struct])
    rows = "".join(
        f"| `{field.encode_name}` | {meanings[field.encode_name]} | {_default(field)} |\n"
        for field in _selected_fields(struct, fields)
    )
    return f"\n| field | meaning | default |\n|---|---|---|\n{rows}\n"


def _selected_fields(struct: str, fields: str | None) -> list[types.Field]:
    info = types.type_info(STRUCTS[struct])
    assert isinstance(info, types.StructType)  # noqa: S101 — what a struct is described by
    by_name = {field.encode_name: field for field in info.fields}
    return [by_name[name] for name in fields.split()] if fields else list(by_name.values())


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    is_shown = field.default not in (msgspec.NODEFAULT, None, "", ()) and not isinstance(
        field.default, msgspec.Struct
    )
    return f"`{msgspec.json.encode(field.default).decode()}`" if is_shown else ""
