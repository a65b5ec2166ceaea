"""The published JSON Schema of the job file matches the model."""

from typing import Any

import jsonschema
import msgspec
import pytest

import job_docs
from windlass.jobfile import schema
from windlass.model.job import Job

SCHEMA: dict[str, Any] = msgspec.json.decode(schema.read_published())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
VALID: dict[str, Any] = {"name": "digits", "command": "python train.py", "roles": {"worker": {"tasks": 2}}}


def test_published_schema_is_valid_and_up_to_date() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert schema.read_published().decode() == job_docs.schema()
    assert SCHEMA["$schema"] == schema.DIALECT


def test_every_field_has_a_description() -> None:
    for name, struct in job_docs.STRUCTS.items():
        properties = SCHEMA["properties"] if struct is Job else SCHEMA["$defs"][name]["properties"]
        for field in msgspec.structs.fields(struct):
            assert properties[field.encode_name]["description"], (name, field.encode_name)
    objects = {name for name, definition in SCHEMA["$defs"].items() if "properties" in definition}
    assert {"Job", *objects} == job_docs.STRUCTS.keys()


VALID_FIELDS: dict[str, dict[str, Any]] = {
    "the least": {},
    "a list of words": {"command": ["python", "train.py"]},
    "values": {"env": {"A": 1, "B": 0.5, "C": True, "D": "x", "E": {"fieldRef": {"fieldPath": "a"}}}},
    "quantities": {"resources": {"cpus": 0.5, "memory": "4Gi", "gpus": 1}, "shmSize": 1073741824},
    "durations": {"ttl": 60, "activeDeadline": "12h", "pendingDeadline": "1h30m"},
    "a volume": {"volumes": {"data": {"at": "/data", "nfs": {"server": "s", "path": "/p"}}}},
    "a whole role": {
        "roles": {
            "worker": {
                "tasks": 2,
                "retry": 1,
                "completion": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
                "pod": {"spec": {"anything": ["goes"]}},
            }
        }
    },
}


@pytest.mark.parametrize("fields", VALID_FIELDS.values(), ids=VALID_FIELDS.keys())
def test_valid_job_is_accepted(fields: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors({**VALID, **fields})) == []


INVALID_FIELDS: dict[str, dict[str, Any]] = {
    "an unknown field": {"rolez": {}},
    "an unknown field of a role": {"roles": {"worker": {"task": 2}}},
    "an unknown field of a volume": {"volumes": {"data": {"at": "/d", "pvc": "x", "size": 3}}},
    "two kinds of volume": {"volumes": {"data": {"at": "/d", "pvc": "x", "hostPath": "/y"}}},
    "no kind of volume": {"volumes": {"data": {"at": "/d"}}},
    "a name": {"name": "Not A Name"},
    "a role's name": {"roles": {"my-role": {}}},
    "a variable's name": {"env": {"1A": "x"}},
    "no roles": {"roles": {}},
    "a runtime": {"runtime": "caffe"},
    "a port": {"port": 0},
    "tasks": {"roles": {"worker": {"tasks": -1}}},
    "half a GPU": {"resources": {"gpus": 0.5}},
    "a number in a command": {"command": ["python", 3]},
    "a label that is a number": {"labels": {"a": 1}},
    "a list as a value": {"env": {"A": [1]}},
}


@pytest.mark.parametrize("fields", INVALID_FIELDS.values(), ids=INVALID_FIELDS.keys())
def test_invalid_job_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**VALID, **fields})


@pytest.mark.parametrize("missing", ["name", "roles"])
def test_missing_required_field_is_rejected(missing: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match="required"):
        VALIDATOR.validate({key: value for key, value in VALID.items() if key != missing})
