"""Diagnostics of files: position, message, rule and fix. The checks are elsewhere.

A check is a generator of diagnostics with an empty `file`, because it gets only the parsed tree. `collect` fills in the
file, and stops the generator after `MAX_DIAGNOSTICS`.
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

_MAX_QUOTE_LENGTH = 60
_MAX_LISTED = 12
_MIN_SIMILARITY, _MIN_MARGIN = 0.8, 0.1
"""A misspelt name is replaced automatically by a known name that is at least this similar or has the same letters, and
that is more similar than every other known name by at least this margin."""
_MAX_MESSAGE_LENGTH = 1000
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Severity(StrEnum):
    ERROR = "error"
    """The file cannot be used."""
    WARNING = "warning"
    """The file can be used, but probably does not do what its author meant."""


class Rule(StrEnum):
    """The rules of `windlass lint`. Their names are part of its JSON output."""

    UNREADABLE = "unreadable"
    """Not YAML, not text, too large, or nested too deeply."""
    EMPTY_FILE = "empty-file"
    TOO_MANY_FAULTS = "too-many-faults"
    DUPLICATE_KEY = "duplicate-key"
    NOT_JSON = "not-json"
    """YAML that JSON cannot represent, e.g. tags, NaN, and null or a list as a key."""
    OTHER_KIND = "other-kind"
    """An object of another kind than expected."""

    MISSPELT_FIELD = "misspelt-field"
    """An unknown field whose name is similar to a known one. It would be ignored."""
    UNKNOWN_FIELD = "unknown-field"
    MISSING_FIELD = "missing-field"
    WRONG_VALUE = "wrong-value"
    """A value of the wrong type, outside the limits, or not among the choices."""

    DUPLICATE_NAME = "duplicate-name"
    DUPLICATE_PORT = "duplicate-port"
    LONG_POD_NAME = "long-pod-name"
    UNKNOWN_VOLUME = "unknown-volume"
    UNDECLARED_PORT = "undeclared-port"
    """A command uses a port that no container declares."""
    NO_COMMAND = "no-command"
    """A TensorFlow container has no command, and the file does not state whether to run an idle server or the
    entrypoint of its image."""
    NO_PORT = "no-port"
    """Tasks connect to a task that declares no port."""
    OTHER_FRAMEWORK = "other-framework"
    """A command refers to a Framework with another name."""

    NEVER_EXITS = "never-exits"
    """The job waits for tasks that never exit, or no role ends by itself."""
    MIN_FAILED_TOO_LARGE = "min-failed-too-large"
    MIN_SUCCEEDED_TOO_LARGE = "min-succeeded-too-large"
    NO_TASKS = "no-tasks"
    """No role has tasks, or none of the roles that decide the result has tasks."""
    ENDLESS_RETRY = "endless-retry"
    UNKNOWN_ROLE = "unknown-role"
    """A completion policy or a start condition names a role that does not exist."""
    START_DEADLOCK = "start-deadlock"
    """Tasks wait for each other to start, or for a barrier, and none can start."""
    NEVER_MET = "never-met"
    """A rule of completionPolicies that no result can meet."""
    HOST_PATH = "host-path"
    """Tasks share a host path, which differs between nodes."""

    MISSING_FILE = "missing-file"
    """A file or folder of this machine that does not exist or cannot be sent."""
    CONVERSION = "conversion"
    """A field of a job of another system, e.g. a TFJob, that has no effect or cannot be converted."""
    DOUBTFUL = "doubtful"
    """Another probable mistake."""


class Remedy(StrEnum):
    """The change of a key or value at the position of a diagnostic."""

    RENAME = "rename"
    REPLACE = "replace"
    QUOTE = "quote"
    UNQUOTE = "unquote"


class Fix(msgspec.Struct, frozen=True):
    """The only possible fix of a diagnostic. `lint.fixes` applies it."""

    remedy: Remedy
    becomes: str = ""
    """The new key or value; empty for `QUOTE`."""


class Located(Protocol):
    """Anything with a position in a file."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class Diagnostic(msgspec.Struct, frozen=True):
    severity: Severity
    file: str
    line: int
    """Starting at 1."""
    column: int
    path: str
    """The field, e.g. `spec.taskRoles[0].name`; empty for the whole document."""
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
    """A file cannot be used because of its diagnostics."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = tuple(diagnostics)


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


def missing_field(at: Located, path: str, name: str, description: str = "") -> Diagnostic:
    """Return the error about a missing field of the object at `path`. The description follows the field's name."""
    return error(at, path, f'missing required field "{name}"{description}', Rule.MISSING_FIELD)


def collect(found: Iterable[Diagnostic], file: str) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a file, sorted by position. A value that YAML aliases repeat is reported once."""
    once: dict[tuple[int, int, str], Diagnostic] = {}
    for diagnostic in _at_most(found, MAX_DIAGNOSTICS):
        once.setdefault((diagnostic.line, diagnostic.column, diagnostic.message), diagnostic.with_file(file))
    return tuple(sorted(once.values(), key=lambda diagnostic: (diagnostic.line, diagnostic.column)))


def _at_most(found: Iterable[Diagnostic], most: int) -> Iterator[Diagnostic]:
    remaining = iter(found)
    last = None
    for last in islice(remaining, most):
        yield last
    if last is not None and next(remaining, None) is not None:
        message = f"more than {most} problems; the rest of the file was not checked"
        yield error(last, "", message, Rule.TOO_MANY_FAULTS)


def field(path: str, *keys: str) -> str:
    """Return the path of a field below `path`."""
    for key in keys:
        if not _PLAIN_KEY.fullmatch(key):
            path = f"{path}[{quoted(key)}]"
        else:
            path = f"{path}.{truncate(key)}" if path else truncate(key)
    return path


def item(path: str, index: int) -> str:
    """Return the path of an item of the list at `path`."""
    return f"{path}[{index}]"


def truncate(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE_LENGTH else text[: _MAX_QUOTE_LENGTH - 1] + "…"


def quoted(value: Any) -> str:
    """Return a value for a message, truncated."""
    return (
        f'"{_one_line(truncate(value))}"'
        if isinstance(value, str)
        else truncate(msgspec.json.encode(value).decode())
    )


def _one_line(text: str) -> str:
    """Escape line breaks and control characters, and truncate."""
    text = text if len(text) <= _MAX_MESSAGE_LENGTH else text[: _MAX_MESSAGE_LENGTH - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


@functools.lru_cache(maxsize=4096)
def nearest(name: str, known: tuple[str, ...]) -> str | None:
    """Return the most similar known name, or None if none is similar enough."""
    if len(name) > _MAX_QUOTE_LENGTH:
        return None
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.65)
    return by_lower_case[close[0]] if close else None


def unknown_field_rule(name: str, known: tuple[str, ...]) -> Rule:
    return Rule.MISSPELT_FIELD if nearest(name, known) is not None else Rule.UNKNOWN_FIELD


def rename_fix(name: str, known: tuple[str, ...], present: Container[str]) -> Fix | None:
    """Return the fix of a misspelt field, if only one known name is similar and no field of that name is present."""
    meant = _unambiguous_match(name, known)
    return Fix(Remedy.RENAME, meant) if meant is not None and meant not in present else None


@functools.lru_cache(maxsize=4096)
def _unambiguous_match(name: str, known: tuple[str, ...]) -> str | None:
    if nearest(name, known) is None:
        return None
    (best, meant), *others = sorted(((_similarity(name, each), each) for each in known), reverse=True)
    has_the_same_letters = sorted(name.lower()) == sorted(meant.lower())
    is_near = best >= _MIN_SIMILARITY or has_the_same_letters
    return meant if is_near and all(best - other >= _MIN_MARGIN for other, _ in others[:1]) else None


def _similarity(name: str, other: str) -> float:
    """Return a ratio from 0 to 1, ignoring case."""
    return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return a sentence with the most similar name. Without a similar name, list all names if there are few."""
    suggestion = nearest(name, known)
    if suggestion is not None:
        return f"Did you mean {quoted(suggestion)}?"
    if len(known) > _MAX_LISTED:
        return "No similar name is known."
    return f"Known names: {', '.join(map(truncate, known))}."
