"""Which error an answer becomes, and what of it is kept."""

import json

import pytest
from tests.kubeapi.scripted import status_body

from windlass.kubeapi import errors
from windlass.model.failures import ApiFailure


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.ResponseError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (410, "Expired", errors.ExpiredError),
        (410, "Gone", errors.ExpiredError),
        (413, "RequestEntityTooLarge", errors.ResponseError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_status_becomes_the_error_of_its_code(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    error = errors.from_response(code, {}, json.dumps(status_body(code, reason)).encode())
    assert type(error) is kind
    assert error.failure == ApiFailure(code, reason, f"it is {reason}")
    assert str(error) == f"{code} {reason}: it is {reason}"
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("code", "body", "kind", "message"),
    [
        (502, b"<html>\n<h1>Bad  Gateway</h1>", errors.ServerError, "<html> <h1>Bad Gateway</h1>"),
        (404, b"404 page not found\n", errors.NotFoundError, "404 page not found"),
        (403, b'{"kind": "Pod"}', errors.ForbiddenError, '{"kind": "Pod"}'),
        (500, b"\xff\xfe", errors.ServerError, "��"),
        (500, b"x" * 1000, errors.ServerError, "x" * 300 + "…"),
    ],
)
def test_foreign_response_is_shown(code: int, body: bytes, kind: type[errors.ApiError], message: str) -> None:
    error = errors.from_response(code, {}, body)
    assert type(error) is kind
    assert error.failure == ApiFailure(code, "", f"the response is not a Kubernetes Status: {message}")


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        (
            [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}],
            errors.NamespaceTerminatingError,
        ),
        ([{"reason": "FieldValueInvalid"}], errors.ForbiddenError),
        (None, errors.ForbiddenError),
    ],
)
def test_terminating_namespace_is_recognised_by_the_cause(
    causes: list[dict[str, str]] | None, kind: type[errors.ApiError]
) -> None:
    body = {**status_body(403, "Forbidden"), "details": {"name": "x", "causes": causes}}
    assert type(errors.from_response(403, {}, json.dumps(body).encode())) is kind


def test_empty_response_is_reported() -> None:
    assert str(errors.from_response(503, {}, b"")) == "503: the response is empty"


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({}, {}, None),
        ({"Retry-After": "7"}, {}, 7.0),
        ({"Retry-After": "0"}, {}, 0.0),
        ({"Retry-After": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({"Retry-After": "-1"}, {}, None),
        ({"Retry-After": "²"}, {}, None),
    ],
)
def test_retry_after_is_decoded(
    headers: dict[str, str], details: dict[str, int], seconds: float | None
) -> None:
    body = json.dumps(status_body(429, "TooManyRequests", **details)).encode()
    assert errors.from_response(429, headers, body).retry_after == seconds


def test_error_event_becomes_the_error_of_its_status() -> None:
    error = errors.from_status(json.dumps(status_body(410, "Expired")).encode())
    assert isinstance(error, errors.ExpiredError)
    assert errors.from_status(b'{"kind": "Pod"}') is None
