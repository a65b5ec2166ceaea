"""The CustomResourceDefinitions of Frameworks, Gangs and AttemptRecords, generated from the model.

Frameworks have the same schema in both API groups. The defaults of fields that the reference controller (Microsoft's
FrameworkController) also has mean the same as its zero values, so that absent fields mean the same in both controllers.
`tools/update_crds.py` writes the definitions into the documentation, with docstrings as descriptions.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import inspect

from windlass.model import names
from windlass.model.base import Json
from windlass.model.failures import ContainerPattern, IntRange, PodPattern, TaskFailureClass
from windlass.model.framework import (
    FIELDS_WITHOUT_STORED_DEFAULT,
    CompletionRule,
    Framework,
    FrameworkSpec,
    StartAfter,
)
from windlass.model.gang import Gang, GangSpec
from windlass.model.history import AttemptDetail, AttemptRecord, AttemptRecordSpec
from windlass.model.status import FrameworkAttemptStatus, FrameworkStatus

Descriptions = Mapping[tuple[str, str], str]
"""Descriptions by class and field. The field "" is the class itself."""

NO_DESCRIPTIONS: Descriptions = MappingProxyType({})

CATEGORIES = ("all", "windlass")
"""`kubectl get windlass` shows the Frameworks of both groups, which share their plural and short name. They are in the
category `all` like their pods: if `kubectl delete all --all` deleted only the pods, the controller would recreate
them."""

PRINTER_COLUMNS = (
    ("State", "string", ".status.state", "State of the current attempt."),
    ("Tasks", "integer", ".status.summary.tasks", "Number of tasks."),
    ("Running", "integer", ".status.summary.running", "Number of running tasks."),
    ("Succeeded", "integer", ".status.summary.succeeded", "Number of succeeded tasks."),
    ("Failed", "integer", ".status.summary.failed", "Number of failed tasks."),
    ("Retries", "integer", ".status.retryPolicyStatus.totalRetriedCount", "Number of retries of the job."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the Framework was created."),
)
SELECTABLE_FIELDS = (".status.state",)
"""Fields for field selectors, since Kubernetes 1.31. Older servers drop this list."""
GANG_PRINTER_COLUMNS = (
    ("Framework", "string", ".spec.frameworkName", "Name of the Framework."),
    ("Attempt", "string", ".spec.attemptInstanceUID", "Instance UID of the attempt."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since all tasks got an address."),
)
RECORD_PRINTER_COLUMNS = (
    ("Framework", "string", ".spec.frameworkName", "Name of the Framework."),
    ("Attempt", "integer", ".spec.attempt", "ID of the attempt."),
    ("Result", "string", ".spec.phrase", "Phrase of the completion code."),
    ("Code", "integer", ".spec.code", "Completion code."),
    ("Retried", "boolean", ".spec.retry.shouldRetry", "Whether the Framework is retried."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the attempt ended."),
)

KEEP_UNKNOWN = "x-kubernetes-preserve-unknown-fields"

_MAX_INT32 = 2**31 - 1
_STRING: Json = {"type": "string"}

_EXTENSIONS: Mapping[tuple[type, str], Json] = {
    # Server-side apply merges roles by name. Names are unique.
    (FrameworkSpec, "task_roles"): {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    # Statement 35 of docs/behaviours.md. Kubernetes before 1.25 ignores validation rules.
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

_WITHOUT_DEFAULTS = frozenset(
    {CompletionRule, StartAfter, TaskFailureClass, PodPattern, ContainerPattern, IntRange}
)


def framework_crd(group: str, descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the definition of Frameworks in one of the two groups."""
    return _definition(
        group,
        {
            "kind": names.KIND,
            "listKind": f"{names.KIND}List",
            "plural": names.PLURAL,
            "singular": names.KIND.lower(),
            "shortNames": ["fw"],
            "categories": list(CATEGORIES),
        },
        framework_schema(descriptions),
        subresources={"status": {}},
        additionalPrinterColumns=_columns(PRINTER_COLUMNS),
        selectableFields=[{"jsonPath": path} for path in SELECTABLE_FIELDS],
    )


def gang_crd(descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the definition of Gangs, from which barriers read the addresses of tasks."""
    return _definition(
        names.GANG_GROUP,
        {
            "kind": names.GANG_KIND,
            "listKind": f"{names.GANG_KIND}List",
            "plural": names.GANG_PLURAL,
            "singular": names.GANG_KIND.lower(),
        },
        _gang_schema(descriptions),
        additionalPrinterColumns=_columns(GANG_PRINTER_COLUMNS),
    )


def record_crd(descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the definition of AttemptRecords, which clusters with `history` have."""
    spec = _RecordSchemas(descriptions).schema_of(inspect.type_info(AttemptRecordSpec))
    schema = {
        **_described(descriptions, AttemptRecord),
        **_object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec),
    }
    return _definition(
        names.GANG_GROUP,
        {
            "kind": names.RECORD_KIND,
            "listKind": f"{names.RECORD_KIND}List",
            "plural": names.RECORD_PLURAL,
            "singular": names.RECORD_KIND.lower(),
        },
        schema,
        additionalPrinterColumns=_columns(RECORD_PRINTER_COLUMNS),
    )


def _definition(group: str, crd_names: Json, schema: Json, **version_fields: Any) -> Json:
    """Return a CustomResourceDefinition with one version, which has the given fields besides its schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{crd_names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": crd_names,
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    **version_fields,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _columns(columns: Iterable[tuple[str, str, str, str]]) -> list[Json]:
    return [
        {"name": name, "type": column_type, "jsonPath": path, "description": description}
        for name, column_type, path, description in columns
    ]


def definitions(*, has_records: bool = False) -> tuple[Json, ...]:
    """Return the definitions of an installation. Those of records are included only if it keeps records."""
    return (*map(framework_crd, names.GROUPS), gang_crd(), *((record_crd(),) if has_records else ()))


def _gang_schema(descriptions: Descriptions) -> Json:
    spec = _SpecSchemas(descriptions).schema_of(inspect.type_info(GangSpec))
    return {
        **_described(descriptions, Gang),
        **_object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec),
    }


def framework_schema(descriptions: Descriptions = NO_DESCRIPTIONS) -> Json:
    """Return the structural schema of a Framework."""
    spec = _SpecSchemas(descriptions).schema_of(inspect.type_info(FrameworkSpec))
    status = _StatusSchemas(descriptions).schema_of(inspect.type_info(FrameworkStatus))
    name = {"type": "string", "maxLength": 63, "pattern": names.DNS_LABEL_PATTERN}
    return {
        **_described(descriptions, Framework),
        **_object(
            apiVersion=_STRING,
            kind=_STRING,
            # Kubernetes allows only the name and generateName in the schema of metadata.
            metadata=_object(name=name),
            spec={**spec, "default": {}},
            status={**status, "nullable": True},
        ),
    }


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _described(descriptions: Descriptions, cls: type, field: str = "") -> Json:
    text = descriptions.get((cls.__name__, field))
    return {"description": text} if text else {}


class _Schemas:
    """Converts types of the model to structural schemas. Subclasses define the rules for fields of structs."""

    def __init__(self, descriptions: Descriptions) -> None:
        self._descriptions = descriptions

    def schema_of(self, type_: inspect.Type, field: str = "") -> Json:
        match type_:
            case inspect.StructType():
                return self._struct(type_)
            case inspect.EnumType(cls=cls):
                values = [member.value for member in cls]
                return {**_described(self._descriptions, cls), "type": "string", "enum": values}
            case inspect.IntType():
                return _integer(type_, field)
            case inspect.StrType():
                return {"type": "string"} | ({"pattern": type_.pattern} if type_.pattern else {})
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
        raise TypeError(f"the type of the field {field} has no schema: {type_}")

    def _struct(self, struct: inspect.StructType) -> Json:
        properties = {field.encode_name: self._property(struct.cls, field) for field in struct.fields}
        return {**_described(self._descriptions, struct.cls), "type": "object", "properties": properties}

    def _property(self, owner: type, field: inspect.Field) -> Json:
        schema = self.schema_of(field.type, field.name)
        description = _described(self._descriptions, owner, field.name)
        return {**description, **schema, **description, **_EXTENSIONS.get((owner, field.name), {})}


class _SpecSchemas(_Schemas):
    """The spec, which users write: absent fields get defaults, and unknown fields outside pod templates are dropped."""

    def _struct(self, struct: inspect.StructType) -> Json:
        schema = super()._struct(struct)
        required = [field.encode_name for field in struct.fields if field.required]
        return {**schema, "required": required} if required else schema

    def _property(self, owner: type, field: inspect.Field) -> Json:
        schema = super()._property(owner, field)
        is_stored = owner not in _WITHOUT_DEFAULTS and field.name not in FIELDS_WITHOUT_STORED_DEFAULT
        default = _default(field) if is_stored else None
        return schema if default is None else {**schema, "default": default}


class _StatusSchemas(_Schemas):
    """The status, which controllers of different releases share: no defaults, and unknown fields are kept.

    Unknown fields must be kept at every level explicitly. A list may be null, because Go encodes nil slices as null.
    """

    def schema_of(self, type_: inspect.Type, field: str = "") -> Json:
        schema = super().schema_of(type_, field)
        return {**schema, "nullable": True} if schema["type"] == "array" else schema

    def _struct(self, struct: inspect.StructType) -> Json:
        # Atomic maps keep managedFields small, which the server updates at every write.
        atomic = {} if struct.cls is FrameworkStatus else {"x-kubernetes-map-type": "atomic"}
        return {**super()._struct(struct), KEEP_UNKNOWN: True, **atomic}


class _RecordSchemas(_StatusSchemas):
    """A record, whose detail depends on the release of the controller and is not described."""

    def _struct(self, struct: inspect.StructType) -> Json:
        if struct.cls is not AttemptDetail:
            return super()._struct(struct)
        return {**_described(self._descriptions, AttemptDetail), "type": "object", KEEP_UNKNOWN: True}


def _integer(type_: inspect.IntType, field: str) -> Json:
    is_wide = field.endswith("_sec") if type_.le is None else type_.le > _MAX_INT32
    schema: Json = {"type": "integer", "format": "int64" if is_wide else "int32"}
    if type_.ge is not None:
        schema["minimum"] = type_.ge
    if type_.le is not None:
        schema["maximum"] = type_.le
    return schema


def _default(field: inspect.Field) -> Any:
    """Return the default as JSON, or None. For a nested object it is `{}`: the API server applies nested defaults."""
    if field.default is not msgspec.NODEFAULT:
        default = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    else:
        return None
    return msgspec.json.decode(msgspec.json.encode(default))


# The definition of the reference controller, Microsoft's FrameworkController, for a migration back to it

REFERENCE_NAME_PATTERN = "^[a-z0-9]{1,63}$"
"""FrameworkController's pattern of the names of Frameworks and roles. Windlass also allows hyphens in names of
Frameworks."""
_REFERENCE_NAME: Json = {"type": "string", "pattern": REFERENCE_NAME_PATTERN}
_OPEN_OBJECT: Json = {"type": "object", KEEP_UNKNOWN: True}


def reference_crd(group: str = names.CONTROLLER_GROUP) -> Json:
    """Return the definition that the reference controller creates. It does not depend on the model.

    It has no status subresource: the reference controller updates the whole object (statements 1 and 2 of
    docs/behaviours.md).
    """
    schema = _object(
        apiVersion=_STRING,
        kind=_STRING,
        metadata=_object(name=_REFERENCE_NAME),
        spec=_object(
            description=_STRING,
            executionType={"type": "string", "enum": ["Create", "Start", "Stop"]},
            retryPolicy=_reference_retry_policy(),
            taskRoles={"type": "array", "items": _reference_task_role()},
        ),
        status={**_OPEN_OBJECT, "nullable": True},
    )
    return _definition(group, {"kind": names.KIND, "plural": names.PLURAL}, schema)


def _reference_task_role() -> Json:
    return _object(
        name=_REFERENCE_NAME,
        taskNumber={"type": "integer", "minimum": 0, "maximum": 10_000},
        frameworkAttemptCompletionPolicy=_object(
            minFailedTaskCount={"type": "integer", "minimum": -1},
            minSucceededTaskCount={"type": "integer", "minimum": -1},
        ),
        task=_object(
            retryPolicy=_reference_retry_policy(),
            podGracefulDeletionTimeoutSec={"type": "integer", "nullable": True},
            pod=dict(_OPEN_OBJECT),
        ),
    )


def _reference_retry_policy() -> Json:
    return _object(
        fancyRetryPolicy={"type": "boolean"},
        maxRetryCount={"type": "integer", "minimum": -2},
    )
