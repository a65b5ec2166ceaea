"""Parse YAML or JSON into documents with positions.

Documents are built from the events of the parser with an explicit stack. Depth and the number of values, with aliases
expanded, are limited during parsing, so that no input exhausts memory or the call stack.
"""

import contextlib
import math
import re
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import msgspec
import yaml

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import scalars, tree
from windlass.wire.yaml.text import ParseError, Position, decode, looks_like_json
from windlass.wire.yaml.tree import Document, Invalid, Mapping, Node, Parsed, Scalar, Sequence

MAX_DEPTH = 100
"""Kubernetes objects have at most about 20 levels."""
MAX_VALUES = 1_000_000
"""A Framework of 10,000 tasks with its status has about 700,000 keys and values."""

_MAX_TAG_DIRECTIVES = 100
_MAX_TAG_DIRECTIVE_LENGTH = 256
# A directive is at the start of a line. YAML has more line breaks than "\n".
_TAG_DIRECTIVE = re.compile(r"(?:\A|[\n\r\x85\u2028\u2029])\ufeff*(%TAG[^\n\r\x85\u2028\u2029]*)")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD_TAG = "tag:yaml.org,2002:"
_STRING_TAGS = ("!", f"{_STANDARD_TAG}str", f"{_STANDARD_TAG}timestamp")
_COLLECTION_TAGS = ("!", f"{_STANDARD_TAG}map", f"{_STANDARD_TAG}seq")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAGGED_TYPES: dict[str, tuple[type, ...]] = {
    f"{_STANDARD_TAG}int": (int,),
    f"{_STANDARD_TAG}float": (float, int),
    f"{_STANDARD_TAG}bool": (bool,),
    f"{_STANDARD_TAG}null": (type(None),),
}


class Limit(msgspec.Struct, frozen=True):
    """The maximum number of values, with aliases expanded, at which parsing stops, and the remedy for the message."""

    values: int
    remedy: str


def parse(data: bytes, limit: Limit | None = None) -> Parsed:
    """Parse all documents. The default limit is `MAX_VALUES`."""
    limit = limit or Limit(MAX_VALUES, "use fewer, or split the file")
    documents: list[Document] = []
    try:
        text = decode(data)
        with contextlib.closing(events_of(text)) as events:
            documents.extend(_documents(events, limit))
    except ParseError as error:
        return Parsed(tuple(documents), error.diagnostic)
    return Parsed(tuple(documents))


def events_of(text: str) -> Generator[Any, None, None]:
    """Yield the events of the YAML parser. Raise `ParseError` for invalid YAML."""
    _limit_directives(text)
    try:
        yield from yaml.parse(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _parse_error(error, text) from error


def _limit_directives(text: str) -> None:
    """Limit the number and the length of %TAG directives.

    libyaml compares each one with all others, and copies its prefix to every node whose tag has it.
    """
    if "%TAG" not in text:
        return
    for number, directive in enumerate(_TAG_DIRECTIVE.finditer(text), 1):
        if number > _MAX_TAG_DIRECTIVES:
            problem = f"more than {_MAX_TAG_DIRECTIVES} %TAG directives: remove them"
        elif len(directive[1]) > _MAX_TAG_DIRECTIVE_LENGTH:
            problem = f"a %TAG directive has more than {_MAX_TAG_DIRECTIVE_LENGTH} characters: shorten it"
        else:
            continue
        raise ParseError(Position(text.count("\n", 0, directive.start(1)) + 1, 1), problem)


def _documents(events: Iterable[Any], limit: Limit) -> Iterator[Document]:
    count = 0
    builder = _Builder(count, limit)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(count, limit)
        elif isinstance(event, yaml.DocumentEndEvent):
            count = builder.count
            yield builder.document()
        else:
            builder.add_event(event)


class _Measured(msgspec.Struct, frozen=True):
    """A complete value with its size, aliases expanded."""

    node: Node
    values: int
    height: int


class _Open:
    """A mapping or list that is not complete."""

    def __init__(self, event: Any) -> None:
        self.is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.anchor: str | None = event.anchor
        self.position = _position(event.start_mark)
        self.items: list[Node] = []
        self.entries: dict[str, Node] = {}
        self.keys: dict[str, Position] = {}
        self.merged: list[Node] = []
        self.key: _Key | None = None
        self.values = 1
        self.height = 0

    @property
    def expects_key(self) -> bool:
        return self.is_mapping and self.key is None

    def close(self) -> Node:
        line, column = self.position.line, self.position.column
        if not self.is_mapping:
            return Sequence(tuple(self.items), line, column)
        # The first of several sources takes precedence.
        sources = [source for source in reversed(self.merged) if isinstance(source, Mapping)]
        if not sources:
            return Mapping(self.entries, self.keys, line, column)
        entries: dict[str, Node] = {}
        keys: dict[str, Position] = {}
        for source in sources:
            entries.update(source.entries)
            keys.update(source.keys)
        return Mapping(entries | self.entries, keys | self.keys, line, column)


class _Key(msgspec.Struct, frozen=True):
    text: str
    position: Position
    is_merge: bool = False
    is_invalid: bool = False
    """Whether the key has a diagnostic. Its value is then ignored."""


class _Builder:
    """One document under construction."""

    def __init__(self, count: int, limit: Limit) -> None:
        self.limit = limit
        self.count = count
        """The number of values in the file so far, aliases expanded."""
        self.open: list[_Open] = []
        self.anchors: dict[str, _Measured | None] = {}
        """None while the anchored value is incomplete."""
        self.root: Node = Scalar(None, 1, 1)
        self.diagnostics: list[Diagnostic] = []

    def document(self) -> Document:
        return Document(self.root, tuple(self.diagnostics))

    def add_event(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event), event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._enter(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._leave()
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._aliased(event), event)

    def _enter(self, event: Any) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise ParseError(_position(event.start_mark), f"nested deeper than {MAX_DEPTH} levels")
        self._count(1, event)
        if event.tag is not None and event.tag not in _COLLECTION_TAGS:
            self._report(_position(event.start_mark), _unknown_tag(event.tag))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.open.append(_Open(event))

    def _leave(self) -> None:
        closed = self.open.pop()
        measured = _Measured(closed.close(), closed.values, closed.height + 1)
        if closed.anchor is not None:
            self.anchors[closed.anchor] = measured
        self._add(measured, None)

    def _aliased(self, event: Any) -> _Measured:
        alias = f"the alias *{diagnostics.truncate(event.anchor)}"
        target = self.anchors.get(event.anchor)
        if event.anchor not in self.anchors:
            problem = f"{alias} refers to an unknown anchor"
        elif target is None:
            problem = f"{alias} is inside the value that it refers to"
        elif len(self.open) + target.height > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels with {alias}"
        else:
            return target
        raise ParseError(_position(event.start_mark), problem, self._path())

    def _add(self, measured: _Measured, event: Any) -> None:
        """Add a complete value to its parent. `event` is None at the end of a collection, which is already counted."""
        node = measured.node
        if event is not None:
            self._count(measured.values, event)
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        top.values += measured.values
        top.height = max(top.height, measured.height)
        if top.expects_key:
            top.key = self._key(node, event)
            return
        if not top.is_mapping:
            top.items.append(node)
        elif top.key is not None:
            self._add_entry(top, top.key, node)
            top.key = None

    def _add_entry(self, top: _Open, key: _Key, node: Node) -> None:
        if key.is_invalid:
            return
        if not key.is_merge:
            top.entries[key.text] = node
            top.keys[key.text] = key.position
            return
        sources = tree.items_of(node) or (node,)
        if all(isinstance(source, Mapping) for source in sources):
            top.merged.extend(sources)
        else:
            self._report(key.position, "the merge key << requires a mapping or a list of mappings")

    def _key(self, node: Node, event: Any) -> _Key:
        position = Position(node.line, node.column)
        if event is not None:
            position = _position(event.start_mark)
        if isinstance(node, Scalar):
            is_plain = isinstance(event, yaml.ScalarEvent) and _is_plain(event)
            if node.value == "<<" and is_plain:
                return _Key("<<", position, is_merge=True)
            if node.value is not None:
                text = node.value if isinstance(node.value, str) else msgspec.json.encode(node.value).decode()
                return _Key(text, position, is_invalid=self._report_if_duplicate(text, position))
        if not isinstance(node, Invalid):
            self._report(position, "a key must be a string")
        return _Key("", position, is_invalid=True)

    def _report_if_duplicate(self, key: str, position: Position) -> bool:
        first = self.open[-1].keys.get(key)
        if first is None:
            return False
        self._report(
            position,
            f"duplicate key {diagnostics.quoted(key)}, already in line {first.line}: remove one of them",
            Rule.DUPLICATE_KEY,
        )
        return True

    def _scalar(self, event: Any) -> _Measured:
        measured = _Measured(self._scalar_value(event), 1, 0)
        if event.anchor is not None:
            self.anchors[event.anchor] = measured
        return measured

    def _scalar_value(self, event: Any) -> Node:
        position = _position(event.start_mark)
        if not event.value.isascii() and _SURROGATE.search(event.value):
            self._report(position, "found an unpaired surrogate, expected a complete character")
            return Invalid(position.line, position.column)
        if event.tag in _STRING_TAGS or (event.tag is None and not _is_plain(event)):
            return Scalar(event.value, position.line, position.column)
        value = scalars.resolve(event.value)
        if event.tag is not None and not _matches_tag(value, event.tag):
            self._report(position, _unknown_tag(event.tag, event.value))
            return Invalid(position.line, position.column)
        if isinstance(value, float) and not math.isfinite(value):
            self._report(
                position,
                f"found {event.value}, which JSON cannot represent: use a finite number, or quote it as a string",
            )
            return Invalid(position.line, position.column)
        return Scalar(value, position.line, position.column)

    def _count(self, values: int, event: Any) -> None:
        self.count += values
        if self.count > self.limit.values:
            raise ParseError(
                _position(event.start_mark),
                f"more than {self.limit.values} values, with aliases expanded: {self.limit.remedy}",
                self._path(),
            )

    def _report(self, position: Position, message: str, rule: Rule = Rule.NOT_JSON) -> None:
        if len(self.diagnostics) <= diagnostics.MAX_DIAGNOSTICS:
            self.diagnostics.append(diagnostics.error(position, self._path(), message, rule))

    def _path(self) -> str:
        path = ""
        for level in self.open:
            if level.key is not None:
                path = diagnostics.field(path, level.key.text)
            elif not level.is_mapping:
                path = diagnostics.item(path, len(level.items))
        return path


def position_of(event: Any) -> Position:
    return _position(event.start_mark)


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _is_plain(event: Any) -> bool:
    return bool(event.implicit[0])


def _matches_tag(value: scalars.Scalar, tag: str) -> bool:
    types = _TAGGED_TYPES.get(tag, ())
    is_unexpected_boolean = isinstance(value, bool) and bool not in types
    return isinstance(value, types) and not is_unexpected_boolean


def _unknown_tag(tag: str, value: str | None = None) -> str:
    short = "!!" + tag.removeprefix(_STANDARD_TAG) if tag.startswith(_STANDARD_TAG) else tag
    subject = f" before {diagnostics.quoted(value)}" if value is not None else ""
    return f"found the tag {diagnostics.truncate(short)}{subject}, which JSON cannot represent: remove it"


def _parse_error(error: yaml.YAMLError, text: str) -> ParseError:
    problem, context, mark, began = (
        getattr(error, field, None) for field in ("problem", "context", "problem_mark", "context_mark")
    )
    lines = text.splitlines() or [""]
    is_at_end = mark is None or mark.line >= len(lines)
    position = Position(len(lines), len(lines[-1]) + 1) if is_at_end else _position(mark)
    line = lines[position.line - 1]
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation and not looks_like_json(text):
        return ParseError(
            Position(position.line, indentation.index("\t") + 1),
            "found a tab in the indentation, which YAML does not allow: use spaces",
        )
    during = f"{context}, " if context else ""
    since = (
        f"started in line {began.line + 1}, " if began is not None and began.line + 1 < position.line else ""
    )
    return ParseError(position, f"invalid YAML: {during}{since}{problem or error}")
