"""The CustomResourceDefinitions of Frameworks and Gangs, generated from the model.

Both groups have the same schema. The defaults are the zero values of the reference, so that absent fields have the same
meaning. `tools/update_crds.py` writes the definitions into the documentation, with docstrings as descriptions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import inspect

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework, FrameworkSpec
from windlass.model.gang import Gang, GangSpec
from windlass.model.status import FrameworkAttemptStatus, FrameworkStatus

Descriptions = Mapping[tuple[str, str], str]
"""Descriptions by class and field. The field "" is the class itself."""

NO_DESCRIPTIONS: Descriptions = MappingProxyType({})

CATEGORIES = ("all", "windlass")
"""`kubectl get windlass` shows the Frameworks of both groups, which share their plural and short name. They are among
`all` because they own pods that are: `kubectl delete all --all` that left them would only see the pods come back."""

PRINTER_COLUMNS = (
    ("State", "string", ".status.state", "Where the current attempt stands."),
    ("Tasks", "integer", ".status.summary.tasks", "How many tasks there are."),
    ("Running", "integer", ".status.summary.running", "How many tasks run."),
    ("Succeeded", "integer", ".status.summary.succeeded", "How many tasks have succeeded."),
    ("Failed", "integer", ".status.summary.failed", "How many tasks have failed."),
    (
        "Retries",
        "integer",
        ".status.retryPolicyStatus.totalRetriedCount",
        "How often the whole was tried again.",
    ),
    ("Age", "date", ".metadata.creationTimestamp", "How long ago the Framework was created."),
)

KEEP_UNKNOWN = "x-kubernetes-preserve-unknown-fields"

_MAX_INT32 = 2**31 - 1

_BY_FIELD: Mapping[tuple[type, str], Json] = {
    # Server-side apply merges roles by name, and no name comes twice.
    (FrameworkSpec, "task_roles"): {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    # Statement 35. Releases before 1.25 do not know such rules and drop this one.
    (FrameworkSpec, "execution_type"): {
        "x-kubernetes-validations": [
            {
                "rule": "self == oldSelf || oldSelf == 'Create' || (oldSelf == 'Start' && self == 'Stop')",
                "message": "executionType may go from Create to Start or Stop, and from Start to Stop, but not back",
            }
        ],
    },
    (FrameworkAttemptStatus, "task_role_statuses_compressed"): {"format": "byte"},
}
"""Schema extensions that types cannot express."""


def framework_crd(group: str, descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the definition of Frameworks in one of the two groups."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.KIND.lower(),
                "shortNames": ["fw"],
                "categories": list(CATEGORIES),
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": description}
                        for name, kind, path, description in PRINTER_COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": framework_schema(descriptions)},
                }
            ],
        },
    }


def gang_crd(descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the definition of Gangs, which tell barriers the addresses of tasks."""
    columns = (
        ("Framework", "string", ".spec.frameworkName", "Name of the Framework."),
        ("Attempt", "string", ".spec.attemptInstanceUID", "Instance UID of the attempt."),
        ("Age", "date", ".metadata.creationTimestamp", "Time since all tasks got an address."),
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.GANG_PLURAL}.{names.GANG_GROUP}"},
        "spec": {
            "group": names.GANG_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.GANG_KIND,
                "listKind": f"{names.GANG_KIND}List",
                "plural": names.GANG_PLURAL,
                "singular": names.GANG_KIND.lower(),
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": description}
                        for name, kind, path, description in columns
                    ],
                    "schema": {"openAPIV3Schema": _gang_schema(descriptions)},
                }
            ],
        },
    }


def definitions() -> tuple[Json, ...]:
    return (*map(framework_crd, names.GROUPS), gang_crd())


def _gang_schema(descriptions: Descriptions) -> Json:
    spec = _Spec(descriptions).schema_of(inspect.type_info(GangSpec))
    return {
        **_described(descriptions, Gang),
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    }


def framework_schema(descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the structural schema of a Framework."""
    spec = _Spec(descriptions).schema_of(inspect.type_info(FrameworkSpec))
    status = _Status(descriptions).schema_of(inspect.type_info(FrameworkStatus))
    name = {"type": "string", "maxLength": 63, "pattern": names.DNS_LABEL_PATTERN}
    return {
        **_described(descriptions, Framework),
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Kubernetes allows only the name and generateName in the schema of metadata.
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": {**spec, "default": {}},
            "status": {**status, "nullable": True},
        },
    }


def _described(descriptions: Descriptions, cls: type, field: str = "") -> Json:
    text = descriptions.get((cls.__name__, field))
    return {"description": text} if text else {}


class _Schemas:
    """Converts types of the model to structural schemas. Subclasses define the rules for fields of structs."""

    def __init__(self, descriptions: Descriptions) -> None:
        self._descriptions = descriptions

    def schema_of(self, kind: inspect.Type, field: str = "") -> Json:
        match kind:
            case inspect.StructType():
                return self._struct(kind)
            case inspect.EnumType(cls=cls):
                values = [member.value for member in cls]
                return {**_described(self._descriptions, cls), "type": "string", "enum": values}
            case inspect.IntType():
                return _integer(kind, field)
            case inspect.StrType():
                return {"type": "string"} | ({"pattern": kind.pattern} if kind.pattern else {})
            case inspect.BoolType():
                return {"type": "boolean"}
            case inspect.DateTimeType():
                return {"type": "string", "format": "date-time"}
            case inspect.VarTupleType(item_type=item):
                return {"type": "array", "items": self.schema_of(item)}
            case inspect.DictType():
                return {"type": "object", KEEP_UNKNOWN: True}
            case inspect.UnionType(types=(only, inspect.NoneType())):
                return {**self.schema_of(only, field), "nullable": True}
        raise TypeError(f"the type of the field {field} has no schema: {kind}")

    def _struct(self, struct: inspect.StructType) -> Json:
        properties = {field.encode_name: self._property(struct.cls, field) for field in struct.fields}
        return {**_described(self._descriptions, struct.cls), "type": "object", "properties": properties}

    def _property(self, owner: type, field: inspect.Field) -> Json:
        schema = self.schema_of(field.type, field.name)
        description = _described(self._descriptions, owner, field.name)
        return {**description, **schema, **description, **_BY_FIELD.get((owner, field.name), {})}


class _Spec(_Schemas):
    """The spec, which users write: absent fields have defaults, and unknown fields are dropped."""

    def _struct(self, struct: inspect.StructType) -> Json:
        schema = super()._struct(struct)
        required = [field.encode_name for field in struct.fields if field.required]
        return {**schema, "required": required} if required else schema

    def _property(self, owner: type, field: inspect.Field) -> Json:
        schema = super()._property(owner, field)
        default = _default(field)
        return schema if default is None else {**schema, "default": default}


class _Status(_Schemas):
    """The status, which controllers of different releases share: no defaults, and unknown fields are kept.

    Unknown fields must be kept at every level explicitly. A list may be null, because Go writes empty lists so.
    """

    def schema_of(self, kind: inspect.Type, field: str = "") -> Json:
        schema = super().schema_of(kind, field)
        return {**schema, "nullable": True} if schema["type"] == "array" else schema

    def _struct(self, struct: inspect.StructType) -> Json:
        # Atomic maps keep managedFields small, which the server updates at every write.
        whole = {} if struct.cls is FrameworkStatus else {"x-kubernetes-map-type": "atomic"}
        return {**super()._struct(struct), KEEP_UNKNOWN: True, **whole}


def _integer(kind: inspect.IntType, field: str) -> Json:
    is_wide = field.endswith("_sec") if kind.le is None else kind.le > _MAX_INT32
    schema: Json = {"type": "integer", "format": "int64" if is_wide else "int32"}
    if kind.ge is not None:
        schema["minimum"] = kind.ge
    if kind.le is not None:
        schema["maximum"] = kind.le
    return schema


def _default(field: inspect.Field) -> Any:
    """Return the default as JSON. For a nested object it is `{}`: the API server applies the nested defaults."""
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    else:
        return None
    return msgspec.json.decode(msgspec.json.encode(default))
