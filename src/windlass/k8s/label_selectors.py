"""Label selectors, as text (`app=x,tier in (a,b)`) and as an object (`matchLabels`, `matchExpressions`).

A selector is parsed once and then matched against many objects. Error messages are those of kube-apiserver.
"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from windlass.k8s import api_errors, formats

_TOKEN = re.compile(r"!=|==|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset({"!=", "==", "=", "!", "(", ")", ",", "<", ">"})
_END = ""

_MAX_DIGITS = 63
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


_OPERATORS = {"=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", ">": "Gt", "<": "Lt"}


class LabelRequirement(msgspec.Struct, frozen=True):
    """A requirement on one label.

    `operator` is an operator of matchExpressions, or Gt or Lt, which only text selectors and node affinities have.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                # An object without the label matches.
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "Gt" | "Lt":
                number, bounds = _integer(labels.get(self.key, "")), [_integer(text) for text in self.values]
                if number is None or len(bounds) != 1 or bounds[0] is None:
                    return False
                return number > bounds[0] if self.operator == "Gt" else number < bounds[0]
            case _:
                return self.key not in labels


class LabelSelector(msgspec.Struct, frozen=True):
    requirements: tuple[LabelRequirement, ...] = ()

    @property
    def matches_everything(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - twice as fast as all() and a generator
            if not requirement.matches(labels):
                return False
        return True


def parse(text: str) -> LabelSelector:
    """Parse a selector that is given as text. Raise `ApiError` if it is invalid."""
    return LabelSelector(_Parser(text).requirements())


def from_object(selector: Mapping[str, Any]) -> LabelSelector:
    """Return a selector from its form as an object. An empty selector matches everything."""
    labels = selector.get("matchLabels") or {}
    return LabelSelector(
        (
            *(LabelRequirement(key, "In", frozenset((value,))) for key, value in labels.items()),
            *map(requirement_of, selector.get("matchExpressions") or ()),
        )
    )


def requirement_of(expression: Mapping[str, Any]) -> LabelRequirement:
    """Return the requirement of a valid expression with `key`, `operator` and `values`."""
    values = frozenset(expression.get("values") or ())
    return LabelRequirement(expression.get("key", ""), expression.get("operator", ""), values)


def format_object(selector: Mapping[str, Any]) -> str:
    """Return a selector as text, from its form as an object. The requirements are sorted by key."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [(each["key"], _format(each)) for each in selector.get("matchExpressions") or ()]
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


def _format(expression: Mapping[str, Any]) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._position = 0

    def requirements(self) -> tuple[LabelRequirement, ...]:
        if self._next == _END:
            return ()
        if not self._next_starts_a_requirement():
            _reject(f"found '{self._next}', expected: !, identifier, or 'end of string'")
        found = [self._requirement()]
        while (separator := self._take()) != _END:
            if separator != ",":
                _reject(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._next_starts_a_requirement():
                _reject(f"found '{self._next}', expected: identifier after ','")
            found.append(self._requirement())
        return tuple(found)

    @property
    def _next(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _next_starts_a_requirement(self) -> bool:
        return self._next == "!" or _is_word(self._next)

    def _requirement(self) -> LabelRequirement:
        negated = self._next == "!"
        if negated:
            self._take()
        key = self._take()
        if not _is_word(key):
            _reject_requirement(f"found '{key}', expected: identifier")
        if problems := formats.qualified_name(key):
            _reject_requirement(
                f"<nil>: Invalid value: {api_errors.format_value(key)}: {'; '.join(problems)}"
            )
        if negated:
            return LabelRequirement(key, "DoesNotExist")
        if self._next in (_END, ","):
            return LabelRequirement(key, "Exists")
        operator = self._take()
        if operator not in _OPERATORS:
            _reject_requirement(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._value_list() if operator in ("in", "notin") else {self._one_value()}
        for index, value in enumerate(sorted(values)):
            if operator in ("<", ">") and _integer(value) is None:
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                _reject_requirement(f"values[0]: Invalid value: {api_errors.format_value(value)}: {why}")
            if problems := formats.label_value(value):
                quoted = api_errors.format_value(value)
                _reject_requirement(f"values[{index}][{key}]: Invalid value: {quoted}: {'; '.join(problems)}")
        return LabelRequirement(key, _OPERATORS[operator], frozenset(values))

    def _one_value(self) -> str:
        if self._next in (_END, ","):
            return ""
        value = self._take()
        if not _is_word(value):
            _reject_requirement(f"found '{value}', expected: identifier")
        return value

    def _value_list(self) -> set[str]:
        opening = self._take()
        if opening != "(":
            _reject_requirement(f"found '{opening}' expected: '('")
        if self._next not in (",", ")") and not _is_word(self._next):
            _reject_requirement(f"found '{self._next}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            # There is an empty value between two commas, and between a comma and a parenthesis.
            values.add(self._take() if _is_word(self._next) else "")
            separator = self._take()
            if separator == ")":
                return values
            if separator != ",":
                _reject_requirement(f"found '{separator}', expected: ',' or ')'")
            if self._next not in (",", ")") and not _is_word(self._next):
                _reject_requirement(f"found '{self._next}', expected: ',', or identifier")


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _integer(text: str) -> int | None:
    if len(text) > _MAX_DIGITS or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _reject(message: str) -> NoReturn:
    raise api_errors.bad_request(message)


def _reject_requirement(message: str) -> NoReturn:
    _reject(f"unable to parse requirement: {message}")
