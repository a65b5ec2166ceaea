"""The schemas in OpenAPI documents: built-in types, custom resources, lists and shared types.

The two dialects are Swagger 2.0 (`/openapi/v2`) and OpenAPI 3.0 (`/openapi/v3`). The schemas have the names and types
of Kubernetes' fields, but not their descriptions. They are not used to validate requests: see `apiserver.schemas`.
Schemas are shared between documents: do not modify them.

OpenAPI 3.0 supports everything that the schema of a custom resource can contain. Swagger 2.0 does not, and kubectl
rejects a document with unsupported parts. Those are dropped, so kubectl validates less than the server.
"""

import enum
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from windlass.k8s import strategic_merge
from windlass.k8s import types as k8s_types
from windlass.k8s.types import Type
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.openapi import v2_protobuf

Schema = dict[str, Any]


class Dialect(enum.StrEnum):
    """A dialect. Its value is the prefix of references to schemas."""

    SWAGGER = "#/definitions/"
    OPENAPI = "#/components/schemas/"


_META = "io.k8s.apimachinery.pkg.apis.meta"
TIME = f"{_META}.v1.Time"
PATCH = f"{_META}.v1.Patch"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# Patterns of type names without version, by Go package. All other types are in the core package.
_PACKAGES = {
    "io.k8s.api.authorization": r".*AccessReview.*|.*RulesReview.*|(FieldSelector|LabelSelector|NonResource|Resource)"
    r"Attributes|(NonResource|Resource)Rule",
    _META: r"Condition|DeleteOptions|FieldSelectorRequirement|LabelSelector.*|ListMeta|ManagedFieldsEntry|ObjectMeta"
    r"|OwnerReference|Preconditions|Status|StatusCause|StatusDetails",
    "io.k8s.api.apps": r"Deployment.*|ReplicaSet.*|StatefulSet.*|RollingUpdate.*",
    "io.k8s.api.authentication": r"BoundObjectReference|SelfSubjectReview.*|TokenRequest.*|TokenReview.*|UserInfo",
    "io.k8s.api.autoscaling": r"Scale|ScaleSpec|ScaleStatus",
    "io.k8s.api.batch": r"Job.*|PodFailurePolicy.*|SuccessPolicy.*|UncountedTerminatedPods",
    "io.k8s.api.coordination": r"Lease.*",
    "io.k8s.api.policy": r"Eviction",
    "io.k8s.api.rbac": r"AggregationRule|ClusterRole.*|PolicyRule|Role.*|Subject",
    "io.k8s.api.scheduling": r"TopologyConstraint|Workload.*",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions": r"CustomResource.*|ExternalDocumentation|JSONSchemaProps"
    r"|SelectableField|ServiceReference|ValidationRule|Webhook.*",
}


def _type(*strings: str, **others: str) -> Type:
    """Return a type with the fields `strings` of type string and the fields `others`. None is required."""
    fields = dict.fromkeys(strings, "string") | others
    return Type(dict(sorted(fields.items())), ())


# Types of requests and responses, which `k8s.types` does not contain because no kind refers to them.
_SHARED = {
    "V1Binding": Type(
        _type("apiVersion", "kind", metadata="V1ObjectMeta", target="V1ObjectReference").fields, ("target",)
    ),
    "V1DeleteOptions": _type(
        *("apiVersion", "kind", "propagationPolicy"),
        dryRun="[]string",
        gracePeriodSeconds="integer",
        orphanDependents="boolean",
        preconditions="V1Preconditions",
    ),
    "V1Eviction": _type("apiVersion", "kind", deleteOptions="V1DeleteOptions", metadata="V1ObjectMeta"),
    "V1ListMeta": _type("continue", "resourceVersion", "selfLink", remainingItemCount="integer"),
    "V1Preconditions": _type("resourceVersion", "uid"),
    "V1Status": _type(
        *("apiVersion", "kind", "message", "reason", "status"),
        code="integer",
        details="V1StatusDetails",
        metadata="V1ListMeta",
    ),
    "V1StatusCause": _type("field", "message", "reason"),
    "V1StatusDetails": _type(
        "group", "kind", "name", "uid", causes="[]V1StatusCause", retryAfterSeconds="integer"
    ),
}
# Group, version and kind of types that are kinds but have no resource of their own.
_SHARED_KINDS = {
    "V1DeleteOptions": ("", "v1", "DeleteOptions"),
    "V1Status": ("", "v1", "Status"),
    "V1Binding": ("", "v1", "Binding"),
    "V1Eviction": ("policy", "v1", "Eviction"),
    "V1Scale": ("autoscaling", "v1", "Scale"),
    "AuthenticationV1TokenRequest": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_ALWAYS_PUBLISHED = ("V1DeleteOptions", "V1ListMeta", "V1ObjectMeta", "V1Status")
_SUBRESOURCE_TYPES = {
    "scale": "V1Scale",
    "eviction": "V1Eviction",
    "binding": "V1Binding",
    "token": "AuthenticationV1TokenRequest",
}

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

# Keys of a custom resource's schema that Swagger 2.0 supports, besides subschemas.
_SWAGGER_KEYS = v2_protobuf.SCHEMA_KEYS - {"$ref", "additionalProperties", "items", "properties"} | {
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
}


def definitions(kinds: Sequence[Kind], dialect: Dialect) -> dict[str, Schema]:
    """Return all schemas that a document about these kinds can refer to, by name."""
    roots = [kind.type_name for kind in kinds if not kind.is_custom]
    subresource_types = [
        _SUBRESOURCE_TYPES[name] for kind in kinds for name in kind.subresources if name in _SUBRESOURCE_TYPES
    ]
    found = {
        definition_name(name): type_schema(name, dialect)
        for name in _reachable_types([*roots, *subresource_types, *_ALWAYS_PUBLISHED])
    }
    found |= _common_definitions(dialect)
    for kind in kinds:
        name = kind_definition_name(kind)
        schema = custom_schema(kind.published_schema or {}, dialect) if kind.is_custom else found[name]
        found[name] = _with_group_version_kind(schema, kind.group, kind.version, kind.kind)
        found[list_definition_name(kind)] = _list_schema(kind, dialect)
    return dict(sorted(found.items()))


@functools.cache
def definition_name(type_name: str) -> str:
    """Return the published name of a type: `V1Pod` is `io.k8s.api.core.v1.Pod`."""
    version, name = k8s_types.version_and_name(type_name)
    packages = (package for package, names in _PACKAGES.items() if re.fullmatch(names, name))
    return f"{next(packages, 'io.k8s.api.core')}.{version}.{name}"


def kind_definition_name(kind: Kind) -> str:
    """Return the published name of a kind. For a custom resource, it begins with the reversed group:
    `com.example.v1.Widget`."""
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
            field: _field(field_type, dialect, _merge_extensions(name, field))
            for field, field_type in declared.fields.items()
        }
    return _with_group_version_kind(schema, *_SHARED_KINDS[name]) if name in _SHARED_KINDS else schema


@functools.cache
def _types() -> dict[str, Type]:
    return _SHARED | k8s_types.types()


def _reachable_types(roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        field_types = (field_type.lstrip("[]{}") for field_type in _types()[name].fields.values())
        pending.extend(type_name for type_name in field_types if type_name in _types())
    return found


def _field(field_type: str, dialect: Dialect, extensions: Schema) -> Schema:
    if field_type.startswith("[]"):
        return {"type": "array", "items": _field(field_type[2:], dialect, {}), **extensions}
    if field_type.startswith("{}"):
        return {"type": "object", "additionalProperties": _field(field_type[2:], dialect, {}), **extensions}
    if field_type in _SCALARS:
        return _SCALARS[field_type] | extensions
    target = reference(_NAMED_SCALARS.get(field_type) or definition_name(field_type), dialect)
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


def _common_definitions(dialect: Dialect) -> dict[str, Schema]:
    is_swagger = dialect is Dialect.SWAGGER
    integer_or_text = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    number_or_text = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    return {
        TIME: {"type": "string", "format": "date-time"},
        PATCH: {"type": "object"},
        QUANTITY: {"type": "string"} if is_swagger else number_or_text,
        INT_OR_STRING: ({"type": "string"} if is_swagger else integer_or_text) | {"format": "int-or-string"},
    }


def _with_group_version_kind(schema: Schema, group: str, version: str, kind: str) -> Schema:
    named = {"group": group, "version": version, "kind": kind}
    return schema | {"x-kubernetes-group-version-kind": [named]}


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


def custom_schema(published: Mapping[str, Any], dialect: Dialect) -> Schema:
    """Return the schema of a custom resource. `published` is the schema in its definition."""
    if dialect is Dialect.OPENAPI:
        schema = {"type": "object", **published}
    elif published and not published.get("x-kubernetes-preserve-unknown-fields"):
        schema = _swagger(published)
    else:
        # kubectl rejects every field that `properties`, if present, does not list.
        return {"type": "object"}
    object_metadata = reference(definition_name("V1ObjectMeta"), dialect)
    return _with_object_fields(_with_embedded(schema, object_metadata), object_metadata)


def _subschemas(schema: Mapping[str, Any], convert: Callable[[Mapping[str, Any]], Schema]) -> Schema:
    """Return `items`, `additionalProperties` and `properties` of a schema, with the schemas in them converted."""
    found: Schema = {
        key: convert(schema[key])
        for key in ("items", "additionalProperties")
        if isinstance(schema.get(key), Mapping)
    }
    # An empty `properties` would forbid every field.
    if schema.get("properties"):
        found["properties"] = {name: convert(part) for name, part in schema["properties"].items()}
    return found


def _swagger(schema: Mapping[str, Any]) -> Schema:
    is_nullable = bool(schema.get("nullable"))
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    result = {key: value for key, value in schema.items() if key in _SWAGGER_KEYS}
    if isinstance(schema.get("additionalProperties"), bool):
        result["additionalProperties"] = schema["additionalProperties"]
    # kubectl would reject null if the schema had a type, and unknown fields if it had properties.
    if not is_nullable and not keeps_unknown:
        result |= _subschemas(schema, _swagger)
    is_array_of_unknown = result.get("type") == "array" and "items" not in result
    if is_nullable or is_array_of_unknown or (keeps_unknown and result.get("type") == "object"):
        result.pop("type", None)
    # To kubectl, null is absent, so a nullable field cannot be required.
    properties = schema.get("properties") or {}
    required = [name for name in result.pop("required", ()) if not properties.get(name, {}).get("nullable")]
    return result | {"required": required} if required else result


def _with_embedded(schema: Mapping[str, Any], object_metadata: Schema) -> Schema:
    """Return the schema with apiVersion, kind and metadata in all embedded resources.

    An embedded resource that has no type and may have unknown fields is not changed.
    """
    result = {**schema, **_subschemas(schema, lambda part: _with_embedded(part, object_metadata))}
    is_opaque = schema.get("x-kubernetes-preserve-unknown-fields") and "type" not in schema
    if not schema.get("x-kubernetes-embedded-resource") or is_opaque:
        return result
    required = [*result.get("required", ())]
    result["required"] = required + [name for name in ("kind", "apiVersion") if name not in required]
    return _with_object_fields(result, object_metadata)


def _with_object_fields(schema: Schema, object_metadata: Schema) -> Schema:
    text = {"type": "string"}
    declared = {"apiVersion": text, "kind": text, **(schema.get("properties") or {})}
    return schema | {"properties": dict(sorted({**declared, "metadata": object_metadata}.items()))}
