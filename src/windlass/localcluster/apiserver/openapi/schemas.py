"""The schemas that OpenAPI documents refer to: of the built-in types, of custom kinds, of lists and of what all share.

There are two dialects: Swagger 2.0 (`/openapi/v2`) and OpenAPI 3.0 (`/openapi/v3`). Only names and types of Kubernetes'
fields are published, none of its descriptions. What the server checks a request against is not here but in `schemas`.
The schemas returned are shared between documents: they are to be read only.
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
    """Each is spelled as what comes before a schema's name in a reference to it."""

    SWAGGER = "#/definitions/"
    OPENAPI = "#/components/schemas/"


_META = "io.k8s.apimachinery.pkg.apis.meta"
TIME = f"{_META}.v1.Time"
PATCH = f"{_META}.v1.Patch"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# Which package a type is named after, by the type's name without its version. All others are of the core.
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

# Types that every API server shares and that no kind leads to.
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
# The kinds among the shared types; those of the table of kinds say so themselves.
_SHARED_KINDS = {
    "V1DeleteOptions": ("", "v1", "DeleteOptions"),
    "V1Status": ("", "v1", "Status"),
    "V1Binding": ("", "v1", "Binding"),
    "V1Eviction": ("policy", "v1", "Eviction"),
    "V1Scale": ("autoscaling", "v1", "Scale"),
}
_ALWAYS = ("V1DeleteOptions", "V1ListMeta", "V1ObjectMeta", "V1Status")
_SUBRESOURCE_TYPES = {"scale": "V1Scale", "eviction": "V1Eviction", "binding": "V1Binding"}

# What `kubectl explain` says of a built-in kind.
_DESCRIPTIONS = {
    "CoreV1Event": "Something that happened to an object, told for people to read.",
    "V1ClusterRole": "Rules that grant access in every namespace.",
    "V1ClusterRoleBinding": "Who has the rules of a ClusterRole.",
    "V1ConfigMap": "Settings that are no secret, by name.",
    "V1CustomResourceDefinition": "A kind of object that users add to the API.",
    "V1Deployment": "A number of like pods that are kept running and can be replaced step by step.",
    "V1Endpoints": "The addresses behind a Service.",
    "V1Job": "Pods that run until enough of them have succeeded.",
    "V1Lease": "Who holds something, and until when.",
    "V1Namespace": "A space of names for other objects.",
    "V1Node": "A machine that pods run on.",
    "V1PersistentVolumeClaim": "A claim to storage that outlives pods.",
    "V1Pod": "Containers that run together on one node.",
    "V1ReplicaSet": "A number of like pods that are kept running.",
    "V1Role": "Rules that grant access in one namespace.",
    "V1RoleBinding": "Who has the rules of a role in one namespace.",
    "V1Secret": "Data that is to be kept from others, by name.",
    "V1Service": "One name and address for a set of pods.",
    "V1ServiceAccount": "An identity that pods have towards the API.",
    "V1StatefulSet": "Pods with names and storage of their own that are kept running.",
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
    """Every schema that a document about these kinds may refer to, by name."""
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
    """`V1Pod` is published as `io.k8s.api.core.v1.Pod`."""
    match = _TYPE_NAME.fullmatch(type_name)
    if match is None:
        raise ValueError(f"a name of a type of Kubernetes was expected, such as V1Pod; found {type_name!r}")
    name = match["name"]
    packages = (package for package, names in _PACKAGES.items() if re.fullmatch(names, name))
    return f"{next(packages, 'io.k8s.api.core')}.v{match['version']}.{name}"


def kind_definition_name(kind: Kind) -> str:
    """A custom kind is named after its group, backwards: `com.example.v1.Widget`."""
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
    # OpenAPI 3.0 ignores what stands beside a reference.
    if extensions and dialect is Dialect.OPENAPI:
        return {"allOf": [target], **extensions}
    return target | extensions


def _merge_extensions(type_name: str, field: str) -> Schema:
    """How kubectl is to merge a field when it works out a patch by itself: as the server does."""
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
