"""What is wrong with a file, said so that a person can put it right. No checks live here.

A check is a generator of faults that leaves `file` empty, since it sees a tree and not a file; whoever read the
file fills it in. Being generators, checks stop when enough has been said: see `collect`.
"""

import difflib
import functools
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Protocol

import msgspec

MAX_DIAGNOSTICS = 1000
"""A file with more than this is broken as a whole; looking for the rest would only take time."""

_MAX_QUOTE_LENGTH = 60
_CERTAIN, _CLEARLY_LESS = 0.8, 0.1
"""How alike two names are when one stands for the other, and by how much less every third one must be."""
_MAX_MESSAGE_LENGTH = 1000
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Severity(StrEnum):
    ERROR = "error"
    """The file cannot be used."""
    WARNING = "warning"
    """The file can be used, and probably does not do what its author meant."""


class Rule(StrEnum):
    """The kinds of diagnostic. They are an interface: programs that read `windlass lint --output json` know them."""

    UNREADABLE = "unreadable"
    """No YAML, or not text at all."""
    EMPTY_FILE = "empty-file"
    TOO_MANY_FAULTS = "too-many-faults"
    DUPLICATE_KEY = "duplicate-key"
    NOT_JSON = "not-json"
    """YAML that Kubernetes has no way to keep: tags, NaN, keys that are no strings."""
    OTHER_KIND = "other-kind"
    """An object of another kind than expected."""

    MISSPELT_FIELD = "misspelt-field"
    """A field that is dropped, and whose name is close to one that is known."""
    UNKNOWN_FIELD = "unknown-field"
    MISSING_FIELD = "missing-field"
    WRONG_VALUE = "wrong-value"
    """Of the wrong type, beyond its limits, or none of those that are known."""

    DUPLICATE_NAME = "duplicate-name"
    DUPLICATE_PORT = "duplicate-port"
    LONG_POD_NAME = "long-pod-name"
    UNKNOWN_VOLUME = "unknown-volume"
    UNDECLARED_PORT = "undeclared-port"
    """A command speaks of a port that no container declares."""
    NO_PORT = "no-port"
    """Others are told where a task is, and the task does not say at which port."""
    OTHER_FRAMEWORK = "other-framework"
    """A command speaks of a Framework of another name."""

    NEVER_EXITS = "never-exits"
    """The job ends when a role has, and that role never does."""
    MIN_FAILED_TOO_LARGE = "min-failed-too-large"
    MIN_SUCCEEDED_TOO_LARGE = "min-succeeded-too-large"
    NO_TASKS = "no-tasks"
    """Nothing runs, or nothing of what decides the job."""
    ENDLESS_RETRY = "endless-retry"
    HOST_PATH = "host-path"
    """Tasks that should see the same folder, on nodes of which each has its own."""

    DOUBTFUL = "doubtful"
    """Something else that can be used, and is probably not what was meant."""


class Remedy(StrEnum):
    """What is done to the key or value at which a diagnostic stands."""

    RENAME = "rename"
    """The key becomes another one."""
    REPLACE = "replace"
    """The value becomes another one."""
    QUOTE = "quote"
    """The value is text, and what stands there is put in quotes."""
    UNQUOTE = "unquote"
    """The value is a number, and its quotes go."""


class Fix(msgspec.Struct, frozen=True):
    """How a diagnostic is put right where there is only one way to do it. How a file is edited is in `fixes`."""

    remedy: Remedy
    becomes: str = ""
    """The key or the value; empty where what stands there is kept, in quotes."""


class Located(Protocol):
    """Whatever stands at a place of a file."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class Diagnostic(msgspec.Struct, frozen=True):
    severity: Severity
    file: str
    line: int
    """From 1, as editors count."""
    column: int
    path: str
    """Where in the document, such as `spec.taskRoles[0].name`; empty where there is no document yet."""
    message: str
    rule: Rule = Rule.WRONG_VALUE
    fix: Fix | None = None

    def __str__(self) -> str:
        subject = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {subject}{self.message}"

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def with_file(self, file: str) -> "Diagnostic":
        return msgspec.structs.replace(self, file=file)

    def with_severity(self, severity: Severity) -> "Diagnostic":
        return msgspec.structs.replace(self, severity=severity)


class InvalidFileError(ValueError):
    """A file that cannot be used, with everything that is wrong with it."""

    def __init__(self, faults: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(str(diagnostic) for diagnostic in faults))
        self.diagnostics = tuple(faults)


def error(
    at: Located, path: str, message: str, rule: Rule = Rule.WRONG_VALUE, fix: Fix | None = None
) -> Diagnostic:
    return Diagnostic(Severity.ERROR, "", at.line, at.column, _one_line(path), _one_line(message), rule, fix)


def warning(
    at: Located, path: str, message: str, rule: Rule = Rule.DOUBTFUL, fix: Fix | None = None
) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING, "", at.line, at.column, _one_line(path), _one_line(message), rule, fix
    )


def collect(found: Iterable[Diagnostic], file: str) -> tuple[Diagnostic, ...]:
    """The faults of a file in the order of its lines, each said once however often an alias repeats its place."""
    once: dict[tuple[int, int, str], Diagnostic] = {}
    for diagnostic in _at_most(found, MAX_DIAGNOSTICS):
        once.setdefault((diagnostic.line, diagnostic.column, diagnostic.message), diagnostic.with_file(file))
    return tuple(sorted(once.values(), key=lambda diagnostic: (diagnostic.line, diagnostic.column)))


def _at_most(found: Iterable[Diagnostic], most: int) -> Iterator[Diagnostic]:
    faults = iter(found)
    last = None
    for last in islice(faults, most):
        yield last
    if last is not None and next(faults, None) is not None:
        message = f"there are more than {most} faults; the rest of the file was not checked"
        yield error(last, "", message, Rule.TOO_MANY_FAULTS)


def field(path: str, key: str) -> str:
    """The path of a mapping's entry."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{quoted(key)}]"
    return f"{path}.{truncate(key)}" if path else truncate(key)


def item(path: str, index: int) -> str:
    """The path of a list's item."""
    return f"{path}[{index}]"


def truncate(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE_LENGTH else text[: _MAX_QUOTE_LENGTH - 1] + "…"


def quoted(value: Any) -> str:
    """A value as a message shows it: not longer than a line."""
    return (
        f'"{_one_line(truncate(value))}"'
        if isinstance(value, str)
        else truncate(msgspec.json.encode(value).decode())
    )


def _one_line(text: str) -> str:
    """Whatever a file holds, a message about it is one line that a terminal can show."""
    text = text if len(text) <= _MAX_MESSAGE_LENGTH else text[: _MAX_MESSAGE_LENGTH - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


@functools.lru_cache(maxsize=4096)
def nearest(name: str, known: tuple[str, ...]) -> str | None:
    """The known name that somebody who wrote this one probably meant."""
    if len(name) > _MAX_QUOTE_LENGTH:
        return None
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.65)
    return by_lower_case[close[0]] if close else None


def rule_for(name: str, known: tuple[str, ...]) -> Rule:
    """Of a field that is not among the known ones."""
    return Rule.MISSPELT_FIELD if nearest(name, known) is not None else Rule.UNKNOWN_FIELD


def rename_fix(name: str, known: tuple[str, ...], present: Container[str]) -> Fix | None:
    """The field that was certainly meant, if there is one: nothing else comes near it, and it is not there already."""
    meant = _certainly(name, known)
    return Fix(Remedy.RENAME, meant) if meant is not None and meant not in present else None


@functools.lru_cache(maxsize=4096)
def _certainly(name: str, known: tuple[str, ...]) -> str | None:
    if nearest(name, known) is None:
        return None
    (best, meant), *others = sorted(((_similarity(name, each), each) for each in known), reverse=True)
    has_the_same_letters = sorted(name.lower()) == sorted(meant.lower())
    is_near = best >= _CERTAIN or has_the_same_letters
    return meant if is_near and all(best - other >= _CLEARLY_LESS for other, _ in others[:1]) else None


def _similarity(name: str, other: str) -> float:
    """From 0 to 1; upper and lower case make no difference."""
    return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """A sentence with the nearest name, or with all of them where they are few and none is near."""
    suggestion = nearest(name, known)
    if suggestion is not None:
        return f"Did you mean {quoted(suggestion)}?"
    return (
        f"Known here: {', '.join(truncate(name) for name in known)}."
        if len(known) <= 12
        else "No field of a similar name exists here."
    )
