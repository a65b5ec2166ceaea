"""How a request may fail, and how a refusal is read. Pure: whoever speaks HTTP raises these."""

from collections.abc import Mapping

import msgspec

from windlass.model.failures import ApiFailure

SHOWN_BYTES = 300
"""How much of an answer that is not Kubernetes' own a message shows."""


class AccessError(Exception):
    """Where the API server is, or who we are, cannot be found out. The message says where it was looked for."""


class ApiError(Exception):
    """A request did not do what it was meant to."""


class UnansweredError(ApiError):
    """A time-out, a cut connection, or an answer that is not Kubernetes' own. It may have been carried out or not."""


class NotSentError(UnansweredError):
    """The request never left: the server cannot be reached, or the time was over before. Nothing was carried out."""


class NotTrustedError(NotSentError):
    """Somebody is there, and cannot show that it is the server that was meant."""


class NotKubernetesError(UnansweredError):
    """Somebody answers, and it is no Kubernetes API server."""


class AnsweredError(ApiError):
    """The server said no, and why."""

    def __init__(self, failure: ApiFailure, retry_after: float | None = None) -> None:
        reason = f" {failure.reason}" if failure.reason else ""
        super().__init__(f"{failure.code}{reason}: {failure.message}")
        self.failure = failure
        self.retry_after = retry_after
        """For how many seconds the server wants to be left alone; None if it did not say."""


class NotFoundError(AnsweredError):
    """No such object, or no such kind."""


class ConflictError(AnsweredError):
    """Somebody has written since, or a precondition does not hold."""


class AlreadyExistsError(AnsweredError):
    """The name is taken."""


class ExpiredError(AnsweredError):
    """The version, or the page, that was asked for is no longer kept."""


class InvalidError(AnsweredError):
    """The object makes no sense to the server."""


class ForbiddenError(AnsweredError):
    """The server knows who asks, and does not allow it."""


class UnauthorizedError(AnsweredError):
    """The server does not know who asks."""


class TooManyRequestsError(AnsweredError):
    """The server has too much to do, or an eviction would break a budget."""


class ServerError(AnsweredError):
    """Any 5xx. It may have been carried out or not."""


_BY_CODE: Mapping[int, type[AnsweredError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int = 0


class _Status(msgspec.Struct, frozen=True):
    kind: str
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_decoder = msgspec.json.Decoder(_Status)


def from_answer(code: int, headers: Mapping[str, str], body: bytes) -> AnsweredError:
    """The error for an answer that is not a 2xx. Headers are looked up as they are spelt in HTTP documents."""
    status = _status_of(body)
    if status is None:
        return _error(code, ApiFailure(code, "", _beginning(body)), _seconds(headers))
    asked_to_wait = status.details.retry_after_seconds if status.details else 0
    waiting = _seconds(headers)
    if waiting is None and asked_to_wait > 0:
        waiting = float(asked_to_wait)
    return _error(code, ApiFailure(code, status.reason, status.message), waiting)


def from_status(body: bytes) -> AnsweredError | None:
    """The error that an ERROR event of a watch carries; None if this is no `Status`."""
    status = _status_of(body)
    return None if status is None else from_answer(status.code, {}, body)


def _error(code: int, failure: ApiFailure, retry_after: float | None) -> AnsweredError:
    if code == 409 and failure.reason == "AlreadyExists":
        return AlreadyExistsError(failure, retry_after)
    kind = ServerError if code >= 500 else _BY_CODE.get(code, AnsweredError)
    return kind(failure, retry_after)


def _status_of(body: bytes) -> _Status | None:
    try:
        status = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def _seconds(headers: Mapping[str, str]) -> float | None:
    """A date is also allowed by HTTP, but no API server sends one, and clocks differ."""
    text = headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _beginning(body: bytes) -> str:
    text = body[:SHOWN_BYTES].decode("utf-8", "replace")
    shown = " ".join(text.split()) + ("…" if len(body) > SHOWN_BYTES else "")
    return f"the answer is no Kubernetes Status: {shown}" if shown else "the answer is empty"
