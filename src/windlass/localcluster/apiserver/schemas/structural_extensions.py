"""Validation of the `x-kubernetes` extensions: lists that are sets or maps, and embedded resources.

A check returns the problems of a value, each with its path relative to the value (`.name`, `[0].name`) and a function
that returns the field error for an absolute path. A schema that accepts every value has no check.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError

JsonSchema = dict[str, Any]
Problem = tuple[str, Callable[[str], FieldError]]
Check = Callable[[Any], list[Problem]]


def compile_checks(openapi: JsonSchema) -> list[Check]:
    """Return the checks of an object, in the order in which Kubernetes reports their errors."""
    checks = (_everywhere(openapi, _embedded_check), _everywhere(openapi, _list_check))
    return [check for check in checks if check is not None]


def identity(value: Any) -> object:
    """Return a hashable value that is equal for equal JSON values, unlike Python's True and 1."""
    if type(value) is str:
        return value
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, order="sorted")
    return type(value) is bool, value


def _everywhere(schema: JsonSchema, check_of: Callable[[JsonSchema], Check | None]) -> Check | None:
    """Return a check of a value and of everything below it."""
    own_check = check_of(schema)
    items = _everywhere(schema["items"], check_of) if schema.get("items") else None
    below = {key: _everywhere(value, check_of) for key, value in (schema.get("properties") or {}).items()}
    children = {key: check for key, check in below.items() if check is not None}
    additional = schema.get("additionalProperties")
    others = _everywhere(additional, check_of) if isinstance(additional, dict) else None
    if own_check is None and items is None and not children and others is None:
        return None

    def check(value: Any) -> list[Problem]:
        problems = own_check(value) if own_check is not None else []
        if type(value) is list and items is not None:
            problems += [
                (f"[{index}]{path}", make) for index, one in enumerate(value) for path, make in items(one)
            ]
        elif type(value) is dict:
            for key, one in value.items():
                if key in children:
                    problems += [(f".{key}{path}", make) for path, make in children[key](one)]
                elif others is not None:
                    problems += [(f"[{key}]{path}", make) for path, make in others(one)]
        return problems

    return check


def _embedded_check(schema: JsonSchema) -> Check | None:
    if not schema.get("x-kubernetes-embedded-resource"):
        return None
    return lambda value: list(_embedded_problems(value)) if type(value) is dict else []


def _embedded_problems(obj: dict[str, Any]) -> Iterator[Problem]:
    rules: dict[str, Callable[[str], list[str]]] = {
        "apiVersion": _api_version_problems,
        "kind": _kind_problems,
    }
    for field, rule in rules.items():
        value = obj.get(field)
        if field not in obj:
            yield f".{field}", lambda path: api_errors.required(path)
        elif not isinstance(value, str):
            yield _invalid(f".{field}", value, "must be a string")
        elif not value:
            yield _invalid(f".{field}", value, "must not be empty")
        else:
            yield from (_invalid(f".{field}", value, problem) for problem in rule(value))
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield _invalid(".metadata", metadata, "must be an object")


def _api_version_problems(value: str) -> list[str]:
    return [f"unexpected GroupVersion string: {value}"] if value.count("/") > 1 else []


def _kind_problems(value: str) -> list[str]:
    problems = formats.dns_1035_label(value.lower())
    if not problems:
        return []
    return [f"may have mixed case, but should otherwise match: {','.join(problems)}"]


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
    seen: dict[object, int] = {}
    problems: list[Problem] = []
    for index, value in enumerate(values):
        times = seen[identity(value)] = seen.get(identity(value), 0) + 1
        if times == 2:
            problems.append((f"[{index}]", _duplicate(value)))
    return problems


def _duplicate(value: object) -> Callable[[str], FieldError]:
    return lambda path: api_errors.duplicate(path, value)
