"""Write the types of Kubernetes' built-in kinds for `windlass.k8s`, or verify that they are up to date.

They are generated from the models of the `kubernetes` package, which is needed only here and in tests: per type its
fields, their types, and which are required.
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

TYPES = Path(__file__).parents[1] / "src/windlass/k8s/types.json"
ROOTS = [
    models.AuthenticationV1TokenRequest,
    models.CoreV1Event,
    models.V1ClusterRole,
    models.V1ClusterRoleBinding,
    models.V1ConfigMap,
    models.V1CustomResourceDefinition,
    models.V1Deployment,
    models.V1Endpoints,
    models.V1Job,
    models.V1Lease,
    models.V1LocalSubjectAccessReview,
    models.V1Namespace,
    models.V1Node,
    models.V1PersistentVolumeClaim,
    models.V1Pod,
    models.V1PodTemplateSpec,
    models.V1ReplicaSet,
    models.V1Role,
    models.V1RoleBinding,
    models.V1Scale,
    models.V1Secret,
    models.V1SelfSubjectAccessReview,
    models.V1SelfSubjectReview,
    models.V1SelfSubjectRulesReview,
    models.V1Service,
    models.V1ServiceAccount,
    models.V1StatefulSet,
    models.V1SubjectAccessReview,
    models.V1TokenReview,
]

SCALARS = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "date-time",
    object: "object",
    Any: "any",
}

UNIONS = {
    frozenset({"integer", "string"}): "int-or-string",
    frozenset({"integer", "number"}): "number",
    frozenset({"bytes", "string"}): "bytes",
}

# The models are narrower than the API: a quantity may be a number.
CORRECTIONS = {
    ("V1ContainerStatus", "allocatedResources"): "{}quantity",
    ("V1EmptyDirVolumeSource", "sizeLimit"): "quantity",
    ("V1JSONSchemaProps", "additionalItems"): "any",
    ("V1JSONSchemaProps", "additionalProperties"): "any",
    ("V1JSONSchemaProps", "items"): "any",
    ("V1NodeStatus", "allocatable"): "{}quantity",
    ("V1NodeStatus", "capacity"): "{}quantity",
    ("V1PersistentVolumeClaimStatus", "allocatedResources"): "{}quantity",
    ("V1PersistentVolumeClaimStatus", "capacity"): "{}quantity",
    ("V1PodSpec", "overhead"): "{}quantity",
    ("V1ResourceFieldSelector", "divisor"): "quantity",
    ("V1ResourceRequirements", "limits"): "{}quantity",
    ("V1ResourceRequirements", "requests"): "{}quantity",
    ("V1VolumeResourceRequirements", "limits"): "{}quantity",
    ("V1VolumeResourceRequirements", "requests"): "{}quantity",
}


def wire_name(field: str, info: Any) -> str:
    return str(info.serialization_alias or info.alias or field)


def type_name(annotation: Any) -> str:
    """Return the name of a type: `[]T` is a list of T, `{}T` a mapping to T; a capital letter starts another type of
    the file."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is list:
        return "[]" + type_name(arguments[0])
    if origin is dict:
        return "object" if arguments[1] is Any else "{}" + type_name(arguments[1])
    if origin in (Union, types.UnionType):
        choices = {type_name(argument) for argument in arguments if argument is not type(None)}
        if len(choices) == 1:
            return choices.pop()
        return UNIONS.get(frozenset(choices), "any")
    return SCALARS[annotation] if annotation in SCALARS else str(annotation.__name__)


def models_in(annotation: Any) -> list[type]:
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def field_type(model: type, name: str, info: Any) -> str:
    return CORRECTIONS.get((model.__name__, name)) or type_name(info.annotation)


def described() -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[Any] = list(ROOTS)
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
        (model, name) for model, name in CORRECTIONS if name not in found.get(model, {}).get("fields", {})
    }
    if missing:
        raise SystemExit(f"no such fields in this version of the package: {sorted(missing)}")
    return {
        "kubernetes": metadata.version("kubernetes"),
        "types": dict(sorted(found.items())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", action="store_true", help="write nothing; fail if the file would change")
    arguments = parser.parse_args()
    text = json.dumps(described(), indent=1) + "\n"
    if not arguments.verify:
        TYPES.write_text(text)
        return 0
    if TYPES.exists() and TYPES.read_text() == text:
        return 0
    print(f"{TYPES} is out of date: run python tools/update_kubernetes_types.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
