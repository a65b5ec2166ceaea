"""Count the requests by user from the audit log of the API server."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""


class _Answer(msgspec.Struct, frozen=True):
    code: int = 0


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    stage: str
    verb: str
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user: _User = _User()
    object_ref: _Object = _Object()
    response_status: _Answer = _Answer()


_decode = msgspec.json.Decoder(_Entry).decode


class AuditedRequest(NamedTuple):
    user: str
    verb: str
    what: str
    code: int
    seconds: float
    """Seconds that the server spent on it."""


class AuditLog:
    """The new entries of an audit log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[AuditedRequest]:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole, _, _ = data.rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        return list(parse(whole.splitlines()))


def parse(lines: Iterable[bytes]) -> Iterator[AuditedRequest]:
    for line in lines:
        entry = _decode(line)
        is_open = entry.verb == "watch"
        if entry.stage == ("ResponseStarted" if is_open else "ResponseComplete"):
            about = entry.object_ref
            what = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
            taken = entry.stage_timestamp - entry.request_received_timestamp
            yield AuditedRequest(
                entry.user.username, entry.verb, what, entry.response_status.code, taken.total_seconds()
            )


def by_kind(requests: Iterable[AuditedRequest], user: str) -> dict[str, int]:
    """Return the number of requests by kind, most frequent first."""
    found = Counter(f"{each.verb} {each.what}" for each in requests if each.user == user)
    return dict(found.most_common())


def counted(requests: Iterable[AuditedRequest], user: str) -> int:
    """Return the requests that count: no watch, list, lease or event."""
    return sum(each.user == user and _is_in_budget(each) for each in requests)


def _is_in_budget(request: AuditedRequest) -> bool:
    is_read = request.verb in ("get", "list", "watch")
    return not is_read and request.what not in ("leases", "events")


def conflicts(requests: Iterable[AuditedRequest], user: str) -> int:
    return sum(each.user == user and each.code == 409 for each in requests)


def seconds_of(requests: Iterable[AuditedRequest], user: str, what: str) -> float:
    """Return the total time that the server spent on such requests."""
    return sum(each.seconds for each in requests if (each.user, each.what) == (user, what))
