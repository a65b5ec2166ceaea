"""Which fields of a kind are mapped, have no effect, or are refused. Every field is in exactly one of the lists.

A pattern is a path such as `spec.tfReplicaSpecs.*.template`, in which `*` is any key or item. It covers everything
below it, unless a longer pattern does.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.convert.conversion import Draft, FieldNote, Keys, NoteKind
from windlass.model.base import Json

_ANY = "*"
_TYPE_NAMES = {dict: "a mapping", list: "a list", str: "a string", int: "an integer", bool: "true or false"}


class Fields(msgspec.Struct, frozen=True):
    mapped: tuple[str, ...]
    no_effect: Mapping[str, str] = {}
    """Reasons by pattern."""
    refused: Mapping[str, str] = {}
    """What to do instead, by pattern."""
    types: Mapping[str, type] = {}
    """Types of the values that a converter reads, by pattern: dict, list, str, int or bool."""

    def __or__(self, other: "Fields") -> "Fields":
        return Fields(
            (*self.mapped, *other.mapped),
            {**self.no_effect, **other.no_effect},
            {**self.refused, **other.refused},
            {**self.types, **other.types},
        )

    def wrong_types(self, body: Json) -> Iterator[FieldNote]:
        """Yield a note for each given value of a wrong type."""
        for pattern, expected in self.types.items():
            for keys, value in _values(body, pattern.split("."), ()):
                if type(value) is not expected:
                    yield FieldNote(NoteKind.REFUSED, keys, f"expected {_TYPE_NAMES[expected]}")

    def lists_of(self, keys: Keys) -> tuple[str, ...]:
        """Return the names of the lists whose longest pattern covers the path."""
        lists: Mapping[str, tuple[str, ...]] = {
            "mapped": self.mapped,
            "no_effect": tuple(self.no_effect),
            "refused": tuple(self.refused),
        }
        lengths = {
            name: max((_length(each) for each in patterns if _covers(each, keys)), default=0)
            for name, patterns in lists.items()
        }
        longest = max(lengths.values())
        return tuple(name for name, length in lengths.items() if length == longest > 0)

    def _has_below(self, keys: Keys) -> bool:
        """Return whether a pattern is about a field below this path."""
        patterns = (*self.mapped, *self.no_effect, *self.refused)
        return any(_covers(".".join(each.split(".")[: len(keys)]), keys) for each in patterns)

    def count_mapped(self, body: Json) -> int:
        """Return the number of given fields of an object that are mapped; a pattern counts once for each field that it
        names."""
        return len(
            {
                keys[: max(_length(each) for each in self.mapped if _covers(each, keys))]
                for keys in _given(body, ())
                if self.lists_of(keys) == ("mapped",)
            }
        )

    def notes(self, body: Json) -> Iterator[FieldNote]:
        """Yield a note for each given field of an object that has no effect, or is refused, unknown or of a wrong
        type."""
        yield from self.wrong_types(body)
        for keys in _given(body, ()):
            found = self.lists_of(keys)
            if "refused" in found:
                yield FieldNote(NoteKind.REFUSED, *_longest(self.refused, keys))
            elif "no_effect" in found:
                yield FieldNote(NoteKind.NO_EFFECT, *_longest(self.no_effect, keys))
            elif not found and not (_is_empty(body, keys) and self._has_below(keys)):
                yield FieldNote(NoteKind.REFUSED, keys, "unknown field: remove it, or correct its name")


class Needed(msgspec.Struct, frozen=True):
    """An object of the cluster that a conversion needs."""

    api_version: str
    kind: str
    plural: str
    name: str
    is_namespaced: bool


def _nothing(_: Json) -> tuple[Needed, ...]:
    return ()


class Kind(msgspec.Struct, frozen=True):
    """A kind of another system."""

    api_version: str
    kind: str
    plural: str
    """Name in URLs of the API, e.g. `tfjobs`."""
    fields: Fields
    convert: Callable[[Draft], None]
    """Fills the draft, which already has the metadata of the job. It is not called if a refused field is given."""
    is_fallback: bool = False
    """Whether objects are converted only in a file without other jobs: a Job may just accompany them."""
    needs: Callable[[Json], tuple[Needed, ...]] = _nothing
    """Returns the other objects that the conversion of an object needs."""


METADATA = Fields(
    mapped=(
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
    ),
    no_effect={
        "metadata": "the API server sets this field",
        "status": "the controller writes the status",
    },
    refused={"metadata.generateName": "a job needs a name: replace generateName by name"},
    types={
        "metadata": dict,
        "metadata.name": str,
        "metadata.namespace": str,
        "metadata.labels": dict,
        "metadata.annotations": dict,
        "metadata.annotations.*": str,
        "spec": dict,
    },
)
"""Fields that objects of all kinds have."""


def _given(value: Any, keys: Keys) -> Iterator[Keys]:
    """Yield the paths of all scalars, and of empty mappings and lists. Null counts as absent."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    is_leaf = True
    for key, item in items:
        is_leaf = False
        yield from _given(item, (*keys, key))
    if is_leaf and value is not None:
        yield keys


def _values(value: Any, parts: list[str], keys: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield the values at a pattern. Null counts as absent."""
    if not parts:
        if value is not None:
            yield keys, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if parts[0] in (_ANY, key):
            yield from _values(item, parts[1:], (*keys, key))


def _is_empty(value: Any, keys: Keys) -> bool:
    for key in keys:
        value = value[key]
    return isinstance(value, (dict, list))


def _length(pattern: str) -> int:
    return pattern.count(".") + 1


def _covers(pattern: str, keys: Keys) -> bool:
    parts = pattern.split(".")
    return len(parts) <= len(keys) and all(
        part in (_ANY, key) for part, key in zip(parts, keys, strict=False)
    )


def _longest(texts: Mapping[str, str], keys: Keys) -> tuple[Keys, str]:
    """Return the given field that the longest pattern names, and the text of the pattern."""
    pattern = max((each for each in texts if _covers(each, keys)), key=_length)
    return keys[: _length(pattern)], texts[pattern]
