"""Validation of CustomResourceDefinitions: group, scope, names, versions, subresources, columns and conversion.

`schemas` validates the OpenAPI schemas. Kubernetes reports errors in fields that are equal in all versions under
`spec.validation`, `spec.subresources` and `spec.additionalPrinterColumns`; so does this module.
"""

from collections.abc import Iterator
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.definitions import names as definitions_names
from windlass.localcluster.apiserver.definitions import schemas

Object = dict[str, Any]

# The groups of built-in and computed kinds. A definition in one of them could give access to the stored objects of a
# built-in kind.
RESERVED_GROUPS = frozenset(
    {
        "apiextensions.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "batch",
        "coordination.k8s.io",
        "metrics.k8s.io",
        "rbac.authorization.k8s.io",
    }
)
_SCOPES = ("Cluster", "Namespaced")
_CONVERSIONS = ("None", "Webhook")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_WARNING_LENGTH = 256
_COMMON_PATHS = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
_MAX_SELECTABLE_FIELDS = 8
_WRONG_TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are"
    " allowed."
)
# Keys that are allowed at the root of a schema when the status subresource is enabled.
_ROOT_KEYS_WITH_STATUS = frozenset(
    {
        *(
            "description",
            "type",
            "format",
            "title",
            "externalDocs",
            "example",
            "required",
            "items",
            "properties",
        ),
        *(
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "multipleOf",
            "maxLength",
            "minLength",
        ),
        *("pattern", "maxItems", "minItems", "uniqueItems"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    }
)


def name_errors(definition: Object) -> Iterator[FieldError]:
    spec, name = definition.get("spec") or {}, definition["metadata"].get("name", "")
    names = spec.get("names") or {}
    if name and name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield api_errors.invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def reserved_group_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("group") in RESERVED_GROUPS:
        why = "this group is reserved for kinds of the server: use a group of your own"
        yield api_errors.forbidden_field("spec.group", why)


def spec_errors(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of a spec, except those of `preserveUnknownFields`, in the order of Kubernetes."""
    versions = spec.get("versions") or []
    common = {field: path for field, path in _COMMON_PATHS.items() if _is_common(versions, field)}
    yield from _group_errors(spec.get("group"))
    yield from _choice_errors("spec.scope", spec.get("scope"), _SCOPES, is_required=True)
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield api_errors.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        yield from _version_errors(version, f"spec.versions[{index}]", common)
    yield from _storage_errors(versions)
    yield from _names_errors(spec.get("names") or {})
    for field, path in common.items():
        yield from _part_errors(versions[0], field, path)
    yield from _conversion_errors(spec.get("conversion") or {})


def preservation_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema"
            " instead"
        )
        yield api_errors.invalid_value("spec.preserveUnknownFields", True, why)


def stored_version_errors(definition: Object) -> Iterator[FieldError]:
    """Check that `status.storedVersions` contains the storage version, and only versions that are in the spec."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    versions = definition["spec"].get("versions") or []
    field = "status.storedVersions"
    if not stored:
        yield api_errors.invalid_value(field, None, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield api_errors.invalid_value(
                field, stored, f"must have the storage version {version.get('name')}"
            )
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in"
                f" spec.versions until a storage migration ensures no data remains persisted in {name} and removes"
                f" {name} from status.storedVersions"
            )
            yield api_errors.invalid_value(f"{field}[{index}]", name, why)


def update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for a changed group or plural name and, if the definition is established, scope or kind."""
    fixed = ["group", "names.plural"]
    if definitions_names.is_established(old):
        fixed += ["scope", "names.kind"]
    for path in fixed:
        value = _at(new, path)
        if value != _at(old, path):
            yield api_errors.invalid_value(f"spec.{path}", value, "field is immutable")


def _at(definition: Object, path: str) -> object:
    value: Any = definition["spec"]
    for key in path.split("."):
        value = (value or {}).get(key)
    return value


def _is_common(versions: list[Object], field: str) -> bool:
    return bool(versions) and all(version.get(field) == versions[0].get(field) for version in versions)


def _group_errors(group: str | None) -> Iterator[FieldError]:
    if not group:
        yield api_errors.required("spec.group")
    elif problems := formats.dns_subdomain(group):
        yield api_errors.invalid_value("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield api_errors.invalid_value("spec.group", group, "should be a domain with at least one dot")


def _choice_errors(
    path: str, value: str | None, choices: tuple[str, ...], *, is_required: bool = False
) -> Iterator[FieldError]:
    if not value and is_required:
        yield api_errors.required(path)
    elif value and value not in choices:
        yield api_errors.not_supported(path, value, choices)


def _version_errors(version: Object, path: str, common: dict[str, str]) -> Iterator[FieldError]:
    name = version.get("name", "")
    if problems := formats.dns_1035_label(name):
        yield api_errors.invalid_value(f"{path}.name", name, ",".join(problems))
    warning = version.get("deprecationWarning")
    for problem in _warning_problems(warning, bool(version.get("deprecated"))):
        yield api_errors.invalid_value(f"{path}.deprecationWarning", warning, problem)
    for field in _COMMON_PATHS:
        if field not in common:
            yield from _part_errors(version, field, f"{path}.{field}")


def _warning_problems(warning: str | None, is_deprecated: bool) -> Iterator[str]:
    if warning is None:
        return
    if not is_deprecated:
        yield "can only be set for deprecated versions"
    elif not warning:
        yield "must not be an empty string"
    elif len(warning) > _MAX_WARNING_LENGTH:
        yield f"must be <= {_MAX_WARNING_LENGTH} characters long"


def _storage_errors(versions: list[Object]) -> Iterator[FieldError]:
    names = [version.get("name", "") for version in versions]
    summaries = [{key: version.get(key) for key in ("name", "served", "storage")} for version in versions]
    if len(set(names)) < len(names):
        yield api_errors.invalid_value("spec.versions", summaries, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield api_errors.invalid_value("spec.versions", summaries, why)
    # Kubernetes copies the name of the first version to an internal field and validates it there again.
    if names and names[0] and (problems := formats.dns_1035_label(names[0])):
        yield api_errors.invalid_value("spec.version", names[0], ",".join(problems))


def _names_errors(names: Object) -> Iterator[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield api_errors.required(f"spec.names.{field}")
    for field in ("plural", "singular"):
        if names.get(field) and (problems := formats.dns_1035_label(names[field])):
            yield api_errors.invalid_value(f"spec.names.{field}", names[field], ",".join(problems))
    for field in ("kind", "listKind"):
        if names.get(field) and (problems := formats.dns_1035_label(names[field].lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield api_errors.invalid_value(f"spec.names.{field}", names[field], why)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield api_errors.invalid_value(
            "spec.names.listKind", names["kind"], "kind and listKind may not be the same"
        )
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if problems := formats.dns_1035_label(name):
                yield api_errors.invalid_value(f"spec.names.{field}[{index}]", name, ",".join(problems))


def _part_errors(version: Object, field: str, path: str) -> Iterator[FieldError]:
    """Check the schema, the subresources, the columns or the selectable fields of a version."""
    value = version.get(field)
    if not value:
        return
    if field == "subresources":
        yield from _scale_errors(value.get("scale"), path)
    elif field == "additionalPrinterColumns":
        for index, column in enumerate(value):
            yield from _column_errors(column, f"{path}[{index}]")
    elif field == "selectableFields":
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from _selectable_field_errors(value, schema, path)
    elif value.get("openAPIV3Schema") is not None:
        has_status = (version.get("subresources") or {}).get("status") is not None
        yield from _root_errors(value["openAPIV3Schema"], f"{path}.openAPIV3Schema", has_status)


def _root_errors(schema: Object, path: str, has_status: bool) -> Iterator[FieldError]:
    disallowed = [key for key in schema if key not in _ROOT_KEYS_WITH_STATUS]
    if has_status and disallowed:
        why = f"{disallowed[0]} is not allowed at the root of the schema if the status subresource is enabled"
        yield api_errors.invalid_value(path, disallowed[0], why)
    if schema.get("nullable"):
        yield api_errors.forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")
    yield from schemas.schema_errors(schema, path)


def _scale_errors(scale: Object | None, path: str) -> Iterator[FieldError]:
    path_rules = {
        "specReplicasPath": ((".spec.",), "should be a json path under .spec"),
        "statusReplicasPath": ((".status.",), "should be a json path under .status"),
        "labelSelectorPath": ((".spec.", ".status."), "should be a json path under either .spec or .status"),
    }
    for field, (prefixes, why) in path_rules.items():
        value = (scale or {}).get(field)
        if not value:
            continue
        at = f"{path}.scale.{field}"
        if errors := list(_json_path_errors(value, at)):
            yield from errors
        elif not value.startswith(prefixes):
            yield api_errors.invalid_value(at, value, why)


def _column_errors(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield api_errors.required(f"{path}.name")
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        yield api_errors.required(f"{path}.type", types)
    elif column["type"] not in _COLUMN_TYPES:
        yield api_errors.invalid_value(f"{path}.type", column["type"], types)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        why = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield api_errors.invalid_value(f"{path}.format", column["format"], why)
    if not column.get("jsonPath"):
        yield api_errors.required(f"{path}.JSONPath")
    else:
        yield from _json_path_errors(column["jsonPath"], f"{path}.JSONPath")


def _selectable_field_errors(selectable: list[Object], schema: Object, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(selectable):
        value, at = each.get("jsonPath"), f"{path}[{index}].jsonPath"
        if not value:
            yield api_errors.required(at)
            continue
        found = _schema_at(schema, value)
        if found is None:
            why = "does not refer to a valid field"
            if not value.startswith("."):
                why = f"expected [ or . but got: {value.partition('.')[0]}"
            yield api_errors.invalid_value(at, value, f"is an invalid path: {why}")
            continue
        if value.startswith(".metadata."):
            yield api_errors.invalid_value(at, value, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            yield api_errors.invalid_value(at, value, _WRONG_TYPE)
        if value in seen:
            yield api_errors.duplicate(at, value)
        seen.add(value)
    if len(seen) > _MAX_SELECTABLE_FIELDS:
        yield api_errors.too_many(path, len(seen), _MAX_SELECTABLE_FIELDS)


def _schema_at(schema: Object, json_path: str) -> Object | None:
    """Return the schema of a field; None if the path does not lead to one."""
    found: Object | None = schema if json_path.startswith(".") else None
    for key in json_path.split(".")[1:]:
        found = None if found is None else (found.get("properties") or {}).get(key)
    return found


def _json_path_errors(value: str, path: str) -> Iterator[FieldError]:
    if not value.startswith("."):
        yield api_errors.invalid_value(path, value, "must be a simple json path starting with .")


def _conversion_errors(conversion: Object) -> Iterator[FieldError]:
    strategy = conversion.get("strategy")
    yield from _choice_errors("spec.conversion.strategy", strategy, _CONVERSIONS)
    if strategy == "Webhook":
        why = "conversion webhooks are not supported: versions can differ in their schemas only"
        yield api_errors.invalid_value("spec.conversion.strategy", strategy, why)
    elif conversion.get("webhook") is not None:
        why = "should not be set when strategy is not set to Webhook"
        yield api_errors.forbidden_field("spec.conversion.webhook", why)
