"""Write a converted job file as YAML with comments, and the summary of a conversion."""

from collections.abc import Iterator

from windlass.convert.conversion import Conversion, FieldNote, Keys, NoteKind
from windlass.wire.yaml import dump, parse, tree
from windlass.wire.yaml.text import Position

_GENERATED = ("metadata", "status")
"""Fields that the API server and controllers write. They are not in the summary."""


def job_file(conversion: Conversion) -> bytes:
    """Return the job file, with a comment above each field for which a choice was made."""
    text = dump.dump(conversion.document)
    (document,) = parse.parse(text).documents
    lines = text.decode().splitlines()
    by_line: dict[int, list[str]] = {}
    for keys, comment in conversion.comments.items():
        position = _key_position(document.root, keys)
        if position is not None:
            indent = " " * (position.column - 1)
            by_line.setdefault(position.line, []).append(f"{indent}# {comment}")
    header = f"# Converted from the {conversion.kind} {conversion.document.get('name')} ({conversion.api_version})."
    written = [header]
    for number, line in enumerate(lines, 1):
        written += [*by_line.get(number, ()), line]
    return "".join(f"{line}\n" for line in written).encode()


def summary(conversion: Conversion) -> Iterator[str]:
    """Yield a line with the number of fields, and one for each note about a field."""
    kinds = {kind: [note for note in _notes(conversion) if note.kind is kind] for kind in NoteKind}
    refused, without_effect = kinds[NoteKind.REFUSED], kinds[NoteKind.NO_EFFECT]
    counts = [f"{conversion.mapped_fields} fields mapped"]
    counts.append(f"{len(without_effect)} without effect")
    counts.append(f"{len(refused)} refused")
    if conversion.objects:
        added = ", ".join(_counted(conversion))
        counts.append(f"added {added}")
    yield f"{conversion.kind} {conversion.document.get('name')}: {', '.join(counts)}"
    for kind, notes in kinds.items():
        for note in notes:
            label = "note" if kind is NoteKind.MAPPED else str(kind)
            yield f"  {label}: {note.path}: {note.text}"


def _notes(conversion: Conversion) -> list[FieldNote]:
    return [
        note
        for note in dict.fromkeys(conversion.notes)
        if note.keys[:1] not in [(key,) for key in _GENERATED]
    ]


def _counted(conversion: Conversion) -> Iterator[str]:
    kinds = [str(body["kind"]) for body in conversion.objects]
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        yield f"{number} {kind}{'s' if number > 1 else ''}"


def _key_position(node: tree.Node | None, keys: Keys) -> Position | None:
    """Return the position of the last key of a path; None if it does not exist."""
    position = None
    for key in keys:
        if isinstance(node, tree.Mapping) and key in node.entries:
            position, node = node.keys[str(key)], node.entries[str(key)]
        elif isinstance(node, tree.Sequence) and isinstance(key, int) and key < len(node.items):
            node = node.items[key]
        else:
            return None
    return position
