"""Undefined names in templates, whose use is an error, and missing entries, which are empty.

Templates for other renderers contain conditions such as `job['port'] or 8080`. To print a missing entry, or to compute
with it, is an error here, because it is probably misspelt.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jinja2
from jinja2.utils import missing

from windlass.wire import diagnostics


class Undefined(jinja2.Undefined):
    _variables: tuple[str, ...] = ()
    """The variables of the template."""

    def _require_missing_entry(self) -> None:
        """Raise an error unless this is an entry that a mapping or a list does not have."""
        is_entry = isinstance(self._undefined_obj, Mapping | list | tuple) and not self._undefined_hint
        if not is_entry:
            self._fail_with_undefined_error()

    def __str__(self) -> str:
        self._fail_with_undefined_error()

    def __bool__(self) -> bool:
        self._require_missing_entry()
        return False

    def __len__(self) -> int:
        self._require_missing_entry()
        return 0

    def __iter__(self) -> Iterator[Any]:
        self._require_missing_entry()
        return iter(())

    def __eq__(self, other: object) -> bool:
        self._require_missing_entry()
        return isinstance(other, Undefined)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self._require_missing_entry()
        return hash(Undefined)

    def __index__(self) -> int:
        """Called for e.g. `range(undefined)`."""
        self._fail_with_undefined_error()

    @property
    def _undefined_message(self) -> str:
        name = str(self._undefined_name)
        if self._undefined_hint:
            return self._undefined_hint
        if self._undefined_obj is missing:
            suggestion = _suggestion(name, self._variables)
            return f"the variable {diagnostics.quoted(name)} is not defined. {suggestion}"
        if isinstance(self._undefined_obj, Mapping):
            keys = tuple(key for key in self._undefined_obj if isinstance(key, str))
            return f"the value has no entry {diagnostics.quoted(name)}. {_suggestion(name, keys)}"
        return super()._undefined_message


def class_for(variables: tuple[str, ...]) -> type[jinja2.Undefined]:
    """Return the class of the undefined names of a template with these variables."""
    return type("UndefinedOfTemplate", (Undefined,), {"_variables": variables})


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return "No names are defined."
    nearest = diagnostics.nearest(name, known)
    if nearest is not None:
        return f"Did you mean {diagnostics.quoted(nearest)}?"
    return f"Known names: {diagnostics.truncate(', '.join(sorted(known)))}."
