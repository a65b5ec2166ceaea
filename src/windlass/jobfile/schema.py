"""The JSON Schema of a job file for editors, generated from the model. `windlass lint` checks more than the schema."""

from collections.abc import Mapping
from importlib import resources

import msgspec

from windlass.jobfile import companions, storage, volumes
from windlass.model.base import Json
from windlass.model.job import Job

FILE = "job.schema.json"
"""The published schema, which `tools/update_docs.py` generates."""
ID = "urn:windlass:job"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

FieldDescriptions = Mapping[str, Mapping[str, str]]
"""Descriptions by struct and field."""


def read_published() -> bytes:
    """Return the published schema."""
    return resources.files(__package__).joinpath(FILE).read_bytes()


def schema(descriptions: FieldDescriptions) -> Json:
    """Return the schema (draft 2020-12) with descriptions."""
    generated = msgspec.json.schema(Job)
    definitions = {
        name: _closed(definition, descriptions.get(name, {}))
        for name, definition in sorted(generated["$defs"].items())
    }
    job = definitions.pop("Job")
    job["properties"]["roles"]["minProperties"] = 1
    definitions["Volume"]["oneOf"] = [{"required": [source]} for source in volumes.SOURCES]
    definitions["LoadData"]["oneOf"] = [{"required": [source]} for source in storage.SOURCES]
    definitions["PasswordFrom"]["oneOf"] = [{"required": [source]} for source in companions.SOURCES]
    return {
        "$schema": DIALECT,
        "$id": ID,
        **job,
        "required": [*job["required"], "roles"],
        "$defs": definitions,
    }


def _closed(definition: Json, descriptions: Mapping[str, str]) -> Json:
    """Return the definition with descriptions of its fields. It forbids unknown fields."""
    if "properties" not in definition:
        return definition
    properties = {
        name: _with_description(_plain(field), descriptions.get(name, ""))
        for name, field in definition["properties"].items()
    }
    return {**definition, "properties": properties, "additionalProperties": False}


def _with_description(field: Json, field_description: str) -> Json:
    """Combine the descriptions of the field and of its type."""
    combined = " ".join(text for text in (field_description, _sentence(field.get("description", ""))) if text)
    return {**({"description": combined} if combined else {}), **_without(field, "description")}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _plain(field: Json) -> Json:
    """Return a field without null as a choice, and without a default that is null, false, 0 or empty."""
    choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    rest = _without(field, "anyOf") if field.get("default") else _without(field, "anyOf", "default")
    if len(choices) == 1:
        return {**choices[0], **rest}
    return {"anyOf": choices, **rest} if choices else rest


def _without(field: Json, *keys: str) -> Json:
    return {key: value for key, value in field.items() if key not in keys}
