"""The kinds of other systems that are converted to job files, and the conversion of an object of a file."""

from collections.abc import Iterator, Sequence

import msgspec

from windlass.convert.conversion import Conversion, Draft, Keys, NoteKind, path_of
from windlass.convert.fields import Kind
from windlass.model.base import Json
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree
from windlass.wire.yaml.text import Position


def kinds() -> tuple[Kind, ...]:
    """Return all kinds. Imported on demand, because most files have none of them."""
    from windlass.convert import (
        job,
        jobset,
        mpijob,
        tfjob,
        training_jobs,
        trainjob,
        volcano,
    )

    return (
        *tfjob.KINDS,
        *training_jobs.KINDS,
        *mpijob.KINDS,
        *volcano.KINDS,
        *trainjob.KINDS,
        *jobset.KINDS,
        *job.KINDS,
    )


def kind_of(node: tree.Node) -> Kind | None:
    """Return the kind of an object; None if it is not converted, or has invalid parts."""
    api_version, kind = (tree.text_of(tree.dig(node, key)) for key in ("apiVersion", "kind"))
    if api_version is None or kind is None or "/" not in api_version:
        return None
    found = next((each for each in kinds() if (each.api_version, each.kind) == (api_version, kind)), None)
    return None if found is None or has_invalid(node) else found


def has_invalid(node: tree.Node) -> bool:
    """Return whether a part of the object has already been reported, so that it has no plain form."""
    match node:
        case tree.Mapping(entries=entries):
            return any(map(has_invalid, entries.values()))
        case tree.Sequence(items=items):
            return any(map(has_invalid, items))
    return isinstance(node, tree.Invalid)


def kinds_named(name: str) -> tuple[Kind, ...]:
    """Return the kinds with this name in the way of kubectl, e.g. `tfjob`, `tfjobs` or `tfjobs.kubeflow.org`."""
    plain, _, group = name.lower().partition(".")
    return tuple(
        each
        for each in reversed(kinds())
        if plain in (each.kind.lower(), each.plural) and group in ("", each.api_version.partition("/")[0])
    )


def convert(original: Json, kind: Kind, others: Sequence[Json] = ()) -> Conversion:
    """Convert an object. `others` are the other objects of its file."""
    draft = Draft(original, others)
    notes = tuple(dict.fromkeys(kind.fields.notes(original)))
    if not any(note.kind is NoteKind.REFUSED for note in notes):
        kind.convert(draft)
    return draft.conversion(notes, kind.fields.count_mapped(original))


def diagnostics_of(conversion: Conversion, node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Yield errors for refused fields, and warnings for fields of the spec without effect.

    `path` is the path of the object in its document.
    """
    for note in conversion.notes:
        position, at = position_of(node, note.keys), _below(path, note.path)
        if note.kind is NoteKind.REFUSED:
            yield diagnostics.error(position, at, note.text, Rule.CONVERSION)
        elif note.kind is NoteKind.NO_EFFECT and note.keys[:1] == ("spec",):
            yield diagnostics.warning(position, at, f"no effect: {note.text}", Rule.CONVERSION)


def job_node(conversion: Conversion, original: tree.Node) -> tree.Mapping:
    """Return the job file as a tree, with the positions of the fields of the original."""

    def node(value: object, keys: Keys) -> tree.Node:
        position = position_of(original, conversion.origin(keys))
        line, column = position.line, position.column
        match value:
            case dict():
                entries = {key: node(item, (*keys, key)) for key, item in value.items()}
                positions = {key: Position(entry.line, entry.column) for key, entry in entries.items()}
                return tree.Mapping(entries, positions, line, column)
            case list() | tuple():
                items = (node(item, (*keys, index)) for index, item in enumerate(value))
                return tree.Sequence(tuple(items), line, column)
        assert value is None or isinstance(value, (str, int, float, bool))  # noqa: S101
        return tree.Scalar(value, line, column)

    root = node(conversion.document, ())
    assert isinstance(root, tree.Mapping)  # noqa: S101 — a job file is a mapping
    return root


def in_original(found: Diagnostic, conversion: Conversion, path: str) -> Diagnostic:
    """Return a diagnostic of the job file with the path of the original, and without its fix."""
    origins = {_below(path, path_text): keys for path_text, keys in _origin_texts(conversion).items()}
    start = found.path
    while start and start not in origins:
        start = start[: max(start.rfind("."), start.rfind("["), 0)]
    origin = _below(path, path_of(origins[start])) + found.path[len(start) :] if start else path
    return msgspec.structs.replace(found, path=origin, fix=None)


def position_of(node: tree.Node, keys: Keys) -> Position:
    """Return the position of the deepest existing field of a path."""
    position = Position(node.line, node.column)
    for key in keys:
        if isinstance(node, tree.Mapping) and key in node.entries:
            below = node.entries[str(key)]
            position = node.keys[str(key)]
        elif isinstance(node, tree.Sequence) and isinstance(key, int) and key < len(node.items):
            below = node.items[key]
            position = Position(below.line, below.column)
        else:
            break
        node = below
    return Position(node.line, node.column) if isinstance(node, tree.Scalar) and keys else position


def _origin_texts(conversion: Conversion) -> dict[str, Keys]:
    return {path_of(keys): origin for keys, origin in conversion.origins.items()}


def _below(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest else path or rest
