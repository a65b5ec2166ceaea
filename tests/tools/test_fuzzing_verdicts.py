"""Answers that the fuzzer reports as faults of the server."""

import json
from typing import Any

import pytest

from fuzzing import verdicts
from fuzzing.surface import Resource, Surface
from fuzzing.wire import Answer, Request

PODS = Resource("", "v1", "pods", "Pod", True, ("get", "list"), ("exec", "log", "status"))
SURFACE = Surface((PODS,))
LIST = "/api/v1/namespaces/default/pods"
TABLE = (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),)
STRATEGIC = (("Content-Type", "application/strategic-merge-patch+json"),)


def status(code: int, **fields: Any) -> dict[str, Any]:
    failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "R"}
    return failure | {"code": code} | fields


def status_without_reason(code: int) -> dict[str, Any]:
    return {key: value for key, value in status(code).items() if key != "reason"}


def answer(code: int, body: Any, media_type: str = "application/json") -> Answer:
    return Answer(code, {"content-type": media_type}, json.dumps(body).encode())


def event(event_type: str, version: int, kind: str = "Pod") -> dict[str, Any]:
    return {"type": event_type, "object": {"kind": kind, "metadata": {"resourceVersion": str(version)}}}


def stream(*events: Any) -> Answer:
    body = b"".join(json.dumps(one).encode() + b"\n" for one in events)
    return Answer(200, {"content-type": "application/json"}, body)


WATCH = Request("GET", f"{LIST}?watch=true&timeoutSeconds=1")


@pytest.mark.parametrize(
    ("sent", "given"),
    [
        (Request("GET", LIST), answer(200, {"kind": "PodList"})),
        (Request("GET", "/api/v1/pods"), answer(200, {"kind": "PodList"})),
        (Request("GET", LIST, TABLE), answer(200, {"kind": "Table"})),
        (Request("GET", f"{LIST}/a"), answer(200, {"kind": "Pod"})),
        (Request("DELETE", f"{LIST}/a"), answer(200, {"kind": "Status"})),
        (Request("POST", f"{LIST}/a/token"), answer(201, {"kind": "TokenRequest"})),
        (Request("GET", f"{LIST}/a"), answer(404, status(404))),
        (Request("GET", f"{LIST}/a/exec"), answer(503, status(503))),
        (Request("GET", LIST), answer(504, status(504, reason="Timeout"))),
        (Request("PATCH", f"{LIST}/a", STRATEGIC), answer(500, status_without_reason(500))),
        (Request("GET", "/version"), answer(200, {"major": "1"})),
        (WATCH, stream(event("ADDED", 5), event("ADDED", 3), event("MODIFIED", 6), event("DELETED", 7))),
        (WATCH, stream({"type": "ERROR", "object": {"kind": "Status", "code": 410}})),
        (WATCH, stream()),
    ],
)
def test_valid_answer_is_not_a_fault(sent: Request, given: Answer) -> None:
    assert list(verdicts.faults(sent, given, SURFACE)) == []


@pytest.mark.parametrize(
    ("sent", "given", "fault"),
    [
        (Request("GET", LIST), answer(500, status(500)), "500 R: no"),
        (Request("GET", LIST), answer(503, status(503)), "503 R: no"),
        (Request("GET", LIST), answer(404, status(404), "text/plain"), "404 without a Status"),
        (Request("GET", LIST), answer(404, status(400)), "404 with a Status of the code 400"),
        (Request("GET", LIST), answer(404, {"kind": "Pod"}), "404 without a Status"),
        (
            Request("GET", LIST),
            answer(404, status(404, message=None)),
            "404 with a Status without reason and message",
        ),
        (Request("GET", LIST), answer(200, {"kind": "Pod"}), "200 with the kind 'Pod', expected PodList"),
        (Request("POST", LIST), answer(201, {"kind": "PodList"}), "201 with the kind 'PodList'"),
        (Request("GET", f"{LIST}/a"), answer(200, [1]), "a body that is not an object"),
        (Request("GET", f"{LIST}/a"), answer(200, float("nan")), "a body that is not an object"),
        (WATCH, stream(event("MODIFIED", 6), event("MODIFIED", 6)), "not above the last"),
        (WATCH, stream(event("ADDED", 6), event("DELETED", 5)), "not above the last"),
        (WATCH, stream(event("ADDED", 6, kind="Node")), "a watch of Pod with the kind 'Node'"),
        (WATCH, stream({"type": "CHANGED", "object": {}}), "a line that is not an event"),
        (WATCH, stream({"type": "ERROR", "object": {"kind": "Pod"}}), "an ERROR that is not a Status"),
    ],
)
def test_invalid_answer_is_a_fault(sent: Request, given: Answer, fault: str) -> None:
    found = list(verdicts.faults(sent, given, SURFACE))
    assert len(found) == 1
    assert fault in found[0]
