"""The schemas in OpenAPI documents: built-in types, custom resources, lists and shared types.

The two dialects are Swagger 2.0 (`/openapi/v2`) and OpenAPI 3.0 (`/openapi/v3`). The schemas have the names and types
of Kubernetes' fields, but not its descriptions. They are not used to validate requests: see `apiserver.schemas`.
Schemas are shared between documents: do not modify them.
"""

import enum
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.k8s import strategic_merge
from windlass.k8s import types as k8s_types
from windlass.k8s.types import Type
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import custom

Schema = dict[str, Any]


class Dialect(enum.StrEnum):
    """The prefix of references in each dialect."""

    SWAGGER = "#/definitions/"
    OPENAPI = "#/components/schemas/"


_META = "io.k8s.apimachinery.pkg.apis.meta"
TIME = f"{_META}.v1.Time"
PATCH = f"{_META}.v1.Patch"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# The Go packages of types, by type name without version. All other types are in the core package.
_PACKAGES = {
    _META: r"Condition|DeleteOptions|LabelSelector.*|ListMeta|ManagedFieldsEntry|ObjectMeta|OwnerReference"
    r"|Preconditions|Status|StatusCause|StatusDetails",
    "io.k8s.api.apps": r"Deployment.*|ReplicaSet.*|StatefulSet.*|RollingUpdate.*",
    "io.k8s.api.autoscaling": r"Scale|ScaleSpec|ScaleStatus",
    "io.k8s.api.batch": r"Job.*|PodFailurePolicy.*|SuccessPolicy.*|UncountedTerminatedPods",
    "io.k8s.api.coordination": r"Lease.*",
    "io.k8s.api.policy": r"Eviction",
    "io.k8s.api.rbac": r"AggregationRule|ClusterRole.*|PolicyRule|Role.*|Subject",
    "io.k8s.api.scheduling": r"TopologyConstraint|Workload.*",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions": r"CustomResource.*|ExternalDocumentation|JSONSchemaProps"
    r"|SelectableField|ServiceReference|ValidationRule|Webhook.*",
}
_TYPE_NAME = re.compile(r"(?:[A-Z][a-z]+)?V(?P<version>[0-9]+(?:(?:alpha|beta)[0-9]+)?)(?P<name>[A-Z].*)")

# Types of every API server that no kind refers to.
_SHARED = {
    "V1ListMeta": Type(
        {
            "continue": "string",
            "remainingItemCount": "integer",
            "resourceVersion": "string",
            "selfLink": "string",
        },
        (),
    ),
    "V1DeleteOptions": Type(
        {
            "apiVersion": "string",
            "dryRun": "[]string",
            "gracePeriodSeconds": "integer",
            "kind": "string",
            "orphanDependents": "boolean",
            "preconditions": "V1Preconditions",
            "propagationPolicy": "string",
        },
        (),
    ),
    "V1Preconditions": Type({"resourceVersion": "string", "uid": "string"}, ()),
    "V1Status": Type(
        {
            "apiVersion": "string",
            "code": "integer",
            "details": "V1StatusDetails",
            "kind": "string",
            "message": "string",
            "metadata": "V1ListMeta",
            "reason": "string",
            "status": "string",
        },
        (),
    ),
    "V1StatusDetails": Type(
        {
            "causes": "[]V1StatusCause",
            "group": "string",
            "kind": "string",
            "name": "string",
            "retryAfterSeconds": "integer",
            "uid": "string",
        },
        (),
    ),
    "V1StatusCause": Type({"field": "string", "message": "string", "reason": "string"}, ()),
    "V1Binding": Type(
        {"apiVersion": "string", "kind": "string", "metadata": "V1ObjectMeta", "target": "V1ObjectReference"},
        ("target",),
    ),
    "V1Eviction": Type(
        {
            "apiVersion": "string",
            "deleteOptions": "V1DeleteOptions",
            "kind": "string",
            "metadata": "V1ObjectMeta",
        },
        (),
    ),
}
# The kinds among the shared types.
_SHARED_KINDS = {
    "V1DeleteOptions": ("", "v1", "DeleteOptions"),
    "V1Status": ("", "v1", "Status"),
    "V1Binding": ("", "v1", "Binding"),
    "V1Eviction": ("policy", "v1", "Eviction"),
    "V1Scale": ("autoscaling", "v1", "Scale"),
}
_ALWAYS = ("V1DeleteOptions", "V1ListMeta", "V1ObjectMeta", "V1Status")
_SUBRESOURCE_TYPES = {"scale": "V1Scale", "eviction": "V1Eviction", "binding": "V1Binding"}

# Descriptions of the built-in kinds, for `kubectl explain`.
_DESCRIPTIONS = {
    "CoreV1Event": "A report of something that happened to an object.",
    "V1ClusterRole": "Access rules for the whole cluster.",
    "V1ClusterRoleBinding": "Grants a ClusterRole to users, groups or service accounts.",
    "V1ConfigMap": "Configuration data as key-value pairs.",
    "V1CustomResourceDefinition": "The definition of a custom resource.",
    "V1Deployment": "Replicated pods with rolling updates.",
    "V1Endpoints": "The addresses of the pods of a Service.",
    "V1Job": "Pods that run to completion.",
    "V1Lease": "A lock with an expiry time, e.g. for leader election.",
    "V1Namespace": "A scope for the names of other objects.",
    "V1Node": "A machine that runs pods.",
    "V1PersistentVolumeClaim": "A request for persistent storage.",
    "V1Pod": "Containers that run together on one node.",
    "V1ReplicaSet": "Replicated pods.",
    "V1Role": "Access rules for one namespace.",
    "V1RoleBinding": "Grants a Role or ClusterRole in one namespace.",
    "V1Secret": "Confidential data as key-value pairs.",
    "V1Service": "A stable name and address for a set of pods.",
    "V1ServiceAccount": "An identity for processes in pods.",
    "V1StatefulSet": "Replicated pods with stable names and storage.",
}

_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "any": {"description": "Any value"},
}
_NAMED_SCALARS = {"date-time": TIME, "quantity": QUANTITY, "int-or-string": INT_OR_STRING}


def definitions(kinds: Sequence[Kind], dialect: Dialect) -> dict[str, Schema]:
    """Return all schemas that a document about these kinds can refer to, by name."""
    roots = [kind.type_name for kind in kinds if not kind.is_custom]
    below = [
        _SUBRESOURCE_TYPES[name] for kind in kinds for name in kind.subresources if name in _SUBRESOURCE_TYPES
    ]
    found = {
        definition_name(name): type_schema(name, dialect)
        for name in _reachable_types([*roots, *below, *_ALWAYS])
    }
    found |= _common(dialect)
    for kind in kinds:
        name = kind_definition_name(kind)
        schema = _custom_schema(kind, dialect) if kind.is_custom else found[name]
        found[name] = _with_group_version_kind(schema, kind.group, kind.version, kind.kind)
        found[list_definition_name(kind)] = _list_schema(kind, dialect)
    return dict(sorted(found.items()))


@functools.cache
def definition_name(type_name: str) -> str:
    """Return the published name of a type: `V1Pod` is `io.k8s.api.core.v1.Pod`."""
    match = _TYPE_NAME.fullmatch(type_name)
    if match is None:
        raise ValueError(f"not the name of a Kubernetes type such as V1Pod: {type_name!r}")
    name = match["name"]
    packages = (package for package, names in _PACKAGES.items() if re.fullmatch(names, name))
    return f"{next(packages, 'io.k8s.api.core')}.v{match['version']}.{name}"


def kind_definition_name(kind: Kind) -> str:
    """Return the published name of a kind. Custom resources have their reversed group: `com.example.v1.Widget`."""
    return f"{_package(kind)}.{kind.kind}"


def list_definition_name(kind: Kind) -> str:
    return f"{_package(kind)}.{kind.list_kind}"


def _package(kind: Kind) -> str:
    if not kind.is_custom:
        return definition_name(kind.type_name).rpartition(".")[0]
    return ".".join([*reversed(kind.group.split(".")), kind.version])


def reference(name: str, dialect: Dialect) -> Schema:
    return {"$ref": dialect + name}


@functools.cache
def type_schema(name: str, dialect: Dialect) -> Schema:
    declared = _types()[name]
    schema: Schema = {"type": "object"}
    if name in _DESCRIPTIONS:
        schema["description"] = _DESCRIPTIONS[name]
    if declared.required:
        schema["required"] = list(declared.required)
    if declared.fields:
        schema["properties"] = {
            field: _field(holds, dialect, _merge_extensions(name, field))
            for field, holds in declared.fields.items()
        }
    return _with_group_version_kind(schema, *_SHARED_KINDS[name]) if name in _SHARED_KINDS else schema


@functools.cache
def _types() -> dict[str, Type]:
    return _SHARED | k8s_types.types()


def _reachable_types(roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        held = (holds.lstrip("[]{}") for holds in _types()[name].fields.values())
        waiting.extend(type_name for type_name in held if type_name in _types())
    return found


def _field(holds: str, dialect: Dialect, extensions: Schema) -> Schema:
    if holds.startswith("[]"):
        return {"type": "array", "items": _field(holds[2:], dialect, {}), **extensions}
    if holds.startswith("{}"):
        return {"type": "object", "additionalProperties": _field(holds[2:], dialect, {}), **extensions}
    if holds in _SCALARS:
        return _SCALARS[holds] | extensions
    target = reference(_NAMED_SCALARS.get(holds) or definition_name(holds), dialect)
    # OpenAPI 3.0 ignores the siblings of a reference.
    if extensions and dialect is Dialect.OPENAPI:
        return {"allOf": [target], **extensions}
    return target | extensions


def _merge_extensions(type_name: str, field: str) -> Schema:
    """Return the extensions that tell kubectl how to merge a field when it computes a patch."""
    rule = strategic_merge.RULES.get(type_name, {}).get(field)
    if rule is None:
        return {}
    key = {"x-kubernetes-patch-merge-key": rule.key} if rule.key else {}
    return key | {"x-kubernetes-patch-strategy": rule.strategy}


def _common(dialect: Dialect) -> dict[str, Schema]:
    is_swagger = dialect is Dialect.SWAGGER
    either = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    number_or_text = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    return {
        TIME: {"type": "string", "format": "date-time"},
        PATCH: {"type": "object"},
        QUANTITY: {"type": "string"} if is_swagger else number_or_text,
        INT_OR_STRING: ({"type": "string"} if is_swagger else either) | {"format": "int-or-string"},
    }


def _with_group_version_kind(schema: Schema, group: str, version: str, kind: str) -> Schema:
    named = {"group": group, "version": version, "kind": kind}
    return schema | {"x-kubernetes-group-version-kind": [named]}


def _custom_schema(kind: Kind, dialect: Dialect) -> Schema:
    published = kind.published_schema or {}
    object_metadata = reference(definition_name("V1ObjectMeta"), dialect)
    if dialect is Dialect.SWAGGER:
        return custom.as_swagger(published, object_metadata)
    return custom.as_openapi(published, object_metadata)


def _list_schema(kind: Kind, dialect: Dialect) -> Schema:
    items = reference(kind_definition_name(kind), dialect)
    schema: Schema = {
        "description": f"Objects of kind {kind.kind}.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": items},
            "kind": {"type": "string"},
            "metadata": reference(definition_name("V1ListMeta"), dialect),
        },
    }
    return _with_group_version_kind(schema, kind.group, kind.version, kind.list_kind)
