"""Requests and responses of a test as a golden file.

After a test with the `api` fixture has passed, its transcript is compared with that of the same test on a real
Kubernetes. `WINDLASS_REGENERATE=1` rewrites the transcripts, on a real server only. Review the difference.
"""

import difflib
import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest

from conformance import known_differences, normalise
from conformance.client import Access, Client, Exchange, Json, Listener

WIDTH: Final = 110
LONGEST_TEXT: Final = 300
ORDER: Final = ("note", "value", "request", "headers", "sent", "code", "type", "answer", "events")


class Recorder(Listener):
    def __init__(self) -> None:
        self._exchanges: list[Exchange | Mapping[str, Json]] = []

    def record(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def note(self, what: str, value: Json) -> None:
        self._exchanges.append({"note": what, "value": value})

    def transcript(self, unique: str) -> list[Json]:
        entries = [
            _entry(exchange) if isinstance(exchange, Exchange) else exchange for exchange in self._exchanges
        ]
        kept = known_differences.without_ignored(entries)
        normalised: list[Json] = normalise.normalise(kept, unique)
        return normalised


class RecordingClient(Client):
    """The client of one test. `unrecorded` is a client without a recorder, for waiting and for setup."""

    def __init__(self, access: Access, unrecorded: Client) -> None:
        self.recorder = Recorder()
        super().__init__(access, self.recorder)
        self.unrecorded = unrecorded

    def note(self, what: str, value: Json) -> None:
        """Record a part of a response that is too long or too variable to be recorded as a whole."""
        self.recorder.note(what, value)


def _entry(exchange: Exchange) -> Json:
    entry: dict[str, Json] = {"request": f"{exchange.method} {exchange.target}"}
    if exchange.headers:
        entry["headers"] = dict(exchange.headers)
    if exchange.sent is not None:
        entry["sent"] = _text(exchange.sent) if isinstance(exchange.sent, bytes) else exchange.sent
    if exchange.answer is not None:
        entry["code"] = exchange.answer.code
        if exchange.answer.type != "application/json":
            entry["type"] = exchange.answer.type
        if exchange.events is None or exchange.answer.raw:
            body = exchange.answer.body
            entry["answer"] = body if body is not None else _text(exchange.answer.raw)
    if exchange.events is not None:
        entry["events"] = exchange.events
    return entry


def _text(raw: bytes) -> str | list[str]:
    text = raw.decode(errors="replace")
    if len(text) > LONGEST_TEXT * 10:
        return f"{text[:LONGEST_TEXT]}… ({len(raw)} bytes)"
    return text.splitlines() if "\n" in text else text


def compare(file: Path, transcript: list[Json]) -> None:
    assert file.exists(), (
        f"there is no transcript of a real server at {file}: make one with WINDLASS_REGENERATE=1"
    )
    text = file.read_text(encoding="utf-8")
    expected = known_differences.without_ignored(json.loads(text))
    found = [
        known_differences.with_accepted_differences(theirs, ours)
        for theirs, ours in zip_longest(expected, transcript)
        if ours
    ]
    if expected == found:
        return
    difference = difflib.unified_diff(
        text.splitlines(),
        dump(found).splitlines(),
        f"{file.name} of a real server",
        "this server",
        lineterm="",
        n=4,
    )
    pytest.fail("the transcript is not that of a real server\n" + "\n".join(difference), pytrace=False)


def dump(transcript: list[Json]) -> str:
    ordered = [{key: entry[key] for key in ORDER if key in entry} for entry in transcript]
    return _dump(ordered, 0, 0) + "\n"


def _dump(value: Any, indent: int, used: int) -> str:
    """Return JSON in which everything that fits on a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + used + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, list):
        inner = [pad + _dump(item, indent + 1, 1) for item in value]
        return "[\n" + ",\n".join(inner) + f"\n{end}]"
    inner = [
        f"{pad}{json.dumps(key, ensure_ascii=False)}: {_dump(value[key], indent + 1, len(key) + 5)}"
        for key in value
    ]
    return "{\n" + ",\n".join(inner) + f"\n{end}}}"
