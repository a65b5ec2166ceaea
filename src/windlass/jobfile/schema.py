"""The JSON Schema of a job file, for editors. It is made from the model, so that no field is written twice.

It says less than `job_file` checks: an editor shows what may stand where, and `windlass lint` what is wrong with it.
"""

from collections.abc import Mapping
from importlib import resources

import msgspec

from windlass.jobfile import companions, storage, volumes
from windlass.model.base import Json
from windlass.model.job import Job

FILE = "job.schema.json"
"""Beside this file, as `tools/update_docs.py` has made it: with what each field means."""
ID = "urn:windlass:job"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

FieldDescriptions = Mapping[str, Mapping[str, str]]
"""What each field means, by the name of its struct and by its own in a file."""


def read_published() -> bytes:
    """The schema as editors take it."""
    return resources.files(__package__).joinpath(FILE).read_bytes()


def schema(meanings: FieldDescriptions) -> Json:
    """Draft 2020-12."""
    made = msgspec.json.schema(Job)
    definitions = {
        name: _closed(definition, meanings.get(name, {}))
        for name, definition in sorted(made["$defs"].items())
    }
    job = definitions.pop("Job")
    job["properties"]["roles"]["minProperties"] = 1
    definitions["Volume"]["oneOf"] = [{"required": [kind]} for kind in volumes.KINDS]
    definitions["LoadData"]["oneOf"] = [{"required": [source]} for source in storage.SOURCES]
    definitions["PasswordFrom"]["oneOf"] = [{"required": [source]} for source in companions.SOURCES]
    return {
        "$schema": DIALECT,
        "$id": ID,
        **job,
        "required": [*job["required"], "roles"],
        "$defs": definitions,
    }


def _closed(definition: Json, meanings: Mapping[str, str]) -> Json:
    """With nothing in it that the model does not know."""
    if "properties" not in definition:
        return definition
    properties = {
        name: _with_meaning(_plain(field), meanings.get(name, ""))
        for name, field in definition["properties"].items()
    }
    return {**definition, "properties": properties, "additionalProperties": False}


def _with_meaning(field: Json, meaning: str) -> Json:
    """A type may be described too: what the field means comes first."""
    described = " ".join(text for text in (meaning, _sentence(field.get("description", ""))) if text)
    return {**({"description": described} if described else {}), **_without(field, "description")}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _plain(field: Json) -> Json:
    """Whoever leaves a field out needs no null for it, and no default that is nothing."""
    choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    rest = _without(field, "anyOf") if field.get("default") else _without(field, "anyOf", "default")
    if len(choices) == 1:
        return {**choices[0], **rest}
    return {"anyOf": choices, **rest} if choices else rest


def _without(field: Json, *keys: str) -> Json:
    return {key: value for key, value in field.items() if key not in keys}
