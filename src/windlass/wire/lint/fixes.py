"""Fix the diagnostics of a file that have only one possible fix.

An edit changes one key or value, and keeps comments, layout, line ends and encoding. The edited file is checked again:
the documents must otherwise be equal, the diagnostics must be resolved, and new errors are allowed only inside a
renamed field, which was not checked before. Edits that fail this check are not applied.
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
"""A function that returns the diagnostics of a file."""

_MAX_PASSES = 5
"""Maximum number of passes. A renamed field is checked for the first time after the edit, and may need more fixes."""
_MAX_SINGLE_EDITS = 50
"""The maximum number of edits to try one by one. Each try parses the file again."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ANCHOR = re.compile(r"(?:&\S+[ \t]+)?")


class Fixed(msgspec.Struct, frozen=True):
    """A fixed diagnostic."""

    file: str
    line: int
    """The line, which edits do not change."""
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
    def renames_key(self) -> bool:
        return self.diagnostic.fix is not None and self.diagnostic.fix.remedy is Remedy.RENAME

    @property
    def new_value(self) -> scalars.Scalar:
        """The value of the new text."""
        is_quoted = self.becomes[:1] in ("'", '"')
        return self.becomes[1:-1] if is_quoted else scalars.resolve(self.becomes)

    @property
    def path(self) -> str:
        """The path of the diagnostic after the edit."""
        if not self.renames_key:
            return self.diagnostic.path
        return f"{self.diagnostic.path.removesuffix(_unquoted(self.was))}{_unquoted(self.becomes)}"

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


def fix_file(data: bytes, lint: Linter) -> FixResult:
    """Apply all unambiguous fixes. The caller lints the result to get the remaining diagnostics."""
    fixed: list[Fixed] = []
    for _ in range(_MAX_PASSES):
        found = lint(data)
        edits = _accepted_edits(data, found, lint)
        if not edits:
            break
        data = _edited(data, edits)
        fixed.extend(edit.report for edit in edits)
    return FixResult(data, tuple(fixed))


def _accepted_edits(data: bytes, found: Sequence[Diagnostic], lint: Linter) -> tuple[_Edit, ...]:
    """Return all edits if they are accepted together, otherwise those accepted when added one after the other."""
    is_complete = not any(diagnostic.rule in (Rule.UNREADABLE, Rule.TOO_MANY_FAULTS) for diagnostic in found)
    edits = tuple(_edits(data, found)) if is_complete else ()
    if not edits or _is_accepted(data, edits, found, lint):
        return edits
    chosen: tuple[_Edit, ...] = ()
    for edit in edits[:_MAX_SINGLE_EDITS]:
        if _is_accepted(data, (*chosen, edit), found, lint):
            chosen = (*chosen, edit)
    return chosen


def _edits(data: bytes, found: Iterable[Diagnostic]) -> Iterator[_Edit]:
    written = data.decode("utf-8-sig")
    yaml_text = text.decode(data)
    if len(yaml_text) != len(written):
        return  # JSON with surrogate pairs: positions differ
    fixable: dict[tuple[int, int], list[Diagnostic]] = {}
    for diagnostic in found:
        if diagnostic.fix is not None:
            fixable.setdefault((diagnostic.line, diagnostic.column), []).append(diagnostic)
    for event in yaml_parse.events_of(yaml_text) if fixable else ():
        if isinstance(event, yaml.ScalarEvent):
            position = yaml_parse.position_of(event)
            candidates = fixable.get((position.line, position.column), [])
            # Aliases may cause several diagnostics at one position, with different fixes.
            if len({diagnostic.fix for diagnostic in candidates}) == 1:
                yield from _edit(candidates[0], event, written)


def _edit(diagnostic: Diagnostic, event: Any, written: str) -> Iterator[_Edit]:
    start, end = event.start_mark.index, event.end_mark.index
    anchor = _ANCHOR.match(written, start, end)
    start = anchor.end() if anchor is not None else start
    was = written[start:end]
    is_on_one_line = was.splitlines() == [was] and event.style not in ("|", ">")
    if event.tag is None and is_on_one_line and _matches_fix(diagnostic, was):
        yield _Edit(diagnostic, start, end, was, _new_text(diagnostic, was))


def _matches_fix(diagnostic: Diagnostic, was: str) -> bool:
    """Return whether the fix applies to the text. Diagnostics of rendered objects have approximate positions."""
    match diagnostic.fix:
        case Fix(Remedy.RENAME):
            return diagnostic.path.endswith(_unquoted(was))
        case Fix(Remedy.UNQUOTE, becomes):
            return _unquoted(was) == becomes != was
        case Fix(Remedy.REPLACE):
            is_named = f'found the string "{_unquoted(was)}"' in diagnostic.message
            return isinstance(scalars.resolve(was), int) or is_named
        case Fix(Remedy.QUOTE):
            return not isinstance(scalars.resolve(was), str)
    return False


def _new_text(diagnostic: Diagnostic, was: str) -> str:
    fix = diagnostic.fix
    if fix is None or fix.remedy is Remedy.QUOTE:
        return f'"{was}"'
    is_quoted = was[:1] in ("'", '"')
    keeps_quotes = is_quoted and fix.remedy in (Remedy.RENAME, Remedy.REPLACE)
    return f"{was[0]}{fix.becomes}{was[0]}" if keeps_quotes else fix.becomes


def _edited(data: bytes, edits: Iterable[_Edit]) -> bytes:
    written = data.decode("utf-8-sig")
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        written = f"{written[: edit.start]}{edit.becomes}{written[edit.end :]}"
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b""
    return mark + written.encode()


def _is_accepted(data: bytes, edits: Sequence[_Edit], found: Sequence[Diagnostic], lint: Linter) -> bool:
    edited = _edited(data, edits)
    before, after = yaml_parse.parse(data), yaml_parse.parse(edited)
    comparison = _Comparison({(edit.diagnostic.line, edit.diagnostic.column): edit for edit in edits})
    is_equal_elsewhere = len(before.documents) == len(after.documents) and all(
        comparison.is_equal(one.root, other.root)
        for one, other in zip(before.documents, after.documents, strict=True)
    )
    return (
        after.failure is None
        and is_equal_elsewhere
        and comparison.are_all_edits_valid
        and _resolves_diagnostics(edits, found, lint(edited))
    )


class _Comparison:
    """Compare two documents, and expect the edits as the only differences."""

    def __init__(self, edits: Mapping[tuple[int, int], _Edit]) -> None:
        self._edits = edits
        self._seen: Counter[tuple[int, int]] = Counter()

    @property
    def are_all_edits_valid(self) -> bool:
        """Whether every edit changes one place, or, through aliases, several places that all need it: a misspelt key is
        wrong in all of them, but a count may be valid in another place."""
        return all(
            self._seen[place] == 1 or (self._seen[place] > 1 and edit.diagnostic.rule not in _VALID_ELSEWHERE)
            for place, edit in self._edits.items()
        )

    def is_equal(self, old: tree.Node, new: tree.Node) -> bool:
        match old, new:
            case tree.Mapping(), tree.Mapping():
                return len(old.entries) == len(new.entries) and all(
                    self._is_expected_key(key, (old.keys[key].line, old.keys[key].column), new_key)
                    and self.is_equal(value, new_value)
                    for (key, value), (new_key, new_value) in zip(
                        old.entries.items(), new.entries.items(), strict=True
                    )
                )
            case tree.Sequence(), tree.Sequence():
                return len(old.items) == len(new.items) and all(map(self.is_equal, old.items, new.items))
            case tree.Scalar(), tree.Scalar():
                return self._is_expected_value(old, new)
        return isinstance(old, tree.Invalid) and isinstance(new, tree.Invalid)

    def _is_expected_key(self, old: str, place: tuple[int, int], new: str) -> bool:
        edit = self._edits.get(place)
        if edit is None or not edit.renames_key:
            return old == new
        self._seen[place] += 1
        return new == edit.new_value

    def _is_expected_value(self, old: tree.Scalar, new: tree.Scalar) -> bool:
        edit = self._edits.get((old.line, old.column))
        expected = old.value
        if edit is not None and not edit.renames_key:
            self._seen[old.line, old.column] += 1
            expected = edit.new_value
        return type(expected) is type(new.value) and expected == new.value


_VALID_ELSEWHERE = (Rule.MIN_FAILED_TOO_LARGE, Rule.MIN_SUCCEEDED_TOO_LARGE)
"""A count that is too large for one role may be valid for another."""


def _resolves_diagnostics(
    edits: Sequence[_Edit], before: Iterable[Diagnostic], after: Iterable[Diagnostic]
) -> bool:
    fixed = Counter(_identity(edit.diagnostic) for edit in edits)
    expected = Counter(_identity(diagnostic) for diagnostic in before)
    expected.subtract(fixed)
    left = Counter(_identity(diagnostic) for diagnostic in after)
    renamed = tuple(edit.path for edit in edits if edit.renames_key)
    are_resolved = all(left[identity] <= expected[identity] for identity in fixed)
    has_new_errors = any(
        diagnostic.is_error
        and left[_identity(diagnostic)] > expected[_identity(diagnostic)]
        and not any(_is_within(diagnostic.path, path) for path in renamed)
        for diagnostic in after
    )
    return are_resolved and not has_new_errors


def _identity(diagnostic: Diagnostic) -> tuple[int, Rule, str]:
    """Return the identity without the column, which edits may change."""
    return diagnostic.line, diagnostic.rule, diagnostic.message


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _unquoted(written: str) -> str:
    return written[1:-1] if written[:1] in ("'", '"') else written
