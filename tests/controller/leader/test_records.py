"""The records in a cluster, on the embedded server: which are known, and the bounded deletion of old ones."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import builders
import msgspec
import pytest
from tests.wire.test_attempt_records import record

from windlass.controller.engine.lease_guard import unrestricted
from windlass.controller.leader import records as leader_records
from windlass.controller.leader.records import Records
from windlass.controller.observe.metrics import RecordOutcome
from windlass.k8s import metadata
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json
from windlass.model.history import AttemptRecord
from windlass.model.settings import History
from windlass.wire import attempt_records


class Server:
    """The records of a server, by name. It sends pages of two."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.sent: list[Request] = []
        self.error: errors.ApiError | None = None

    def put(self, name: str, age: int) -> AttemptRecord:
        made = record()
        made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name=name))
        body = attempt_records.encode(made)
        created = builders.NOW - timedelta(seconds=age)
        meta = {**body["metadata"], "uid": f"uid-{name}", "creationTimestamp": created}
        self.objects[name] = {**body, "metadata": meta}
        return made

    async def send(self, request: Request, _timeout: float) -> bytes:
        self.sent.append(request)
        if self.error is not None:
            raise self.error
        if request.verb is Verb.DELETE:
            name = request.path.rpartition("/")[2]
            assert f'"uid":"uid-{name}"'.encode() in request.body
            if self.objects.pop(name, None) is None:
                raise failure(404)
            return b"{}"
        begin = int(dict(request.query).get("continue", "0"))
        items = list(self.objects.values())[begin : begin + 2]
        token = str(begin + 2) if begin + 2 < len(self.objects) else ""
        return msgspec.json.encode({"metadata": {"continue": token}, "items": items})

    @property
    def deleted(self) -> int:
        return sum(request.verb is Verb.DELETE for request in self.sent)


class Clock:
    def now(self) -> object:
        return builders.NOW

    def monotonic(self) -> float:
        return 0.0


def failure(code: int) -> errors.ApiError:
    body = {"kind": "Status", "reason": "x", "message": "no", "code": code}
    return errors.from_response(code, {}, msgspec.json.encode(body))


@pytest.fixture
def server() -> Server:
    return Server()


def run(
    server: Server, work: Callable[[Records], Awaitable[object]], limits: History | None = None
) -> list[tuple[RecordOutcome, int]]:
    counted: list[tuple[RecordOutcome, int]] = []

    async def wait() -> None:
        records = Records(
            server.send,
            unrestricted(),
            Clock(),  # type: ignore[arg-type]
            limits or History(),
            lambda outcome, count: counted.append((outcome, count)),
            namespaces=(),
            timeout=1.0,
        )
        await records.load()
        await work(records)

    asyncio.run(wait())
    return counted


def test_listed_records_count_as_written(server: Server) -> None:
    made = [server.put(f"r{number}", number) for number in range(3)]
    server.objects.pop("r2")

    async def work(records: Records) -> None:
        assert [records.is_written_or_expired(each) for each in made] == [True, True, False]

    run(server, work)
    assert len(server.sent) == 1


def test_record_beyond_the_limits_counts_as_expired(server: Server) -> None:
    """Retention has deleted it: a restarted controller does not write it again."""
    server.put("newer", -10)
    old = server.put("old", 100)
    server.objects.pop("old")

    async def work(records: Records) -> None:
        assert records.is_written_or_expired(old)

    run(server, work, History(records_per_job=1))


def test_oldest_records_are_deleted_in_bounded_rounds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_records, "MAX_DELETIONS", 2)
    for number in range(5):
        server.put(f"r{number}", age=number)

    async def work(records: Records) -> None:
        assert await records.delete_expired() == 2
        assert sorted(server.objects) == ["r0", "r1", "r2"]
        assert await records.delete_expired() == 2
        assert await records.delete_expired() == 0

    assert run(server, work, History(records_per_job=1)) == [(RecordOutcome.DELETED, 2)] * 2
    assert list(server.objects) == ["r0"]
    assert server.deleted == 4


def test_record_that_does_not_exist_counts_as_deleted(server: Server) -> None:
    server.put("r0", 0)
    server.put("r1", 1)

    async def work(records: Records) -> None:
        server.objects.pop("r1")
        assert await records.delete_expired() == 1

    run(server, work, History(records_per_job=1))


def test_written_record_is_counted_and_not_written_again(server: Server) -> None:
    made = server.put("r0", 0)
    created = metadata.decode_meta(msgspec.json.encode(server.objects.pop("r0"))).metadata

    async def work(records: Records) -> None:
        records.add(created)
        assert records.is_written_or_expired(made)

    assert run(server, work) == [(RecordOutcome.WRITTEN, 1)]


@pytest.mark.parametrize("code", [403, 404, 500])
def test_missing_definition_or_permission_is_only_logged(
    server: Server, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = server.put("r0", 0)
    server.error = failure(code)

    async def work(records: Records) -> None:
        assert not records.is_written_or_expired(made)

    run(server, work)
    assert "cannot list the records of attempts" in caplog.text
