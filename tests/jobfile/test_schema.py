"""The JSON Schema of the job file: what editors are told is what the model says."""

from typing import Any

import jsonschema
import msgspec
import pytest

import job_docs
from windlass.jobfile import schema
from windlass.model.job import Job

SCHEMA: dict[str, Any] = msgspec.json.decode(schema.read_published())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GOOD: dict[str, Any] = {"name": "digits", "command": "python train.py", "roles": {"worker": {"tasks": 2}}}


def test_it_is_a_schema_and_up_to_date() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert schema.read_published().decode() == job_docs.schema()
    assert SCHEMA["$schema"] == schema.DIALECT


def test_every_field_is_explained() -> None:
    for name, struct in job_docs.STRUCTS.items():
        properties = SCHEMA["properties"] if struct is Job else SCHEMA["$defs"][name]["properties"]
        for field in msgspec.structs.fields(struct):
            assert properties[field.encode_name]["description"], (name, field.encode_name)


TAKEN: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("fields", TAKEN.values(), ids=TAKEN.keys())
def test_what_it_takes(fields: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors({**GOOD, **fields})) == []


REFUSED: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED.keys())
def test_what_it_refuses(fields: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**GOOD, **fields})


@pytest.mark.parametrize("missing", ["name", "roles"])
def test_what_has_to_be_there(missing: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match="required"):
        VALIDATOR.validate({key: value for key, value in GOOD.items() if key != missing})
