"""Errors of requests, and how they are decoded from responses."""

from collections.abc import Mapping

import msgspec

from windlass.k8s.protobuf import views
from windlass.k8s.protobuf.messages import MAGIC
from windlass.model.failures import ApiFailure

MAX_SHOWN_BYTES = 300
"""Limit for the part of an invalid response that a message shows."""


class AccessError(Exception):
    """The address or the credentials of the API server cannot be determined. The message names the source."""


class ApiError(Exception):
    """A request failed."""


class NoValidResponseError(ApiError):
    """A timeout, a closed connection, or an invalid response. Unless it is a NotSentError, the request may have been
    processed or not."""


class NotSentError(NoValidResponseError):
    """The request was not sent, e.g. because the server cannot be reached or the timeout passed first."""


class NotTrustedError(NotSentError):
    """The certificate of the server is not trusted."""


class NotKubernetesError(NoValidResponseError):
    """The response is not from a Kubernetes API server."""


class ResponseError(ApiError):
    """The server answered with an error."""

    def __init__(self, failure: ApiFailure, retry_after: float | None = None) -> None:
        reason = f" {failure.reason}" if failure.reason else ""
        super().__init__(f"{failure.code}{reason}: {failure.message}")
        self.failure = failure
        self.retry_after = retry_after
        """Seconds until a retry, as requested by the server."""


class NotFoundError(ResponseError):
    """The object, its namespace or its kind does not exist."""


class ConflictError(ResponseError):
    """The object was changed since it was read, or a precondition does not hold."""


class AlreadyExistsError(ResponseError):
    """An object of this name exists."""


class ExpiredError(ResponseError):
    """The requested resourceVersion or continue token has expired."""


class InvalidError(ResponseError):
    """The object or the patch is not valid."""


class ForbiddenError(ResponseError):
    """The user has no permission, or an admission plugin rejects the request, e.g. because of a quota."""


class NamespaceTerminatingError(ForbiddenError):
    """An object cannot be created because its namespace is being deleted.

    The server may report this shortly after a deleted namespace was created again, since it reads namespaces from a
    cache.
    """


class UnauthorizedError(ResponseError):
    """The credentials are missing or not accepted."""


class TooManyRequestsError(ResponseError):
    """The server is overloaded, or an eviction would violate a PodDisruptionBudget."""


class ServerError(ResponseError):
    """Any 5xx. The request may have been processed or not."""


_BY_CODE: Mapping[int, type[ResponseError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int = 0
    causes: tuple[_Cause, ...] | None = None


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_decoder = msgspec.json.Decoder(_Status)
_protobuf_decoder = views.Decoder(_Status, "v1", "Status")


def from_response(code: int, headers: Mapping[str, str], body: bytes) -> ResponseError:
    """Return the error for a response that is not a 2xx. Header names have their usual case, e.g. `Retry-After`."""
    status, retry_after = _status_of(body), _retry_after(headers)
    failure = ApiFailure(code, "", _describe_body(body))
    if status is not None:
        failure = ApiFailure(code, status.reason, status.message)
        if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
            retry_after = float(status.details.retry_after_seconds)
    if code == 409 and failure.reason == "AlreadyExists":
        return AlreadyExistsError(failure, retry_after)
    details = None if status is None else status.details
    causes = (details and details.causes) or ()
    if code == 403 and any(cause.reason == "NamespaceTerminating" for cause in causes):
        return NamespaceTerminatingError(failure, retry_after)
    error_class = ServerError if code >= 500 else _BY_CODE.get(code, ResponseError)
    return error_class(failure, retry_after)


def from_status(body: bytes) -> ResponseError | None:
    """Return the error in an ERROR event of a watch; None if `body` is not a `Status`."""
    status = _status_of(body)
    return None if status is None else from_response(status.code, {}, body)


def _status_of(body: bytes) -> _Status | None:
    try:
        if body.startswith(MAGIC):
            return _protobuf_decoder.decode(body)
        status = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in Retry-After; None if it is absent or a date, which HTTP allows but no API server sends."""
    text = headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _describe_body(body: bytes) -> str:
    text = body[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
    shown = " ".join(text.split()) + ("…" if len(body) > MAX_SHOWN_BYTES else "")
    return f"the response is not a Kubernetes Status: {shown}" if shown else "the response is empty"
