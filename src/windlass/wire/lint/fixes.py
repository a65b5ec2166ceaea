"""A file with faults → the same file without those that can be put right in one way only. Bytes in, bytes out.

An edit touches one key or one value and nothing around it, so comments, layout, line ends and encoding stay. Before it
counts, the edited file is read again: its documents must say the same everywhere else, the faults must be gone, and
there may be no new errors but in what a misspelt field holds, where nobody has looked before. What does not pass is
left alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import scalars, text, tree

Linter = Callable[[bytes], Sequence[Diagnostic]]
"""How the faults of a file are found."""

_MOST_PASSES = 5
"""A field with its right name is looked into, and may hold what can be fixed in turn."""
_MOST_TRIED_ALONE = 50
"""Each try reads the file anew."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ANCHOR = re.compile(r"(?:&\S+[ \t]+)?")


class Fixed(msgspec.Struct, frozen=True):
    """A diagnostic that is no more."""

    file: str
    line: int
    """Where it stood: no edit adds or takes away a line."""
    column: int
    path: str
    rule: Rule
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: fixed: {self.path}: {self.was} is now {self.becomes}"


class FixResult(msgspec.Struct, frozen=True):
    data: bytes
    fixed: tuple[Fixed, ...] = ()


class _Edit(msgspec.Struct, frozen=True):
    diagnostic: Diagnostic
    start: int
    end: int
    was: str
    becomes: str

    @property
    def is_of_a_key(self) -> bool:
        return self.diagnostic.fix is not None and self.diagnostic.fix.remedy is Remedy.RENAME

    @property
    def meaning(self) -> scalars.Scalar:
        """What the new text says, quotes taken away."""
        is_quoted = self.becomes[:1] in ("'", '"')
        return self.becomes[1:-1] if is_quoted else scalars.resolve(self.becomes)

    @property
    def path(self) -> str:
        """Of the diagnostic, as it is called after the edit."""
        if not self.is_of_a_key:
            return self.diagnostic.path
        return f"{self.diagnostic.path.removesuffix(_bare(self.was))}{_bare(self.becomes)}"

    @property
    def report(self) -> Fixed:
        diagnostic = self.diagnostic
        return Fixed(
            diagnostic.file,
            diagnostic.line,
            diagnostic.column,
            diagnostic.path,
            diagnostic.rule,
            self.was,
            self.becomes,
        )


def fix_file(data: bytes, look: Linter) -> FixResult:
    """All that can be put right with certainty. What is left is what `look` finds in the result."""
    fixed: list[Fixed] = []
    for _ in range(_MOST_PASSES):
        found = look(data)
        edits = _certain(data, found, look)
        if not edits:
            break
        data = _edited(data, edits)
        fixed.extend(edit.report for edit in edits)
    return FixResult(data, tuple(fixed))


def _certain(data: bytes, found: Sequence[Diagnostic], look: Linter) -> tuple[_Edit, ...]:
    """All edits together if they pass, or else those that pass one after the other."""
    was_looked_through = not any(
        diagnostic.rule in (Rule.UNREADABLE, Rule.TOO_MANY_FAULTS) for diagnostic in found
    )
    edits = tuple(_edits(data, found)) if was_looked_through else ()
    if not edits or _passes(data, edits, found, look):
        return edits
    chosen: tuple[_Edit, ...] = ()
    for edit in edits[:_MOST_TRIED_ALONE]:
        if _passes(data, (*chosen, edit), found, look):
            chosen = (*chosen, edit)
    return chosen


def _edits(data: bytes, found: Iterable[Diagnostic]) -> Iterator[_Edit]:
    written = data.decode("utf-8-sig")
    read = text.decode(data)
    if len(read) != len(written):
        return  # JSON with characters in two escapes: places are not what they seem
    wanted: dict[tuple[int, int], list[Diagnostic]] = {}
    for diagnostic in found:
        if diagnostic.fix is not None:
            wanted.setdefault((diagnostic.line, diagnostic.column), []).append(diagnostic)
    for event in yaml_parse.events_of(read) if wanted else ():
        if isinstance(event, yaml.ScalarEvent):
            place = yaml_parse.position_of(event)
            there = wanted.get((place.line, place.column), [])
            # An alias may bring several faults to one place, which then has to become different things.
            if len({diagnostic.fix for diagnostic in there}) == 1:
                yield from _edit(there[0], event, written)


def _edit(diagnostic: Diagnostic, event: Any, written: str) -> Iterator[_Edit]:
    start, end = event.start_mark.index, event.end_mark.index
    anchor = _ANCHOR.match(written, start, end)
    start = anchor.end() if anchor is not None else start
    was = written[start:end]
    is_on_one_line = was.splitlines() == [was] and event.style not in ("|", ">")
    if event.tag is None and is_on_one_line and _is_what_is_spoken_of(diagnostic, was):
        yield _Edit(diagnostic, start, end, was, _becomes(diagnostic, was))


def _is_what_is_spoken_of(diagnostic: Diagnostic, was: str) -> bool:
    """A diagnostic of what is made of a file stands somewhere near what caused it."""
    match diagnostic.fix:
        case Fix(Remedy.RENAME):
            return diagnostic.path.endswith(_bare(was))
        case Fix(Remedy.UNQUOTE, becomes):
            return _bare(was) == becomes != was
        case Fix(Remedy.REPLACE):
            return isinstance(scalars.resolve(was), int)
        case Fix(Remedy.QUOTE):
            return not isinstance(scalars.resolve(was), str)
    return False


def _becomes(diagnostic: Diagnostic, was: str) -> str:
    fix = diagnostic.fix
    if fix is None or fix.remedy is Remedy.QUOTE:
        return f'"{was}"'
    is_quoted = was[:1] in ("'", '"')
    return f"{was[0]}{fix.becomes}{was[0]}" if fix.remedy is Remedy.RENAME and is_quoted else fix.becomes


def _edited(data: bytes, edits: Iterable[_Edit]) -> bytes:
    written = data.decode("utf-8-sig")
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        written = f"{written[: edit.start]}{edit.becomes}{written[edit.end :]}"
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b""
    return mark + written.encode()


def _passes(data: bytes, edits: Sequence[_Edit], found: Sequence[Diagnostic], look: Linter) -> bool:
    edited = _edited(data, edits)
    before, after = yaml_parse.parse(data), yaml_parse.parse(edited)
    comparison = _Comparison({(edit.diagnostic.line, edit.diagnostic.column): edit for edit in edits})
    says_the_same_elsewhere = len(before.documents) == len(after.documents) and all(
        comparison.is_the_same(one.root, other.root)
        for one, other in zip(before.documents, after.documents, strict=True)
    )
    return (
        after.failure is None
        and says_the_same_elsewhere
        and comparison.every_edit_counts_once
        and _leaves_fewer_faults(edits, found, look(edited))
    )


class _Comparison:
    """Walks two documents side by side, and holds them to the edits."""

    def __init__(self, edits: Mapping[tuple[int, int], _Edit]) -> None:
        self._edits = edits
        self._met: Counter[tuple[int, int]] = Counter()

    @property
    def every_edit_counts_once(self) -> bool:
        """A key that an alias repeats is misspelt everywhere. A value may be right in another place."""
        return all(
            self._met[place] == 1 or (self._met[place] > 1 and edit.diagnostic.rule not in _BY_THEIR_PLACE)
            for place, edit in self._edits.items()
        )

    def is_the_same(self, old: tree.Node, new: tree.Node) -> bool:
        match old, new:
            case tree.Mapping(), tree.Mapping():
                return len(old.entries) == len(new.entries) and all(
                    self._is_expected(key, (old.keys[key].line, old.keys[key].column), new_key)
                    and self.is_the_same(value, new_value)
                    for (key, value), (new_key, new_value) in zip(
                        old.entries.items(), new.entries.items(), strict=True
                    )
                )
            case tree.Sequence(), tree.Sequence():
                return len(old.items) == len(new.items) and all(map(self.is_the_same, old.items, new.items))
            case tree.Scalar(), tree.Scalar():
                return self._is_expected_value(old, new)
        return isinstance(old, tree.Invalid) and isinstance(new, tree.Invalid)

    def _is_expected(self, old: str, place: tuple[int, int], new: str) -> bool:
        edit = self._edits.get(place)
        if edit is None or not edit.is_of_a_key:
            return old == new
        self._met[place] += 1
        return new == edit.meaning

    def _is_expected_value(self, old: tree.Scalar, new: tree.Scalar) -> bool:
        edit = self._edits.get((old.line, old.column))
        expected = old.value
        if edit is not None and not edit.is_of_a_key:
            self._met[old.line, old.column] += 1
            expected = edit.meaning
        return type(expected) is type(new.value) and expected == new.value


_BY_THEIR_PLACE = (Rule.MIN_FAILED_TOO_LARGE, Rule.MIN_SUCCEEDED_TOO_LARGE)
"""What is too large for one role may be right for another."""


def _leaves_fewer_faults(
    edits: Sequence[_Edit], before: Iterable[Diagnostic], after: Iterable[Diagnostic]
) -> bool:
    fixed = Counter(_identity(edit.diagnostic) for edit in edits)
    expected = Counter(_identity(diagnostic) for diagnostic in before)
    expected.subtract(fixed)
    left = Counter(_identity(diagnostic) for diagnostic in after)
    looked_into = tuple(edit.path for edit in edits if edit.is_of_a_key)
    are_gone = all(left[identity] <= expected[identity] for identity in fixed)
    has_new_errors = any(
        diagnostic.is_error
        and left[_identity(diagnostic)] > expected[_identity(diagnostic)]
        and not any(_is_within(diagnostic.path, path) for path in looked_into)
        for diagnostic in after
    )
    return are_gone and not has_new_errors


def _identity(diagnostic: Diagnostic) -> tuple[int, Rule, str]:
    """Columns move when something before them is edited."""
    return diagnostic.line, diagnostic.rule, diagnostic.message


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _bare(written: str) -> str:
    return written[1:-1] if written[:1] in ("'", '"') else written
