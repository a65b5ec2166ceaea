"""Holds a custom resource against its schema: types, ranges, patterns, required fields.

The words are those of Kubernetes 1.20, except that an element of a list is named by its index (`spec.tasks[0].name`), as
later releases do.

A check looks at a value and tells its problems, each with the path from that value on (`.name`, `[0].name`) and with what
makes a fault of it once the whole path is known. What accepts every value is no check at all.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from windlass.localcluster import failures, go_patterns, openapi_formats, structural_extensions
from windlass.localcluster.failures import Fault
from windlass.localcluster.structural_extensions import Check, JsonSchema, Problem, identity

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}
_JSON_TYPES = {
    type(None): "null",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}
_ALMOST_NOTHING = 1e-9


def compile_validation(openapi: JsonSchema) -> Callable[[Any], list[Fault]]:
    """Every fault of a whole object."""
    checks = [compile_check(openapi) or _accept, *structural_extensions.compile_checks(openapi)]

    def validate(obj: Any) -> list[Fault]:
        problems = [problem for check in checks for problem in check(obj)]
        return list(dict.fromkeys(make(path.removeprefix(".")) for path, make in problems))

    return validate


def compile_check(schema: JsonSchema) -> Check | None:
    """All that one schema says of a value, in the order in which Kubernetes tells it."""
    parts = (
        _type_check(schema),
        _any_of_check(schema),
        _one_of_check(schema),
        _all_of_check(schema),
        _not_check(schema),
        _string_check(schema),
        _format_check(schema),
        _number_check(schema),
        _array_check(schema),
        _enum_check(schema),
        _object_check(schema),
    )
    return _all([part for part in parts if part is not None])


def _all(checks: list[Check]) -> Check | None:
    if len(checks) <= 1:
        return checks[0] if checks else None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        for one in checks:
            problems += one(value)
        return problems

    return check


def _in_body(value: object, text: str) -> list[Problem]:
    return [("", lambda path: failures.invalid_value(path, value, f"{path} in body {text}"))]


def _whole(text: str) -> Problem:
    """A problem that Kubernetes tells without a field."""
    return "", lambda path: failures.invalid_value("<nil>", "", text.format(path=path))


def _type_check(schema: JsonSchema) -> Check | None:
    names = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema.get("type")]
    if not names[0]:
        return None
    accepted = {python for name in names for python in _PYTHON_TYPES.get(name, ())}
    if schema.get("nullable"):
        accepted.add(type(None))
    takes_integers, listed = "integer" in names, ",".join(names)

    def check(value: Any) -> list[Problem]:
        found = type(value)
        if found in accepted or (takes_integers and found is float and value.is_integer()):
            return []
        json_type = _JSON_TYPES[found]
        return _in_body(json_type, f'must be of type {listed}: "{json_type}"')

    return check


def _branches(schema: JsonSchema, junctor: str) -> list[Check]:
    return [compile_check(branch) or _accept for branch in schema.get(junctor) or ()]


def _accept(_value: Any) -> list[Problem]:
    return []


def _any_of_check(schema: JsonSchema) -> Check | None:
    branches = _branches(schema, "anyOf")
    if not branches:
        return None

    def check(value: Any) -> list[Problem]:
        if value is None:
            return []
        told = [branch(value) for branch in branches]
        if not all(told):
            return []
        return [_whole('"{path}" must validate at least one schema (anyOf)'), *told[0]]

    return check


def _one_of_check(schema: JsonSchema) -> Check | None:
    branches = _branches(schema, "oneOf")
    if not branches:
        return None

    def check(value: Any) -> list[Problem]:
        if value is None:
            return []
        told = [branch(value) for branch in branches]
        valid = sum(not problems for problems in told)
        if valid == 1:
            return []
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        text = f'"{{path}}" must validate one and only one schema (oneOf). {found}'
        return [_whole(text), *([] if valid else told[0])]

    return check


def _all_of_check(schema: JsonSchema) -> Check | None:
    branches = _branches(schema, "allOf")
    if not branches:
        return None

    def check(value: Any) -> list[Problem]:
        if value is None:
            return []
        told = [branch(value) for branch in branches]
        if not any(told):
            return []
        none = ". None validated" if all(told) else ""
        text = f'"{{path}}" must validate all the schemas (allOf){none}'
        return [*(problem for problems in told for problem in problems), _whole(text)]

    return check


def _not_check(schema: JsonSchema) -> Check | None:
    if "not" not in schema:
        return None
    forbidden = compile_check(schema["not"]) or _accept

    def check(value: Any) -> list[Problem]:
        if value is None or forbidden(value):
            return []
        return [_whole('"{path}" must not validate the schema (not)')]

    return check


def _string_check(schema: JsonSchema) -> Check | None:
    most, least, pattern = (schema.get(key) for key in ("maxLength", "minLength", "pattern"))
    if most is None and least is None and not pattern:
        return None
    search = go_patterns.compile_pattern(pattern).search if pattern else None

    def check(value: Any) -> list[Problem]:
        if type(value) is not str:
            return []
        if most is not None and len(value) > most:
            return _in_body(value, f"should be at most {most} chars long")
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
        if type(value) is not str or is_of_format(value):
            return []
        return _in_body(value, f"must be of type {name}: {failures.shown(value)}")

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
        if type(value) is not int and type(value) is not float:
            return problems
        if factor and not _is_multiple(value, factor):
            problems += _in_body(value, f"should be a multiple of {_bound(factor, value)}")
        if least is not None and (value <= least if excludes_least else value < least):
            problems += _in_body(value, f"should be {above} {_bound(least, value)}")
        if most is not None and (value >= most if excludes_most else value > most):
            problems += _in_body(value, f"should be {below} {_bound(most, value)}")
        return problems

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < _ALMOST_NOTHING


def _bound(bound: float, value: float) -> str:
    """A limit as Go writes it: an integer beside an integer, and a float in its shortest form."""
    if isinstance(value, int) and float(bound).is_integer():
        return str(int(bound))
    exponent = Decimal(repr(float(bound))).adjusted()
    if -4 <= exponent < 21:
        return repr(float(bound)).removesuffix(".0")
    digits, _, power = f"{Decimal(repr(float(bound))):e}".partition("e")
    return f"{digits}e{int(power):+03d}"


def _array_check(schema: JsonSchema) -> Check | None:
    least, most = schema.get("minItems"), schema.get("maxItems")
    check_item = compile_check(schema.get("items") or {})
    if least is None and most is None and check_item is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        if type(value) is not list:
            return problems
        if check_item is not None:
            for index, item in enumerate(value):
                if found := check_item(item):
                    problems += [(f"[{index}]{path}", make) for path, make in found]
        if least is not None and len(value) < least:
            problems += _in_body(len(value), f"should have at least {least} items")
        if most is not None and len(value) > most:
            problems += _in_body(len(value), f"should have at most {most} items")
        return problems

    return check


def _enum_check(schema: JsonSchema) -> Check | None:
    values = schema.get("enum")
    if not values:
        return None
    allowed = frozenset(identity(value) for value in values if value is not None)
    names = [value if isinstance(value, str) else failures.shown(value) for value in values]

    def check(value: Any) -> list[Problem]:
        if identity(value) in allowed:
            return []
        shown = "null" if value is None else value
        return [("", lambda path: failures.not_supported(path, shown, names))]

    return check


def _object_check(schema: JsonSchema) -> Check | None:
    properties: dict[str, JsonSchema] = schema.get("properties") or {}
    compiled = {key: compile_check(value) for key, value in properties.items()}
    checks = {key: check for key, check in compiled.items() if check is not None}
    additional = schema.get("additionalProperties")
    check_other = compile_check(additional) if isinstance(additional, dict) else None
    required: list[str] = schema.get("required") or []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if not (checks or required) and check_other is None and least is None and most is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems: list[Problem] = []
        if type(value) is not dict:
            return problems
        if least is not None and len(value) < least:
            return _in_body(least, f"should have at least {least} properties")
        if most is not None and len(value) > most:
            return _in_body(most, f"should have at most {most} properties")
        for key, one in value.items():
            check_one = checks.get(key) or (None if key in properties else check_other)
            if check_one is not None and (found := check_one(one)):
                problems += [(f".{key}{path}", make) for path, make in found]
        problems += [(f".{key}", failures.required) for key in required if key not in value]
        return problems

    return check
