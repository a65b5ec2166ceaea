"""Replaces what differs from run to run in a transcript.

Equal values stay equal: the n-th new UID of a transcript is `<uid-n>` wherever it occurs. Objects are traversed in the
order of their sorted keys, so that numbers do not depend on the order of fields in a response.
"""

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS: Final = re.compile(r"\b(127\.0\.0\.1|localhost)(:\d+)")
VERSIONS_IN_TEXT: Final = re.compile(
    r"(ResourceVersion in precondition: |ResourceVersion in object meta: |too old resource version: "
    r"|ResourceVersion in the precondition \(|ResourceVersion in record \()(\d+)( \(\d+\))?"
)
OBJECT_IN_TEXT: Final = re.compile(r'Invalid value: "\{\\"apiVersion(?:[^"\\]|\\.)*"')
REPEATED: Final = re.compile(r"(.)\1{79,}")
QUERIED: Final = re.compile(r"\b(resourceVersion|continue)=([^&]*)")
PORT_FIELDS: Final = frozenset({"nodePort", "healthCheckNodePort"})
ADDRESS_FIELDS: Final = frozenset({"clusterIP", "clusterIPs"})
IP: Final = re.compile(r"^\d+\.\d+\.\d+\.\d+$")


class Placeholders:
    """Placeholders, numbered in the order in which values first occur."""

    def __init__(self, unique: str) -> None:
        self._unique = unique
        self._known: dict[str, dict[str, str]] = {}

    def of(self, kind: str, value: str) -> str:
        known = self._known.setdefault(kind, {})
        return known.setdefault(value, f"<{kind}-{len(known) + 1}>")

    def seen(self, kind: str, value: str) -> str:
        """Return the placeholder of a known value, or of its type."""
        return self._known.get(kind, {}).get(value, f"<{kind}>")

    def knows(self, kind: str, value: str) -> bool:
        return value in self._known.get(kind, {})

    def in_text(self, text: str) -> str:
        text = text.replace(self._unique, "<unique>")
        for kind in ("generated", "ip"):
            for value, placeholder in self._known.get(kind, {}).items():
                text = text.replace(value, placeholder)
        text = UID.sub(lambda match: self.of("uid", match[0]), text)
        text = OBJECT_IN_TEXT.sub("Invalid value: <object>", text)
        text = REPEATED.sub(lambda match: f"<{len(match[0])} times {match[1]}>", text)
        text = TIME.sub("<time>", text)
        text = ADDRESS.sub("<address>", text)
        text = VERSIONS_IN_TEXT.sub(lambda match: f"{match[1]}{self.seen('version', match[2])}", text)
        return QUERIED.sub(self._queried, text)

    def _queried(self, match: re.Match[str]) -> str:
        value = urllib.parse.unquote(match[2])
        if match[1] == "continue":
            return f"continue={self.of('continue', value)}" if self.knows("continue", value) else match[0]
        return "resourceVersion=<version>" if _is_version(value) else match[0]


def normalise(document: Any, unique: str) -> Any:
    """Return the document with placeholders for everything that depends on the run."""
    names = Placeholders(unique)
    for mapping in _mappings(document):
        _learn(names, mapping)
    return _replaced(document, names)


def _mappings(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, Mapping):
        yield document
        for key in sorted(document):
            yield from _mappings(document[key])
    elif isinstance(document, list):
        for item in document:
            yield from _mappings(item)


def _learn(names: Placeholders, mapping: Mapping[str, Any]) -> None:
    prefix, name = mapping.get("generateName"), mapping.get("name")
    if prefix and name and str(name).startswith(str(prefix)) and name != prefix:
        names.of("generated", str(name).removeprefix(str(prefix)))
    if _is_of_one_object(mapping) and mapping.get("resourceVersion"):
        names.of("version", str(mapping["resourceVersion"]))
    if token := mapping.get("continue"):
        names.of("continue", str(token))
    for field in ADDRESS_FIELDS & mapping.keys():
        for value in mapping[field] if isinstance(mapping[field], list) else [mapping[field]]:
            if IP.match(str(value)):
                names.of("ip", str(value))


def _is_of_one_object(mapping: Mapping[str, Any]) -> bool:
    """Return whether this is the version of a list or bookmark, which changes with every write to the store."""
    return bool({"name", "uid", "path"} & mapping.keys())


def _is_version(value: Any) -> bool:
    return str(value).isdigit() and value != "0"


def _replaced(value: Any, names: Placeholders) -> Any:
    if isinstance(value, Mapping):
        return {names.in_text(key): _field(key, value[key], value, names) for key in sorted(value)}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    return names.in_text(value) if isinstance(value, str) else value


def _field(key: str, value: Any, parent: Mapping[str, Any], names: Placeholders) -> Any:
    is_version = key == "resourceVersion" or str(parent.get("path", "")).endswith("/resourceVersion")
    if is_version and _is_version(value):
        return names.seen("version", str(value)) if _is_of_one_object(parent) else "<version>"
    if key == "continue" and value:
        return names.of("continue", str(value))
    if key in PORT_FIELDS and isinstance(value, int) and value > 0:
        return "<port>"
    return _replaced(value, names)
