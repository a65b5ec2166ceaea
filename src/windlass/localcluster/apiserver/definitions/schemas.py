"""Validation of the OpenAPI schemas in a CustomResourceDefinition: they must be structural.

Three passes check the keys of a schema, whether it is structural, and, if there are no errors, its defaults. The types
of all fields have been checked before.
"""

import copy
from collections.abc import Iterator

import msgspec

from windlass.k8s import api_errors, patterns
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.schemas import structural, structural_checks
from windlass.localcluster.apiserver.schemas.structural_checks import JsonSchema

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_IDENTITY = ("apiVersion", "kind", "metadata")
_NOT_SUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE = "x-kubernetes-list-type"
_MAP_TYPE = "x-kubernetes-map-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"
_FORBIDDEN_IN_VALUE_VALIDATION = {
    **dict.fromkeys(("type", "title", "description", _MAP_KEYS), "must be empty to be structural"),
    **dict.fromkeys(
        ("additionalProperties", "default", _LIST_TYPE, _MAP_TYPE), "must be undefined to be structural"
    ),
    **dict.fromkeys(("nullable", _PRESERVES, _EMBEDDED, _INT_OR_STRING), "must be false to be structural"),
}
"""Keys that a schema below `allOf`, `anyOf`, `oneOf` or `not` cannot have, with the error messages."""

_UNREADABLE = (*_NOT_SUPPORTED, "items", _PRESERVES)
"""Keys whose errors make further checks impossible."""

_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def schema_errors(schema: JsonSchema, path: str) -> list[FieldError]:
    """Return the errors of an openAPIV3Schema. A later pass is skipped if an earlier one finds certain errors."""
    errors = list(_openapi_errors(schema, path, _Position(is_root=True)))
    if any(error.field.rpartition(".")[2] in _UNREADABLE for error in errors):
        return errors
    not_structural = [
        *_structural_errors(schema, path, "root"),
        *_completeness_errors(schema, schema, path, path),
    ]
    if not_structural:
        return [*errors, *sorted(not_structural, key=str)]
    return errors or list(_default_errors(schema, path))


class _Position(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a schema inside the whole schema."""

    is_root: bool = False
    is_in_metadata: bool = False
    # Why the schema cannot have a default; "" if it can.
    why_no_default: str = ""


# First pass: keys


def _openapi_errors(schema: JsonSchema, path: str, position: _Position) -> Iterator[FieldError]:
    yield from _unsupported_errors(schema, path, position)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield api_errors.forbidden_field(f"{path}.uniqueItems", why)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None and additional is not True and properties:
        why = "additionalProperties and properties are mutual exclusive"
        yield api_errors.forbidden_field(f"{path}.additionalProperties", why)
    below = msgspec.structs.replace(position, is_root=False)
    if isinstance(additional, dict):
        values = below
        if position.is_in_metadata:
            why = "inside additionalProperties applying to object metadata"
            values = msgspec.structs.replace(below, why_no_default=why)
        yield from _openapi_errors(additional, f"{path}.additionalProperties", values)
    for name, value in properties.items():
        is_identity = name in _IDENTITY and (position.is_root or bool(schema.get(_EMBEDDED)))
        why = f"in top-level {name}" if position.is_root else position.why_no_default
        nested = _Position(is_in_metadata=True, why_no_default=why) if is_identity else below
        yield from _openapi_errors(value, f"{path}.properties[{name}]", nested)
    if isinstance(schema.get("items"), dict):
        yield from _openapi_errors(schema["items"], f"{path}.items", below)
    for branch, at in _value_validations(schema, path):
        yield from _openapi_errors(branch, at, below)
    yield from _extension_errors(schema, path)


def _unsupported_errors(schema: JsonSchema, path: str, position: _Position) -> Iterator[FieldError]:
    type_name = schema.get("type")
    if type_name and type_name not in _TYPES:
        yield api_errors.not_supported(f"{path}.type", type_name, _TYPES)
    if type_name == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield api_errors.forbidden_field(f"{path}.type", why)
    if schema.get("default") is not None and position.why_no_default:
        yield api_errors.forbidden_field(f"{path}.default", f"must not be set {position.why_no_default}")
    for key in _NOT_SUPPORTED:
        if schema.get(key) is not None:
            yield api_errors.forbidden_field(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        yield api_errors.forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if position.is_in_metadata and schema.get(_EMBEDDED):
        yield api_errors.forbidden_field(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")


def _extension_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    if schema.get(_PRESERVES) is False:
        yield api_errors.invalid_value(f"{path}.{_PRESERVES}", False, "must be true or undefined")
    for extension, type_name, choices in (
        (_MAP_TYPE, "object", ("atomic", "granular")),
        (_LIST_TYPE, "array", ("atomic", "set", "map")),
    ):
        chosen = schema.get(extension)
        if chosen is None:
            continue
        if schema.get("type") != type_name:
            why = f"must be {type_name} if {extension} is specified"
            yield _required_or_invalid(f"{path}.type", schema.get("type") or None, why)
        if chosen not in choices:
            yield api_errors.not_supported(f"{path}.{extension}", chosen, choices)
    list_type = schema.get(_LIST_TYPE)
    if schema.get(_MAP_KEYS) and list_type != "map":
        why = f"must be map if {_MAP_KEYS} is non-empty"
        yield _required_or_invalid(f"{path}.{_LIST_TYPE}", list_type, why)
    if list_type == "map":
        yield from _map_errors(schema, path)
    if list_type == "set":
        yield from _set_errors(schema, path)
    if list_type in ("set", "map") and _items_of(schema).get("nullable"):
        why = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield api_errors.forbidden_field(f"{path}.items.nullable", why)


def _required_or_invalid(path: str, value: str | None, why: str) -> FieldError:
    return api_errors.required(path, why) if value is None else api_errors.invalid_value(path, value, why)


def _items_of(schema: JsonSchema) -> JsonSchema:
    items = schema.get("items")
    return items if isinstance(items, dict) else {}


def _set_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    items = _items_of(schema)
    extension = {"array": _LIST_TYPE, "object": _MAP_TYPE}.get(items.get("type", ""), "")
    found = items.get(extension, "atomic" if extension == _LIST_TYPE else None)
    if extension and found != "atomic":
        why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield api_errors.invalid_value(f"{path}.items.{extension}", found or "null", why)


def _map_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    keys, items = schema.get(_MAP_KEYS) or [], _items_of(schema)
    if not keys:
        yield api_errors.required(f"{path}.{_MAP_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if schema.get("items") is None:
        yield api_errors.required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield api_errors.invalid_value(f"{path}.items.type", items.get("type", ""), why)
        return
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield api_errors.invalid_value(f"{path}.{_MAP_KEYS}", keys, "must not contain duplicate entries")
        elif key not in (items.get("properties") or {}):
            why = "entries must all be names of item properties"
            yield api_errors.invalid_value(f"{path}.{_MAP_KEYS}", keys, why)
        else:
            yield from _map_key_errors(items, key, f"{path}.items.properties[{key}]")


def _map_key_errors(items: JsonSchema, key: str, path: str) -> Iterator[FieldError]:
    schema = items["properties"][key]
    if schema.get("type") in ("array", "object"):
        why = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
        yield api_errors.invalid_value(f"{path}.type", schema["type"], why)
    this = f"this property is in {_MAP_KEYS}, so it"
    if key not in (items.get("required") or []) and schema.get("default") is None:
        yield api_errors.required(f"{path}.default", f"{this} must have a default or be a required property")
    if schema.get("nullable"):
        yield api_errors.forbidden_field(f"{path}.nullable", f"{this} cannot be nullable")


def _value_validations(schema: JsonSchema, path: str) -> Iterator[tuple[JsonSchema, str]]:
    for junctor in _JUNCTORS:
        for index, branch in enumerate(schema.get(junctor) or ()):
            yield branch, f"{path}.{junctor}[{index}]"
    if schema.get("not") is not None:
        yield schema["not"], f"{path}.not"


# Second pass: structure


def _structural_errors(schema: JsonSchema, path: str, level: str) -> Iterator[FieldError]:
    if schema.get("type") == "array" and schema.get("items") is None:
        yield api_errors.required(f"{path}.items", "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _structural_errors(schema["items"], f"{path}.items", "item")
    for name, value in (schema.get("properties") or {}).items():
        yield from _structural_errors(value, f"{path}.properties[{name}]", "field")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield api_errors.forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _structural_errors(additional, f"{path}.additionalProperties", "field")
    yield from _type_errors(schema, path, level)
    yield from _identity_errors(schema, path, level)
    yield from _value_validation_errors(schema, path, is_nested=False, may_have_int_or_string=True)


def _type_errors(schema: JsonSchema, path: str, level: str) -> Iterator[FieldError]:
    type_name, is_embedded = schema.get("type"), bool(schema.get(_EMBEDDED))
    if schema.get(_INT_OR_STRING):
        for extension in (_PRESERVES, _EMBEDDED):
            if schema.get(extension):
                why = f"must be false if {_INT_OR_STRING} is true"
                yield api_errors.invalid_value(f"{path}.{extension}", True, why)
    if is_embedded and type_name != "object":
        yield _required_or_invalid(
            f"{path}.type", type_name or None, f"must be object if {_EMBEDDED} is true"
        )
    elif not type_name and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVES):
        yield api_errors.required(f"{path}.type", _NO_TYPE[level])
    if is_embedded and schema.get("additionalProperties") is not None:
        why = f"must not be used if {_EMBEDDED} is set"
        yield api_errors.forbidden_field(f"{path}.additionalProperties", why)
    if level == "root" and type_name and type_name != "object":
        yield api_errors.invalid_value(f"{path}.type", type_name, "must be object at the root")
    if is_embedded and not schema.get(_PRESERVES) and not schema.get("properties"):
        why = f"must not be empty if {_EMBEDDED} is true without {_PRESERVES}"
        yield api_errors.required(f"{path}.properties", why)


def _identity_errors(schema: JsonSchema, path: str, level: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    if level == "root" or schema.get(_EMBEDDED):
        for name, type_name in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            found = properties[name].get("type", "") if name in properties else type_name
            if found != type_name:
                yield api_errors.invalid_value(
                    f"{path}.properties[{name}].type", found, f"must be {type_name}"
                )
    metadata = properties.get("metadata") or {}
    named = set(metadata.get("properties") or {})
    if level == "root" and (
        metadata.keys() - {"type", "properties", "default"} or named - {"name", "generateName"}
    ):
        why = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield api_errors.forbidden_field(f"{path}.properties[metadata]", why)


def _value_validation_errors(
    schema: JsonSchema, path: str, *, is_nested: bool, may_have_int_or_string: bool
) -> Iterator[FieldError]:
    """Check `allOf`, `anyOf`, `oneOf`, `not` and `pattern` of a schema.

    Below these keys, types are allowed only in an `anyOf` of integer and string, which may also be inside the first
    `allOf`.
    """
    has_int_or_string = may_have_int_or_string and schema.get("anyOf") == _INTEGER_OR_STRING
    for branch, at in _value_validations(schema, path):
        if not (has_int_or_string and at.startswith(f"{path}.anyOf[")):
            is_first_all_of = not is_nested and at == f"{path}.allOf[0]"
            yield from _nested_errors(branch, at, may_have_int_or_string=is_first_all_of)
    if schema.get("pattern"):
        try:
            patterns.compile_search(schema["pattern"])
        except patterns.PatternError as error:
            why = f"must be a valid regular expression, but isn't: error parsing regexp: {error.reason}"
            yield api_errors.invalid_value(f"{path}.pattern", schema["pattern"], why)


def _nested_errors(
    schema: JsonSchema, path: str, *, may_have_int_or_string: bool = False
) -> Iterator[FieldError]:
    yield from _value_validation_errors(
        schema, path, is_nested=True, may_have_int_or_string=may_have_int_or_string
    )
    if isinstance(schema.get("items"), dict):
        yield from _nested_errors(schema["items"], f"{path}.items")
    for name, value in (schema.get("properties") or {}).items():
        yield from _nested_errors(value, f"{path}.properties[{name}]")
    for key, why in _FORBIDDEN_IN_VALUE_VALIDATION.items():
        if schema.get(key) or (key in ("default", "additionalProperties") and schema.get(key) is not None):
            yield api_errors.forbidden_field(f"{path}.{key}", why)
    if "metadata" in (schema.get("properties") or {}):
        why = "must not be specified in a nested context"
        yield api_errors.forbidden_field(f"{path}.properties[metadata]", why)


def _completeness_errors(
    validation: JsonSchema, schema: JsonSchema, path: str, at: str
) -> Iterator[FieldError]:
    """Check that `schema` declares every field that the value validations in `validation` name.

    `path` is the path of `schema`, and `at` that of `validation`.
    """
    for branch, branch_at in _value_validations(validation, at):
        yield from _branch_errors(branch, schema, path, branch_at)


def _branch_errors(branch: JsonSchema, schema: JsonSchema, path: str, at: str) -> Iterator[FieldError]:
    yield from _completeness_errors(branch, schema, path, at)
    pairs = [(f".properties[{name}]", value) for name, value in (branch.get("properties") or {}).items()]
    declared = {f".properties[{name}]": value for name, value in (schema.get("properties") or {}).items()}
    if isinstance(branch.get("items"), dict):
        pairs.append((".items", branch["items"]))
        declared |= {".items": _items_of(schema)} if schema.get("items") else {}
    for step, value in pairs:
        if step in declared:
            yield from _branch_errors(value, declared[step], path + step, at + step)
        else:
            yield api_errors.required(path + step, f"because it is defined in {at}{step}")


# Third pass: defaults


def _default_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    default = schema.get("default")
    if default is not None:
        pruned = {"value": copy.deepcopy(default)}
        compiled = structural.StructuralSchema({"type": "object", "properties": {"value": schema}})
        if compiled.prune(pruned):
            yield api_errors.invalid_value(f"{path}.default", default, "must not have unknown fields")
        for error in structural_checks.compile_validation(schema)(default):
            field = f"{path}.default.{error.field}" if error.field not in ("", "<nil>") else f"{path}.default"
            yield msgspec.structs.replace(error, field=field)
    if isinstance(schema.get("items"), dict):
        yield from _default_errors(schema["items"], f"{path}.items")
    for name, value in (schema.get("properties") or {}).items():
        yield from _default_errors(value, f"{path}.properties[{name}]")
