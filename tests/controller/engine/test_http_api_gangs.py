"""`HttpApi`: owners of Services, and updates of Gangs."""

import msgspec
import pytest
from tests.controller.http_apis import JOB, Answer, Bench, failure

from windlass.controller.engine.api import (
    AlreadyExistsError,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.controller.engine.http_api import NoGangsError
from windlass.kubeapi import errors
from windlass.model import gang as model
from windlass.model.base import Json
from windlass.objects.attempt import service

SERVICES = "/api/v1/namespaces/team/services"
GANGS = "/apis/windlass.dev/v1/namespaces/team/gangs"
SERVICE = service(JOB)
GANG: Json = {
    "apiVersion": model.API_VERSION,
    "kind": "Gang",
    "metadata": {"name": "job-cm-1"},
    "spec": {"frameworkName": "job"},
}
THERE = failure(409, "AlreadyExists")
OURS = SERVICE["metadata"]["ownerReferences"][0]


def found(**metadata: object) -> bytes:
    return msgspec.json.encode({**SERVICE, "metadata": {**SERVICE["metadata"], **metadata}})


def create_service(bench: Bench) -> None:
    bench.run(lambda api: api.create_service(JOB, SERVICE))


def publish(bench: Bench) -> None:
    bench.run(lambda api: api.publish_gang("team", GANG))


def lines(bench: Bench) -> list[str]:
    return [str(request) for request in bench.sent]


# Services


def test_service_is_one_request() -> None:
    bench = Bench(b"{}")
    create_service(bench)
    assert lines(bench) == [f"POST {SERVICES}"]
    assert msgspec.json.decode(bench.sent[0].body) == SERVICE


def test_service_of_an_earlier_attempt_is_reused() -> None:
    bench = Bench(THERE, found())
    create_service(bench)
    assert lines(bench) == [f"POST {SERVICES}", f"GET {SERVICES}/job"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{**OURS, "controller": False}]},
        {"ownerReferences": [{**OURS, "uid": "fw-0"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=["nobody's", "not controlled by ours", "an earlier Framework's", "going"],
)
def test_service_of_another_owner_raises_already_exists(metadata: Json) -> None:
    """Nor one that is not going to stay. The garbage collector sees to what an earlier Framework has left."""
    with pytest.raises(AlreadyExistsError, match="it does not belong to this Framework"):
        create_service(Bench(THERE, found(**metadata)))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([failure(403, "Forbidden")], RefusedError),
        ([THERE, failure(404, "NotFound")], NotFoundError),
        ([THERE, failure(403, "Forbidden")], RefusedError),
        ([THERE, errors.NoValidResponseError("cut")], UnknownOutcomeError),
        ([THERE, b"<html>"], UnknownOutcomeError),
    ],
    ids=["refused", "gone meanwhile", "may not be read", "not answered", "not understood"],
)
def test_service_errors_become_port_errors(answers: list[Answer], expected: type[RequestError]) -> None:
    """Each of them is tried again, so that none is taken for success."""
    with pytest.raises(RequestError) as caught:
        create_service(Bench(*answers))
    assert type(caught.value) is expected


# Gangs


def test_gang_is_one_request() -> None:
    bench = Bench(b"{}")
    publish(bench)
    assert lines(bench) == [f"POST {GANGS}"]
    assert msgspec.json.decode(bench.sent[0].body) == GANG


def test_existing_gang_is_updated() -> None:
    bench = Bench(THERE, b"{}")
    publish(bench)
    assert lines(bench) == [f"POST {GANGS}", f"PATCH {GANGS}/job-cm-1"]
    assert bench.sent[1].content_type == "application/merge-patch+json"
    assert msgspec.json.decode(bench.sent[1].body) == {"spec": GANG["spec"]}


def test_missing_gang_definition_names_the_remedy() -> None:
    with pytest.raises(
        NoGangsError, match=r"gangs\.windlass\.dev is missing .*windlass install --crds-only --apply"
    ):
        publish(Bench(failure(404, "NotFound")))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([failure(403, "Forbidden")], RefusedError),
        ([errors.NoValidResponseError("cut")], UnknownOutcomeError),
        ([THERE, failure(404, "NotFound")], NotFoundError),
        ([THERE, failure(503)], UnknownOutcomeError),
    ],
    ids=["refused", "not answered", "gone meanwhile", "not now"],
)
def test_gang_errors_become_port_errors(answers: list[Answer], expected: type[RequestError]) -> None:
    with pytest.raises(RequestError) as caught:
        publish(Bench(*answers))
    assert type(caught.value) is expected
