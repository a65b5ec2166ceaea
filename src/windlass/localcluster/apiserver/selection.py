"""The objects that a list or watch selects.

An object is decoded completely only if a field selector needs more than its name and namespace.

Label selectors are in `windlass.k8s`. Field selectors have the form `metadata.name=x,status.phase!=Running`, and their
error messages are those of kube-apiserver.
"""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import msgspec

from windlass.k8s import api_errors, label_selectors, metadata
from windlass.k8s.label_selectors import LabelSelector
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind

_COMMON_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
# A part of a field selector between commas that are not escaped.
_TERM = re.compile(r"(?:[^\\,]|\\.|\\\Z)+", re.DOTALL)
# Field names in selectors that differ from the path in the object.
_PATHS = {"source": "source.component", "status.successful": "status.succeeded"}
# Values of absent fields; all other fields are "" when absent.
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
        text = found if isinstance(found, str) else _as_text(found, self.when_missing)
        return (text == self.value) is self.equal


def _as_text(value: Any, when_missing: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else when_missing


class FieldSelector(msgspec.Struct, frozen=True):
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - twice as fast as all() and a generator
            if not requirement.matches(obj):
                return False
        return True


class SelectableObject:
    """A stored object. Its metadata and its content are each decoded at most once, when a selection needs them."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    @functools.cached_property
    def meta(self) -> metadata.LabeledName:
        return metadata.decode_labels(self.body).metadata

    @functools.cached_property
    def content(self) -> Mapping[str, Any]:
        return bodies.decode_stored(self.body)


class Selection(msgspec.Struct, frozen=True):
    """A label selector and a field selector."""

    labels: LabelSelector
    fields: FieldSelector

    @property
    def is_everything(self) -> bool:
        return self.labels.matches_everything and not self.fields.requirements

    def matches(self, obj: SelectableObject) -> bool:
        if self.is_everything:
            return True
        meta = obj.meta
        if not self.labels.matches(meta.labels):
            return False
        if not self.fields.requirements:
            return True
        if all(requirement.field in _COMMON_FIELDS for requirement in self.fields.requirements):
            return self.fields.matches({"metadata": {"name": meta.name, "namespace": meta.namespace}})
        return self.fields.matches(obj.content)


def parse(labels: str, fields: str, kind: Kind) -> Selection:
    field_selector = parse_fields(fields, kind.selectable_fields, is_custom=kind.is_custom)
    return Selection(label_selectors.parse(labels), field_selector)


def parse_fields(text: str, selectable: Collection[str], *, is_custom: bool = False) -> FieldSelector:
    """Parse a field selector. `selectable` lists the fields allowed besides metadata.name and metadata.namespace."""
    # Kubernetes sorts the terms before it checks them. Which of several errors it reports depends on their order.
    terms = sorted(match[0] for match in _TERM.finditer(text))
    requirements = tuple(_field_requirement(term, text) for term in terms)
    for requirement in requirements:
        field = requirement.field
        if field not in _COMMON_FIELDS and field not in selectable:
            _reject(_unknown_field(field, selectable, is_custom))
    return FieldSelector(requirements)


def _unknown_field(field: str, selectable: Collection[str], is_custom: bool) -> str:
    if "status.successful" in selectable:
        return f"field label {api_errors.format_value(field)} not supported for Job"
    if selectable or is_custom:
        return f"field label not supported: {field}"
    return f'{api_errors.format_value(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field_requirement(term: str, text: str) -> FieldRequirement:
    found = re.search(r"!=|==|=", term)
    if found is None:
        _reject(f"invalid selector: '{text}'; can't understand '{term}'")
    field = term[: found.start()]
    path = tuple(_PATHS.get(field, field).split("."))
    value = _unescaped(term[found.end() :])
    return FieldRequirement(field, found[0] != "!=", value, path, _WHEN_MISSING.get(field, ""))


def _unescaped(value: str) -> str:
    r"""Return the value with `\\`, `\,` and `\=` unescaped."""

    def unescape(match: re.Match[str]) -> str:
        sequence = match[0]
        if sequence in ("\\\\", "\\,", "\\="):
            return sequence[1]
        if sequence.startswith("\\"):
            _reject(f"invalid field selector: invalid escape sequence: {sequence}")
        _reject(f"invalid field selector: unescaped character in value: {ord(sequence)}")

    return re.sub(r"\\.?|[,=]", unescape, value, flags=re.DOTALL)


def _reject(message: str) -> NoReturn:
    raise api_errors.bad_request(message)
