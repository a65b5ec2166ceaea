"""Validation of custom resources against their schema: types, ranges, patterns and required fields.

The messages are those of Kubernetes. `structural_extensions` defines `Check` and `Problem`.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from windlass.k8s import api_errors, patterns
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.schemas import openapi_formats, structural_extensions
from windlass.localcluster.apiserver.schemas.structural_extensions import Check, JsonSchema, Problem, identity

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
    checks = [_check_of(_compile(openapi)), *structural_extensions.compile_checks(openapi)]

    def validate(obj: Any) -> list[FieldError]:
        problems = [problem for check in checks for problem in check(obj)]
        return list(dict.fromkeys(make(path.removeprefix(".")) for path, make in problems))

    return validate


def _compile(schema: JsonSchema) -> _Compiled:
    """Compile the checks of a schema, in the order in which Kubernetes reports errors."""
    accepted = _accepted_types(schema)
    parts = [
        (_ANY - accepted, _wrong_type(schema)),
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
        python: _all([check for types, check in parts if check is not None and python in types])
        for python in _JSON_TYPES
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


def _of_wrong_type(found: str, names: str) -> Problem:
    text = f'must be of type {names}: "{found}"'
    return "", lambda path: api_errors.wrong_type(path, found, f"{path} in body {text}")


def _too_many(count: int, limit: int) -> list[Problem]:
    return [("", lambda path: api_errors.too_many(path, count, limit))]


def _forbidden(key: str) -> Problem:
    return "", lambda path: api_errors.invalid_value(
        path, key, f"{path}.{key} in body is a forbidden property"
    )


def _without_field(text: str) -> Problem:
    """Return a problem that Kubernetes reports without a field."""
    return "", lambda path: api_errors.invalid_value("<nil>", "", text.format(path=path))


def _type_names(schema: JsonSchema) -> str:
    return "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""


def _accepted_types(schema: JsonSchema) -> frozenset[type]:
    names = [name for name in _type_names(schema).split(",") if name]
    if not names:
        return _ANY
    accepted = frozenset(python for name in names for python in _PYTHON_TYPES[name])
    return accepted | _NULL if schema.get("nullable") else accepted


def _wrong_type(schema: JsonSchema) -> Check:
    names = _type_names(schema)
    takes_integers = "integer" in names

    def check(value: Any) -> list[Problem]:
        if takes_integers and type(value) is float and value.is_integer():
            return []
        problems = [_of_wrong_type(_JSON_TYPES[type(value)], names)]
        if names == "integer" and type(value) is float:
            # Kubernetes checks the range of every number as well, and reports again that it is not an integer.
            problems.append(
                _without_field("Checked value must be of type integer (default format) in {path}")
            )
        return problems

    return check


def _junctor_check(
    schema: JsonSchema, junctor: str, judge: Callable[[list[list[Problem]]], list[Problem]]
) -> Check | None:
    """Compile a check that judges the problems that each branch finds."""
    branches = [_check_of(_compile(branch)) for branch in schema.get(junctor) or ()]
    return (lambda value: judge([branch(value) for branch in branches])) if branches else None


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
    most, least, pattern = (schema.get(key) for key in ("maxLength", "minLength", "pattern"))
    if most is None and least is None and not pattern:
        return None
    search = patterns.compile_search(pattern) if pattern else None

    def check(value: Any) -> list[Problem]:
        if most is not None and len(value) > most:
            return [("", lambda path: api_errors.too_long(path, most))]
        if least is not None and len(value) < least:
            return _in_body(value, f"should be at least {least} chars long")
        if search is not None and search(value) is None:
            return _in_body(value, f"should match '{pattern}'")
        return []

    return check


def _format_check(schema: JsonSchema) -> Check | None:
    name = schema.get("format") or ""
    is_of_format = openapi_formats.check_of(name)
    if is_of_format is None:
        return None

    def check(value: Any) -> list[Problem]:
        if is_of_format(value):
            return []
        text = f"must be of type {name}: {api_errors.format_value(value)}"
        return [("", lambda path: api_errors.wrong_type(path, value, f"{path} in body {text}"))]

    return check


def _number_check(schema: JsonSchema) -> Check | None:
    factor, least, most = (schema.get(key) for key in ("multipleOf", "minimum", "maximum"))
    if factor is None and least is None and most is None:
        return None
    excludes_least, excludes_most = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    above = "greater than" if excludes_least else "greater than or equal to"
    below = "less than" if excludes_most else "less than or equal to"

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        # Kubernetes truncates the limit for an integer, and compares a float with the limit as a float.
        same = int if type(value) is int else float
        if factor and not _is_multiple(value, same(factor)):
            problems += _in_body(value, f"should be a multiple of {_written(same(factor))}")
        if least is not None and not (value > same(least) or (value == same(least) and not excludes_least)):
            problems += _in_body(value, f"should be {above} {_written(same(least))}")
        if most is not None and not (value < same(most) or (value == same(most) and not excludes_most)):
            problems += _in_body(value, f"should be {below} {_written(same(most))}")
        return problems

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(factor, int):
        return factor == 0 or value % factor == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < _EPSILON


def _written(number: float) -> str:
    """Return a limit as Go writes it, a float with the fewest digits."""
    shortest = Decimal(repr(number)).normalize()
    if isinstance(number, int) or -4 <= shortest.adjusted() < 6:
        return f"{shortest:f}"
    digits, _, power = f"{shortest:e}".partition("e")
    return f"{digits}e{int(power):+03d}"


def _array_check(schema: JsonSchema) -> Check | None:
    least, most = schema.get("minItems"), schema.get("maxItems")
    item = _compile(schema["items"]) if schema.get("items") else _ACCEPTS_ANY
    accepts_any_item = _accepts_any(item)
    if least is None and most is None and accepts_any_item:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        for index, one in enumerate(() if accepts_any_item else value):
            check_one = item[type(one)]
            if check_one is not None and (found := check_one(one)):
                problems += [(f"[{index}]{path}", make) for path, make in found]
        if least is not None and len(value) < least:
            problems += _in_body(len(value), f"should have at least {least} items")
        if most is not None and len(value) > most:
            problems += _too_many(len(value), most)
        return problems

    return check


def _enum_check(schema: JsonSchema) -> Check | None:
    values = schema.get("enum")
    if not values:
        return None
    allowed = frozenset(identity(value) for value in values if value is not None)
    names = [value if isinstance(value, str) else api_errors.format_value(value) for value in values]

    def check(value: Any) -> list[Problem]:
        if identity(value) in allowed:
            return []
        shown = "null" if value is None else value
        return [("", lambda path: api_errors.not_supported(path, shown, names))]

    return check


def _object_check(schema: JsonSchema) -> Check | None:
    fields = {key: _compile(value) for key, value in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    other = _compile(additional) if isinstance(additional, dict) else _ACCEPTS_ANY
    is_closed = additional is False
    required: list[str] = schema.get("required") or []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    accepts_any_field = all(_accepts_any(field) for field in [*fields.values(), other])
    if accepts_any_field and not is_closed and not required and least is None and most is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        if least is not None and len(value) < least:
            return _in_body(least, f"should have at least {least} properties")
        if most is not None and len(value) > most:
            return _too_many(len(value), most)
        if is_closed:
            problems += [_forbidden(key) for key in value if key not in fields]
        for key, one in value.items():
            check_one = fields.get(key, other)[type(one)]
            if check_one is not None and (found := check_one(one)):
                problems += [(f".{key}{path}", make) for path, make in found]
        problems += [(f".{key}", api_errors.required) for key in required if key not in value]
        return problems

    return check
