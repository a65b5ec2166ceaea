"""Write the pod schema that `windlass.wire` checks pod templates against, or verify that it is up to date.

It is made from the models of the published `kubernetes` package, which is needed here and in tests only, and holds
what a check needs: per type its fields, the type of each, and which are required. No descriptions.
"""

import argparse
import json
import sys
import types
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from kubernetes.client import models

SCHEMA = Path(__file__).parents[1] / "src/windlass/wire/pod_schema.json"
ROOT = models.V1PodTemplateSpec

SCALARS = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "date-time",
    object: "object",
}

# The models call a quantity a string, but the API takes a number as well.
QUANTITIES = {
    ("V1EmptyDirVolumeSource", "sizeLimit"),
    ("V1PodSpec", "overhead"),
    ("V1ResourceFieldSelector", "divisor"),
    ("V1ResourceRequirements", "limits"),
    ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"),
    ("V1VolumeResourceRequirements", "requests"),
}


def wire_name(field: str, info: Any) -> str:
    return str(info.serialization_alias or info.alias or field)


def type_name(annotation: Any) -> str:
    """`[]T` is a list of T, `{}T` a mapping to T; a capital letter begins another type of the schema."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is list:
        return "[]" + type_name(arguments[0])
    if origin is dict:
        return "object" if arguments[1] is Any else "{}" + type_name(arguments[1])
    if origin in (Union, types.UnionType):
        choices = {type_name(argument) for argument in arguments if argument is not type(None)}
        return "int-or-string" if choices == {"integer", "string"} else choices.pop()
    return SCALARS[annotation] if annotation in SCALARS else str(annotation.__name__)


def models_in(annotation: Any) -> list[type]:
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def field_type(model: type, name: str, info: Any) -> str:
    kind = type_name(info.annotation)
    return kind.replace("string", "quantity") if (model.__name__, name) in QUANTITIES else kind


def schema() -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[Any] = [ROOT]
    while waiting:
        model = waiting.pop()
        if model.__name__ in found:
            continue
        fields = {wire_name(field, info): info for field, info in model.model_fields.items()}
        found[model.__name__] = {
            "fields": {name: field_type(model, name, info) for name, info in sorted(fields.items())},
            "required": sorted(name for name, info in fields.items() if info.is_required()),
        }
        waiting.extend(reached for info in fields.values() for reached in models_in(info.annotation))
    missing = {
        (model, name) for model, name in QUANTITIES if name not in found.get(model, {}).get("fields", {})
    }
    if missing:
        raise SystemExit(f"no such quantities in this version of the package: {sorted(missing)}")
    return {
        "kubernetes": metadata.version("kubernetes"),
        "root": ROOT.__name__,
        "types": dict(sorted(found.items())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", action="store_true", help="write nothing; fail if the file would change")
    arguments = parser.parse_args()
    text = json.dumps(schema(), indent=1) + "\n"
    if not arguments.verify:
        SCHEMA.write_text(text)
        return 0
    if SCHEMA.exists() and SCHEMA.read_text() == text:
        return 0
    print(f"{SCHEMA} is out of date: run python tools/update_pod_schema.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
