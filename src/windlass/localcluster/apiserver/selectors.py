"""Label and field selectors: which objects a list, a watch or a deletion is about.

A selector is parsed once for each request and asked once for each object and each event, so that all work that can be
done beforehand is done when it is parsed. What is wrong with a selector is said in the words of Kubernetes.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import msgspec

from windlass.k8s import api_errors, formats

_TOKEN = re.compile(r"!=|==|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset({"!=", "==", "=", "!", "(", ")", ",", "<", ">"})
_END = ""

_LONGEST_INTEGER = 63
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_INTEGER = 2**63 - 1


class OneOf(msgspec.Struct, frozen=True):
    """`key in (…)`, and `key=value` as one of one."""

    key: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return labels.get(self.key) in self.values


class NoneOf(msgspec.Struct, frozen=True):
    """`key notin (…)` and `key!=value`, which an object without the label fulfils."""

    key: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return labels.get(self.key) not in self.values


class Present(msgspec.Struct, frozen=True):
    """`key`."""

    key: str

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.key in labels


class Absent(msgspec.Struct, frozen=True):
    """`!key`."""

    key: str

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.key not in labels


class Above(msgspec.Struct, frozen=True):
    """`key>number`."""

    key: str
    bound: int

    def matches(self, labels: Mapping[str, str]) -> bool:
        number = _integer(labels.get(self.key, ""))
        return number is not None and number > self.bound


class Below(msgspec.Struct, frozen=True):
    """`key<number`."""

    key: str
    bound: int

    def matches(self, labels: Mapping[str, str]) -> bool:
        number = _integer(labels.get(self.key, ""))
        return number is not None and number < self.bound


LabelRequirement = OneOf | NoneOf | Present | Absent | Above | Below

_COMPARISONS: dict[str, type[OneOf] | type[NoneOf]] = {
    "=": OneOf,
    "==": OneOf,
    "in": OneOf,
    "!=": NoneOf,
    "notin": NoneOf,
}
_BOUNDS: dict[str, type[Above] | type[Below]] = {">": Above, "<": Below}


class LabelSelector(msgspec.Struct, frozen=True):
    requirements: tuple[LabelRequirement, ...] = ()

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - twice as fast as all() and a generator
            if not requirement.matches(labels):
                return False
        return True


def parse_labels(text: str) -> LabelSelector:
    return LabelSelector(_LabelParser(text).requirements())


class _LabelParser:
    """Reads a selector from left to right. `_END` stands for the end of the text."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._position = 0

    def requirements(self) -> tuple[LabelRequirement, ...]:
        if self._next == _END:
            return ()
        if not self._next_starts_a_requirement():
            _refuse(f"found '{self._next}', expected: !, identifier, or 'end of string'")
        found = [self._requirement()]
        while (separator := self._take()) != _END:
            if separator != ",":
                _refuse(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._next_starts_a_requirement():
                _refuse(f"found '{self._next}', expected: identifier after ','")
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
            _refuse_requirement(f"found '{key}', expected: identifier")
        if errors := formats.qualified_name(key):
            _refuse_requirement(f"<nil>: Invalid value: {api_errors.shown(key)}: {'; '.join(errors)}")
        if negated:
            return Absent(key)
        if self._next in (_END, ","):
            return Present(key)
        operator = self._take()
        if operator in _BOUNDS:
            return _BOUNDS[operator](key, _bound(key, self._one_value()))
        if operator not in _COMPARISONS:
            _refuse_requirement(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._several_values() if operator in ("in", "notin") else {self._one_value()}
        for index, value in enumerate(sorted(values)):
            _check_value(key, value, index)
        return _COMPARISONS[operator](key, frozenset(values))

    def _one_value(self) -> str:
        if self._next in (_END, ","):
            return ""
        value = self._take()
        if not _is_word(value):
            _refuse_requirement(f"found '{value}', expected: identifier")
        return value

    def _several_values(self) -> set[str]:
        opening = self._take()
        if opening != "(":
            _refuse_requirement(f"found '{opening}' expected: '('")
        if self._next not in (",", ")") and not _is_word(self._next):
            _refuse_requirement(f"found '{self._next}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            # Between two commas, or a comma and a parenthesis, stands the empty value.
            values.add(self._take() if _is_word(self._next) else "")
            separator = self._take()
            if separator == ")":
                return values
            if separator != ",":
                _refuse_requirement(f"found '{separator}', expected: ',' or ')'")
            if self._next not in (",", ")") and not _is_word(self._next):
                _refuse_requirement(f"found '{self._next}', expected: ',', or identifier")


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _bound(key: str, value: str) -> int:
    number = _integer(value)
    if number is None:
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        _refuse_requirement(f"values[0]: Invalid value: {api_errors.shown(value)}: {why}")
    _check_value(key, value, 0)
    return number


def _check_value(key: str, value: str, index: int) -> None:
    if errors := formats.label_value(value):
        shown = api_errors.shown(value)
        _refuse_requirement(f"values[{index}][{key}]: Invalid value: {shown}: {'; '.join(errors)}")


def _integer(text: str) -> int | None:
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MAX_INTEGER <= number <= _MAX_INTEGER else None


def _refuse(message: str) -> NoReturn:
    raise api_errors.bad_request(message)


def _refuse_requirement(message: str) -> NoReturn:
    _refuse(f"unable to parse requirement: {message}")


# Fields that a selector calls by another name than the object does.
_PATHS = {"source": "source.component", "status.successful": "status.succeeded"}
# What counts as the value of a field that an object does not have; nothing, for most of them.
_WHEN_MISSING = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}


class FieldRequirement(msgspec.Struct, frozen=True):
    field: str
    equal: bool
    value: str
    path: tuple[str, ...]
    when_missing: str

    def matches(self, obj: Mapping[str, Any]) -> bool:
        found: Any = obj
        for key in self.path:
            found = found.get(key) if isinstance(found, dict) else None
        text = found if isinstance(found, str) else _shown(found, self.when_missing)
        return (text == self.value) is self.equal


def _shown(value: Any, when_missing: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else when_missing


class FieldSelector(msgspec.Struct, frozen=True):
    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    @property
    def name(self) -> str | None:
        """The metadata.name that an object must have, if one is asked for."""
        for requirement in self.requirements:
            if requirement.field == "metadata.name" and requirement.equal:
                return requirement.value
        return None

    def matches(self, obj: Mapping[str, Any]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - twice as fast as all() and a generator
            if not requirement.matches(obj):
                return False
        return True


def parse_fields(text: str, selectable: Collection[str], *, is_custom: bool = False) -> FieldSelector:
    """`selectable` says which fields may be named beside metadata.name and metadata.namespace."""
    # Kubernetes looks at the terms in this order, which decides what is said of a selector with several errors.
    terms = sorted(filter(None, _terms(text)))
    requirements = tuple(_field_requirement(term, text) for term in terms)
    for requirement in requirements:
        field = requirement.field
        if field not in ("metadata.name", "metadata.namespace") and field not in selectable:
            _refuse(_unknown_field(field, selectable, is_custom))
    return FieldSelector(requirements)


def _unknown_field(field: str, selectable: Collection[str], is_custom: bool) -> str:
    if "status.successful" in selectable:
        return f"field label {api_errors.shown(field)} not supported for Job"
    if selectable or is_custom:
        return f"field label not supported: {field}"
    return (
        f'{api_errors.shown(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _terms(text: str) -> list[str]:
    """The text between the commas, except those after a backslash."""
    return [match[0] for match in re.finditer(r"(?:[^\\,]|\\.|\\\Z)+", text, re.DOTALL)]


def _field_requirement(term: str, text: str) -> FieldRequirement:
    found = re.search(r"!=|==|=", term)
    if found is None:
        _refuse(f"invalid selector: '{text}'; can't understand '{term}'")
    field = term[: found.start()]
    path = tuple(_PATHS.get(field, field).split("."))
    value = _unescaped(term[found.end() :])
    return FieldRequirement(field, found[0] != "!=", value, path, _WHEN_MISSING.get(field, ""))


def _unescaped(value: str) -> str:
    r"""A value in which `\\`, `\,` and `\=` stand for what follows the backslash."""

    def plain(match: re.Match[str]) -> str:
        sequence = match[0]
        if sequence in ("\\\\", "\\,", "\\="):
            return sequence[1]
        if sequence.startswith("\\"):
            _refuse(f"invalid field selector: invalid escape sequence: {sequence}")
        _refuse(f"invalid field selector: unescaped character in value: {ord(sequence)}")

    return re.sub(r"\\.?|[,=]", plain, value, flags=re.DOTALL)
