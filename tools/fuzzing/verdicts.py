"""Find what is wrong with a response."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from fuzzing.surface import Place, Surface
from fuzzing.wire import Answer, Request

_STREAMED = ("attach", "exec", "log", "portforward")
LONGEST_TARGET = 8000
"""A longer request line is rejected by HTTP libraries in plain text."""

_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
_ENVELOPES = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Refusal(msgspec.Struct, frozen=True):
    """An expected 5xx response: a real API server gives it too, or it is documented."""

    code: int
    applies: Callable[[Request, dict[str, Any]], bool]


def _is_of_a_stream(request: Request, _: dict[str, Any]) -> bool:
    return request.path.rpartition("/")[2] in _STREAMED


EXPECTED_REFUSALS = (
    # No runtime, or no such container.
    Refusal(501, _is_of_a_stream),
    Refusal(503, _is_of_a_stream),
    Refusal(
        500, lambda request, status: _is_of_a_stream(request, status) and "container" in status["message"]
    ),
    # A version that no write has reached yet.
    Refusal(504, lambda _, status: status.get("reason") == "Timeout"),
    # Kubernetes gives no reason for a new object with a version, and for many strategic merge patches.
    Refusal(
        500, lambda _, status: "reason" not in status and status["message"].startswith("resourceVersion ")
    ),
    Refusal(500, lambda request, status: "reason" not in status and _is_strategic(request)),
)


def _is_strategic(request: Request) -> bool:
    return any("strategic-merge-patch" in value for _, value in request.headers)


def faults(request: Request, answer: Answer, surface: Surface) -> Iterator[str]:
    """Yield each fault as one line, equal for equal faults of the server whatever the request."""
    if answer.code >= 400:
        yield from _faults_of_a_refusal(request, answer)
        return
    place = surface.place_of(request.path)
    if place is None or answer.code == 101 or request.method == "HEAD":
        return
    if place.subresource in _STREAMED:
        return
    if request.may_stream and not place.name and answer.body[:8] in (b"", b'{"type":'):
        yield from _faults_of_a_stream(answer, place)
        return
    body = parsed(answer)
    if not isinstance(body, dict):
        yield f"{answer.code} with a body that is not an object, of type {answer.media_type!r}"
        return
    expected = _kinds(request, place)
    if body.get("kind") not in expected:
        yield f"{answer.code} with the kind {body.get('kind')!r}, expected {' or '.join(sorted(expected))}"


def parsed(answer: Answer) -> Any:
    """Return the decoded body; None if it does not match its media type."""
    try:
        if answer.media_type == "application/yaml":
            return yaml.safe_load(answer.body)
        return _load(answer.body) if answer.media_type == "application/json" else None
    except (ValueError, yaml.YAMLError):
        return None


def _load(text: bytes) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _faults_of_a_refusal(request: Request, answer: Answer) -> Iterator[str]:
    if request.method == "HEAD":
        if answer.code >= 500:
            yield f"{answer.code} to HEAD"
        return
    if answer.code == 400 and len(request.target) > LONGEST_TARGET:
        return
    status = parsed(answer)
    if not isinstance(status, dict) or (status.get("kind"), status.get("apiVersion")) != ("Status", "v1"):
        yield f"{answer.code} without a Status, of the type {answer.media_type!r}"
        return
    if status.get("code") != answer.code:
        yield f"{answer.code} with a Status of the code {status.get('code')!r}"
    if status.get("status") != "Failure" or not isinstance(status.get("message"), str):
        yield f"{answer.code} with a Status without reason and message"
        return
    is_expected = any(
        refusal.code == answer.code and refusal.applies(request, status) for refusal in EXPECTED_REFUSALS
    )
    if answer.code >= 500 and not is_expected:
        yield f"{answer.code} {status.get('reason', '')}: {status['message']}"


def _faults_of_a_stream(answer: Answer, place: Place) -> Iterator[str]:
    last = 0
    for line in answer.body.splitlines():
        try:
            event = _load(line)
        except ValueError:
            yield "a watch with a line that is not JSON"
            return
        if not isinstance(event, dict) or event.get("type") not in _EVENTS:
            yield "a watch with a line that is not an event"
            return
        shown = event.get("object") or {}
        if event["type"] == "ERROR":
            if shown.get("kind") != "Status":
                yield "a watch with an ERROR that is not a Status"
            return
        if shown.get("kind") not in {place.resource.kind, *_ENVELOPES}:
            yield f"a watch of {place.resource.kind} with the kind {shown.get('kind')!r}"
        version = _version_of(shown)
        is_change = event["type"] in ("MODIFIED", "DELETED")
        if version is not None and is_change and version <= last:
            yield f"a watch with {event['type']} at a version that is not above the last"
        if version is not None:
            last = max(last, version)


def _version_of(shown: dict[str, Any]) -> int | None:
    version = (shown.get("metadata") or {}).get("resourceVersion")
    return int(version) if isinstance(version, str) and version.isdecimal() else None


def _kinds(request: Request, place: Place) -> set[str]:
    kind = place.resource.kind
    if place.subresource == "scale":
        return {"Scale"}
    if place.subresource in ("binding", "eviction"):
        return {"Status"}
    if place.subresource == "token":
        return {"TokenRequest"}
    expected = {kind} if place.name or request.method == "POST" else {f"{kind}List"}
    if request.method == "DELETE":
        expected.add("Status")
    accept = "".join(value for name, value in request.headers if name == "Accept")
    return expected | {envelope for envelope in _ENVELOPES if envelope.removesuffix("List") in accept}
