"""The definition of Gangs: a server keeps all published fields, which are only addresses."""

from typing import Any

import jsonschema
import msgspec
import pytest

from windlass.model import names
from windlass.model.base import Json
from windlass.model.gang import Gang, GangMember, GangRole, GangSpec
from windlass.wire.crd import manifests

DEFINITION = manifests.gang_crd()
(VERSION,) = DEFINITION["spec"]["versions"]
SCHEMA: Json = VERSION["schema"]["openAPIV3Schema"]

FULL = GangSpec(
    framework_name="digits",
    framework_uid="f",
    attempt_instance_uid="0_c",
    service="digits",
    roles=(
        GangRole("worker", 2222, 2, (GangMember("p-0", "10.0.0.5"), GangMember("p-1", "fd00::6"))),
        GangRole("ps"),
    ),
)


def test_definition() -> None:
    assert DEFINITION["metadata"]["name"] == "gangs.windlass.dev"
    assert (DEFINITION["spec"]["group"], DEFINITION["spec"]["scope"]) == ("windlass.dev", "Namespaced")
    assert DEFINITION["spec"]["names"] == {
        "kind": "Gang",
        "listKind": "GangList",
        "plural": "gangs",
        "singular": "gang",
    }
    assert (VERSION["name"], VERSION["served"], VERSION["storage"]) == ("v1", True, True)
    assert "subresources" not in VERSION, "it is written as a whole"


def test_all_definitions() -> None:
    found = [definition["metadata"]["name"] for definition in manifests.definitions()]
    assert found == [*(f"frameworks.{group}" for group in names.GROUPS), "gangs.windlass.dev"]


def fields(schema: Json, path: str = "spec") -> set[str]:
    found = {path}
    for name, inner in schema.get("properties", {}).items():
        found |= fields(inner, f"{path}.{name}")
    if "items" in schema:
        found |= fields(schema["items"], path)
    return found


def test_gang_has_only_addresses() -> None:
    """Every service account may read a Gang, so it must not contain anything else."""
    assert fields(SCHEMA["properties"]["spec"]) == {
        "spec",
        "spec.frameworkName",
        "spec.frameworkUID",
        "spec.attemptInstanceUID",
        "spec.service",
        "spec.roles",
        "spec.roles.name",
        "spec.roles.port",
        "spec.roles.slots",
        "spec.roles.members",
        "spec.roles.members.podUID",
        "spec.roles.members.dnsName",
        "spec.roles.members.ip",
        "spec.roles.members.port",
    }
    assert set(SCHEMA["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def prune(value: Any, schema: Json) -> Any:
    """Drop unknown fields and set defaults, as a server does."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        absent = {name: inner["default"] for name, inner in properties.items() if "default" in inner}
        present = {name: item for name, item in value.items() if name in properties}
        return {name: prune(item, properties[name]) for name, item in (absent | present).items()}
    if isinstance(value, list):
        return [prune(item, schema["items"]) for item in value]
    return value


@pytest.mark.parametrize("spec", [FULL, GangSpec()], ids=["full", "empty"])
def test_gang_survives_pruning_and_decoding(spec: GangSpec) -> None:
    written: Json = msgspec.json.decode(msgspec.json.encode(Gang(spec=spec)))
    stored = prune(written, {**SCHEMA, "properties": {**SCHEMA["properties"], "metadata": {}}})
    jsonschema.Draft202012Validator(SCHEMA).validate(stored)
    assert msgspec.convert({**stored, "metadata": {}}, Gang).spec == spec


@pytest.mark.parametrize(
    "bad",
    [
        {"roles": "worker"},
        {"roles": [{"port": 2222}]},
        {"roles": [{"name": "worker", "members": [{"ip": 7}]}]},
        {"attemptInstanceUID": 0},
    ],
    ids=str,
)
def test_gang_that_a_barrier_cannot_read_is_rejected(bad: Json) -> None:
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid({"spec": bad})


@pytest.mark.parametrize(
    "column",
    VERSION["additionalPrinterColumns"],
    ids=[c["name"] for c in VERSION["additionalPrinterColumns"]],
)
def test_printer_column_shows_a_field_of_its_type(column: Json) -> None:
    *path, last = column["jsonPath"].strip(".").split(".")
    if path[:1] == ["metadata"]:
        return
    schema = SCHEMA
    for step in (*path, last):
        schema = schema["properties"][step]
    assert schema["type"] == column["type"]


def test_descriptions_reach_the_schema() -> None:
    described = manifests.gang_crd({("GangSpec", "service"): "By name."})
    schema = described["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["service"]["description"] == "By name."
