"""Validation of custom resources against their OpenAPI schema.

A check returns the problems of a value, each with its path relative to the value (`.name`, `[0].name`) and a function
that returns the field error for an absolute path. None in place of a check means that every value is valid. Messages
are those of Kubernetes. The check of a list or map stops at the number of errors that are reported.
"""

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from windlass.k8s import api_errors, formats, patterns
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.schemas import openapi_formats

JsonSchema = dict[str, Any]
Problem = tuple[str, Callable[[str], FieldError]]
Check = Callable[[Any], list[Problem]]
_Compare = Callable[[Any, Any], bool]
# A check for each Python type of a value; None if every value of the type is valid.
_Compiled = dict[type, Check | None]

_NULL = frozenset({type(None)})
_STRING = frozenset({str})
_NUMBER = frozenset({int, float})
_ARRAY = frozenset({list})
_OBJECT = frozenset({dict})
_PYTHON_TYPES: dict[str, frozenset[type]] = {
    "string": _STRING,
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": _NUMBER,
    "object": _OBJECT,
    "array": _ARRAY,
}
_JSON_TYPES: dict[type, str] = {
    type(None): "null",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}
_ANY = frozenset(_JSON_TYPES)
_NOT_NULL = _ANY - _NULL
_ACCEPTS_ANY: _Compiled = dict.fromkeys(_ANY)
_EPSILON = 1e-9


def compile_validation(openapi: JsonSchema) -> Callable[[Any], list[FieldError]]:
    """Compile a function that returns all errors of an object."""
    # In the order in which Kubernetes reports errors.
    extensions = (_everywhere(openapi, _embedded_check), _everywhere(openapi, _list_check))
    checks = [_check_of(_compile(openapi)), *extensions]

    def validate(obj: Any) -> list[FieldError]:
        problems = [problem for check in checks if check is not None for problem in check(obj)]
        return list(dict.fromkeys(make_error(path.removeprefix(".")) for path, make_error in problems))

    return validate


def _compile(schema: JsonSchema) -> _Compiled:
    """Compile the checks of a schema, in the order in which Kubernetes reports errors."""
    accepted = _accepted_types(schema)
    parts = [
        (_ANY - accepted, _type_check(schema)),
        (_NOT_NULL, _junctor_check(schema, "anyOf", _any_of)),
        (_NOT_NULL, _junctor_check(schema, "oneOf", _one_of)),
        (_NOT_NULL, _junctor_check(schema, "allOf", _all_of)),
        (_NOT_NULL, _not_check(schema)),
        (_STRING, _string_check(schema)),
        (_STRING, _format_check(schema)),
        (_NUMBER, _number_check(schema)),
        (_ARRAY, _array_check(schema)),
        (_ANY, _enum_check(schema)),
        (_OBJECT, _object_check(schema)),
    ]
    return {
        python_type: _all([check for types, check in parts if check is not None and python_type in types])
        for python_type in _JSON_TYPES
    }


def _all(checks: list[Check]) -> Check | None:
    if len(checks) <= 1:
        return checks[0] if checks else None
    return lambda value: [problem for check in checks for problem in check(value)]


def _check_of(compiled: _Compiled) -> Check:
    def check(value: Any) -> list[Problem]:
        check_value = compiled[type(value)]
        return check_value(value) if check_value is not None else []

    return check


def _accepts_any(compiled: _Compiled) -> bool:
    return not any(compiled.values())


def _in_body(value: object, text: str) -> list[Problem]:
    return [("", lambda path: api_errors.invalid_value(path, value, f"{path} in body {text}"))]


def _wrong_type(value: object, text: str) -> list[Problem]:
    return [("", lambda path: api_errors.wrong_type(path, value, f"{path} in body must be of type {text}"))]


def _too_many(count: int, limit: int) -> list[Problem]:
    return [("", lambda path: api_errors.too_many(path, count, limit))]


def _without_field(text: str) -> Problem:
    """Return a problem that Kubernetes reports without a field."""
    return "", lambda path: api_errors.invalid_value("<nil>", "", text.format(path=path))


def _forbidden_property(key: str, path: str) -> FieldError:
    return api_errors.invalid_value(path, key, f"{path}.{key} in body is a forbidden property")


def _type_names(schema: JsonSchema) -> str:
    return "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""


def _accepted_types(schema: JsonSchema) -> frozenset[type]:
    names = [name for name in _type_names(schema).split(",") if name]
    if not names:
        return _ANY
    accepted = frozenset(python for name in names for python in _PYTHON_TYPES[name])
    return accepted | _NULL if schema.get("nullable") else accepted


def _type_check(schema: JsonSchema) -> Check:
    names = _type_names(schema)

    def check(value: Any) -> list[Problem]:
        if "integer" in names and type(value) is float and value.is_integer():
            return []
        found = _JSON_TYPES[type(value)]
        problems = _wrong_type(found, f'{names}: "{found}"')
        if names == "integer" and type(value) is float:
            # Kubernetes checks the range of every number as well, and reports again that it is not an integer.
            problems.append(
                _without_field("Checked value must be of type integer (default format) in {path}")
            )
        return problems

    return check


def _junctor_check(
    schema: JsonSchema, junctor: str, combine: Callable[[list[list[Problem]]], list[Problem]]
) -> Check | None:
    """Compile a check that combines the problems that each branch finds."""
    branches = [_check_of(_compile(branch)) for branch in schema.get(junctor) or ()]
    return (lambda value: combine([branch(value) for branch in branches])) if branches else None


def _any_of(results: list[list[Problem]]) -> list[Problem]:
    if not all(results):
        return []
    return [_without_field('"{path}" must validate at least one schema (anyOf)'), *results[0]]


def _one_of(results: list[list[Problem]]) -> list[Problem]:
    valid = sum(not problems for problems in results)
    if valid == 1:
        return []
    found = f"Found {valid} valid alternatives" if valid else "Found none valid"
    text = f'"{{path}}" must validate one and only one schema (oneOf). {found}'
    return [_without_field(text), *([] if valid else results[0])]


def _all_of(results: list[list[Problem]]) -> list[Problem]:
    if not any(results):
        return []
    none = ". None validated" if all(results) else ""
    text = f'"{{path}}" must validate all the schemas (allOf){none}'
    return [*(problem for problems in results for problem in problems), _without_field(text)]


def _not_check(schema: JsonSchema) -> Check | None:
    if "not" not in schema:
        return None
    forbidden = _check_of(_compile(schema["not"]))

    def check(value: Any) -> list[Problem]:
        if forbidden(value):
            return []
        return [_without_field('"{path}" must not validate the schema (not)')]

    return check


def _string_check(schema: JsonSchema) -> Check | None:
    maximum, minimum, pattern = (schema.get(key) for key in ("maxLength", "minLength", "pattern"))
    if maximum is None and minimum is None and not pattern:
        return None
    search = patterns.compile_search(pattern) if pattern else None

    def check(value: Any) -> list[Problem]:
        if maximum is not None and len(value) > maximum:
            return [("", lambda path: api_errors.too_long(path, maximum))]
        if minimum is not None and len(value) < minimum:
            return _in_body(value, f"should be at least {minimum} chars long")
        if search is not None and search(value) is None:
            return _in_body(value, f"should match '{pattern}'")
        return []

    return check


def _format_check(schema: JsonSchema) -> Check | None:
    name = schema.get("format") or ""
    has_format = openapi_formats.check_of(name)
    if has_format is None:
        return None

    def check(value: Any) -> list[Problem]:
        if has_format(value):
            return []
        return _wrong_type(value, f"{name}: {api_errors.format_value(value)}")

    return check


def _number_check(schema: JsonSchema) -> Check | None:
    factor, minimum, maximum = (schema.get(key) for key in ("multipleOf", "minimum", "maximum"))
    if factor is None and minimum is None and maximum is None:
        return None
    is_above, above = _comparison(schema, "exclusiveMinimum", operator.gt, operator.ge, "greater than")
    is_below, below = _comparison(schema, "exclusiveMaximum", operator.lt, operator.le, "less than")

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        # Kubernetes truncates multipleOf and the limits for an integer, and converts them to floats for a float.
        convert = int if type(value) is int else float
        if factor and not _is_multiple(value, convert(factor)):
            problems += _in_body(value, f"should be a multiple of {_go_number(convert(factor))}")
        if minimum is not None and not is_above(value, convert(minimum)):
            problems += _in_body(value, f"should be {above} {_go_number(convert(minimum))}")
        if maximum is not None and not is_below(value, convert(maximum)):
            problems += _in_body(value, f"should be {below} {_go_number(convert(maximum))}")
        return problems

    return check


def _comparison(
    schema: JsonSchema, key: str, exclusive: _Compare, inclusive: _Compare, text: str
) -> tuple[_Compare, str]:
    return (exclusive, text) if schema.get(key) else (inclusive, f"{text} or equal to")


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(factor, int):
        return factor == 0 or value % factor == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < _EPSILON


def _go_number(number: float) -> str:
    """Return a number as Go writes it: a float has the fewest digits that identify it."""
    shortest = Decimal(repr(number)).normalize()
    if isinstance(number, int) or -4 <= shortest.adjusted() < 6:
        return f"{shortest:f}"
    digits, _, power = f"{shortest:e}".partition("e")
    return f"{digits}e{int(power):+03d}"


def _array_check(schema: JsonSchema) -> Check | None:
    minimum, maximum = schema.get("minItems"), schema.get("maxItems")
    item = _compile(schema["items"]) if schema.get("items") else _ACCEPTS_ANY
    accepts_any_item = _accepts_any(item)
    if minimum is None and maximum is None and accepts_any_item:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        for index, one in enumerate(() if accepts_any_item else value):
            check_one = item[type(one)] if len(problems) < api_errors.MAX_ERRORS else None
            if check_one is not None and (found := check_one(one)):
                problems += [(f"[{index}]{path}", make_error) for path, make_error in found]
        if minimum is not None and len(value) < minimum:
            problems += _in_body(len(value), f"should have at least {minimum} items")
        if maximum is not None and len(value) > maximum:
            problems += _too_many(len(value), maximum)
        return problems

    return check


def _enum_check(schema: JsonSchema) -> Check | None:
    values = schema.get("enum")
    if not values:
        return None
    allowed = frozenset(_identity(value) for value in values if value is not None)
    supported = [value if isinstance(value, str) else api_errors.format_value(value) for value in values]

    def check(value: Any) -> list[Problem]:
        if _identity(value) in allowed:
            return []
        reported = "null" if value is None else value
        return [("", lambda path: api_errors.not_supported(path, reported, supported))]

    return check


def _object_check(schema: JsonSchema) -> Check | None:
    fields = {key: _compile(value) for key, value in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    other = _compile(additional) if isinstance(additional, dict) else _ACCEPTS_ANY
    is_closed = additional is False
    required: list[str] = schema.get("required") or []
    minimum, maximum = schema.get("minProperties"), schema.get("maxProperties")
    accepts_any_field = all(_accepts_any(field) for field in [*fields.values(), other])
    if accepts_any_field and not is_closed and not required and minimum is None and maximum is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        if minimum is not None and len(value) < minimum:
            return _in_body(minimum, f"should have at least {minimum} properties")
        if maximum is not None and len(value) > maximum:
            return _too_many(len(value), maximum)
        if is_closed:
            forbidden = [key for key in value if key not in fields][: api_errors.MAX_ERRORS]
            problems += [("", functools.partial(_forbidden_property, key)) for key in forbidden]
        for key, one in value.items():
            if key not in fields and len(problems) >= api_errors.MAX_ERRORS:
                continue
            check_one = fields.get(key, other)[type(one)]
            if check_one is not None and (found := check_one(one)):
                problems += [(f".{key}{path}", make_error) for path, make_error in found]
        problems += [(f".{key}", api_errors.required) for key in required if key not in value]
        return problems

    return check


def _identity(value: Any) -> object:
    """Return a hashable value that is the same for equal JSON values only. In Python, True and 1 are equal."""
    if type(value) is str:
        return value
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, order="sorted")
    return type(value) is bool, value


# The `x-kubernetes` extensions: lists that are sets or maps, and embedded resources


def _everywhere(schema: JsonSchema, compile_check: Callable[[JsonSchema], Check | None]) -> Check | None:
    """Return a check of a value and of everything below it, made with `compile_check` from each subschema."""
    own_check = compile_check(schema)
    items = _everywhere(schema["items"], compile_check) if schema.get("items") else None
    below = {
        key: _everywhere(value, compile_check) for key, value in (schema.get("properties") or {}).items()
    }
    children = {key: check for key, check in below.items() if check is not None}
    additional = schema.get("additionalProperties")
    others = _everywhere(additional, compile_check) if isinstance(additional, dict) else None
    if own_check is None and items is None and not children and others is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems = own_check(value) if own_check is not None else []
        if type(value) is list and items is not None:
            found = (
                (f"[{index}]{path}", make_error)
                for index, one in enumerate(value)
                for path, make_error in items(one)
            )
            problems += itertools.islice(found, api_errors.MAX_ERRORS)
        elif type(value) is dict:
            for key, one in value.items():
                if key in children:
                    problems += [(f".{key}{path}", make_error) for path, make_error in children[key](one)]
                elif others is not None and len(problems) < api_errors.MAX_ERRORS:
                    problems += [(f"[{key}]{path}", make_error) for path, make_error in others(one)]
        return problems

    return check


def _embedded_check(schema: JsonSchema) -> Check | None:
    if not schema.get("x-kubernetes-embedded-resource"):
        return None
    return lambda value: list(_embedded_problems(value)) if type(value) is dict else []


def _embedded_problems(obj: dict[str, Any]) -> Iterator[Problem]:
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if field not in obj:
            yield f".{field}", api_errors.required
        elif not isinstance(value, str):
            yield _invalid(f".{field}", value, "must be a string")
        elif not value:
            yield _invalid(f".{field}", value, "must not be empty")
        elif field == "apiVersion" and value.count("/") > 1:
            yield _invalid(".apiVersion", value, f"unexpected GroupVersion string: {value}")
        elif field == "kind" and (problems := formats.dns_1035_label(value.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield _invalid(".kind", value, text)
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield _invalid(".metadata", metadata, "must be an object")


def _invalid(at: str, value: object, text: str) -> Problem:
    return at, lambda path: api_errors.invalid_value(path, value, text)


def _list_check(schema: JsonSchema) -> Check | None:
    list_type = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if list_type == "set":
        return lambda value: _duplicates(value) if type(value) is list else []
    if list_type == "map":
        return lambda value: _map_problems(value, keys) if type(value) is list else []
    return None


def _map_problems(items: list[Any], keys: list[str]) -> list[Problem]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [_invalid(f"[{index}]", item, "must be an object for an array of list-type map")]
    return _duplicates({key: item[key] for key in keys if item is not None and key in item} for item in items)


def _duplicates(values: Iterable[Any]) -> list[Problem]:
    """Return a problem for the first repetition of each value."""
    counts: collections.Counter[object] = collections.Counter()
    problems: list[Problem] = []
    for index, value in enumerate(values):
        counts[_identity(value)] += 1
        if counts[_identity(value)] == 2:
            problems.append((f"[{index}]", functools.partial(api_errors.duplicate, value=value)))
    return problems[: api_errors.MAX_ERRORS]
