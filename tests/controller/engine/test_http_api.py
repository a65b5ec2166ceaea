"""`HttpApi`: the request of each method, and the meaning of each response."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.controller.http_apis import (
    CONFIG_MAP,
    FRAMEWORKS,
    JOB,
    POD,
    STORED,
    TIMEOUT,
    Act,
    Answer,
    Bench,
    failure,
    next_status,
    page,
    store,
    stored,
    with_version,
)

from windlass.controller.engine.api import (
    MAX_PODS_PER_DELETE,
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.controller.engine.http_api import NO_STATUS_SUBRESOURCE_RETRY_SEC, NoStatusSubresourceError
from windlass.decide.types import DeletePod
from windlass.kubeapi import errors, requests
from windlass.kubeapi.requests import JSON, METADATA_ONLY, Request
from windlass.kubeapi.resources import PODS
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP, LAUNCHER_GROUP
from windlass.wire import codec

# Which request stands for which act


PRECONDITION = {"op": "replace", "path": "/metadata/resourceVersion", "value": "17"}
MOVED = {"op": "add", "path": "/status/state", "value": "AttemptCreationRequested"}
LIST_METADATA_ONLY = requests.list_page(PODS).with_accept(METADATA_ONLY).accept
OPTIONS: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}


@pytest.mark.parametrize(
    ("act", "answers", "line", "query", "body", "accept"),
    [
        pytest.param(
            store,
            [STORED],
            f"PATCH {FRAMEWORKS}/job/status",
            {"fieldManager": "windlass-test"},
            [PRECONDITION, MOVED],
            METADATA_ONLY,
            id="store a status",
        ),
        pytest.param(
            lambda api: api.read_framework(JOB),
            [codec.encode_framework(JOB)],
            f"GET {FRAMEWORKS}/job",
            {},
            None,
            JSON,
            id="read a Framework",
        ),
        pytest.param(
            lambda api: api.delete_framework(JOB),
            [b"{}"],
            f"DELETE {FRAMEWORKS}/job",
            {},
            {
                **OPTIONS,
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": "fw-1", "resourceVersion": "17"},
            },
            JSON,
            id="delete a Framework",
        ),
        pytest.param(
            lambda api: api.create_config_map("team", CONFIG_MAP),
            [with_version(CONFIG_MAP, "cm-1", "20")],
            "POST /api/v1/namespaces/team/configmaps",
            {},
            CONFIG_MAP,
            JSON,
            id="create a ConfigMap",
        ),
        pytest.param(
            lambda api: api.delete_config_map("team", "job-attempt", "cm-1"),
            [b"{}"],
            "DELETE /api/v1/namespaces/team/configmaps/job-attempt",
            {},
            {**OPTIONS, "propagationPolicy": "Background", "preconditions": {"uid": "cm-1"}},
            JSON,
            id="delete a ConfigMap",
        ),
        pytest.param(
            lambda api: api.create_pods("team", [POD]),
            [with_version(POD, "pod-1", "21")],
            "POST /api/v1/namespaces/team/pods",
            {},
            POD,
            METADATA_ONLY,
            id="create a pod",
        ),
        pytest.param(
            lambda api: api.delete_pods("team", [DeletePod("job-worker-0", "pod-1")]),
            [b"{}"],
            "DELETE /api/v1/namespaces/team/pods/job-worker-0",
            {},
            {**OPTIONS, "preconditions": {"uid": "pod-1"}},
            JSON,
            id="delete a pod",
        ),
        pytest.param(
            lambda api: api.delete_pods("team", [DeletePod("job-worker-0", "pod-1", force=True)]),
            [b"{}"],
            "DELETE /api/v1/namespaces/team/pods/job-worker-0",
            {},
            {**OPTIONS, "gracePeriodSeconds": 0, "preconditions": {"uid": "pod-1"}},
            JSON,
            id="remove a pod by force",
        ),
        pytest.param(
            lambda api: api.delete_pods_of_attempt("team", "cm-1", ""),
            [page()],
            "DELETE /api/v1/namespaces/team/pods",
            {"labelSelector": "windlass.dev/attempt=cm-1", "limit": str(MAX_PODS_PER_DELETE)},
            OPTIONS,
            LIST_METADATA_ONLY,
            id="delete the pods of an attempt",
        ),
        pytest.param(
            lambda api: api.delete_pods_of_attempt("team", "cm-1", "", "17"),
            [page()],
            "DELETE /api/v1/namespaces/team/pods",
            {"labelSelector": "windlass.dev/attempt=cm-1", "resourceVersion": "17"},
            OPTIONS,
            LIST_METADATA_ONLY,
            id="delete the pods of an attempt that are known",
        ),
        pytest.param(
            lambda api: api.delete_pods_of_attempt("team", "cm-1", "token"),
            [page()],
            "DELETE /api/v1/namespaces/team/pods",
            {
                "labelSelector": "windlass.dev/attempt=cm-1",
                "limit": str(MAX_PODS_PER_DELETE),
                "continue": "token",
            },
            OPTIONS,
            LIST_METADATA_ONLY,
            id="delete more of them",
        ),
    ],
)
def test_each_action_is_one_request(
    act: Act, answers: list[Answer], line: str, query: dict[str, str], body: Any, accept: str
) -> None:
    bench = Bench(*answers)
    bench.run(act)
    (request,) = bench.sent
    assert str(request) == line
    assert dict(request.query) == query
    assert (msgspec.json.decode(request.body) if request.body else None) == body
    assert request.accept == accept
    assert bench.timeouts == {TIMEOUT}


def test_status_is_patched_not_replaced() -> None:
    bench = Bench(STORED)
    bench.run(store)
    assert bench.sent[0].content_type == "application/json-patch+json"


# Which answer means what


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (failure(404, "NotFound"), NotFoundError),
        (failure(409, "Conflict"), ConflictError),
        (failure(409, "AlreadyExists"), AlreadyExistsError),
        (failure(500, "InternalError"), UnknownOutcomeError),
        (failure(503, "ServiceUnavailable"), UnknownOutcomeError),
        (failure(504, "Timeout"), UnknownOutcomeError),
        (errors.NoValidResponseError("cut"), UnknownOutcomeError),
        (errors.NotSentError("cannot connect"), RequestError),
        *[(failure(code), RefusedError) for code in (400, 401, 403, 405, 410, 413, 415, 422, 429)],
    ],
)
def test_api_errors_become_port_errors(answer: errors.ApiError, expected: type[RequestError]) -> None:
    with pytest.raises(RequestError) as caught:
        Bench(answer).run(lambda api: api.create_config_map("team", CONFIG_MAP))
    assert type(caught.value) is expected
    assert caught.value.__cause__ is answer


def test_rejection_has_the_message_of_the_server() -> None:
    with pytest.raises(RefusedError) as caught:
        Bench(failure(403, "Forbidden", "exceeded quota")).run(
            lambda api: api.create_config_map("team", CONFIG_MAP)
        )
    found = caught.value.failure
    assert (found.code, found.reason, found.message) == (403, "Forbidden", "exceeded quota")


@pytest.mark.parametrize("answer", [failure(404, "NotFound"), failure(409, "Conflict")])
def test_missing_or_replaced_object_counts_as_deleted(answer: errors.ApiError) -> None:
    """The UID is the precondition: what is there under that name is not what was meant."""
    bench = Bench(answer, answer)
    bench.run(lambda api: api.delete_config_map("team", "job-attempt", "cm-1"))
    assert bench.run(lambda api: api.delete_pods("team", [DeletePod("a", "uid")])) == [None]


def test_changed_framework_is_not_deleted() -> None:
    """The resourceVersion is a precondition too, because the TTL may have been changed."""
    with pytest.raises(ConflictError):
        Bench(failure(409, "Conflict")).run(lambda api: api.delete_framework(JOB))


def test_missing_framework_raises_not_found() -> None:
    """On a server that does not know their definition yet: it is asked again until the watch says that it is gone."""
    with pytest.raises(NotFoundError):
        Bench(failure(404, "NotFound")).run(lambda api: api.delete_framework(JOB))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (codec.encode_framework(JOB), JOB),
        (failure(404, "NotFound"), None),
        (codec.encode_framework(JOB).replace(b'"taskNumber":1', b'"taskNumber":"one"'), None),
    ],
    ids=["there", "gone", "unreadable"],
)
def test_framework_is_read(answer: Answer, expected: Framework | None) -> None:
    assert Bench(answer).run(lambda api: api.read_framework(JOB)) == expected


def test_created_object_has_its_uid() -> None:
    config_map = Bench(with_version(CONFIG_MAP, "cm-1", "20")).run(
        lambda api: api.create_config_map("team", CONFIG_MAP)
    )
    assert (config_map.name, config_map.uid, config_map.metadata.resource_version) == (
        "job-attempt",
        "cm-1",
        "20",
    )


ODD = b'{"metadata": {"name": 7}}'
not_answers = pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"metadata": 7}', b'\xff{"'])


@not_answers
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(store, id="store a status"),
        pytest.param(lambda api: api.read_framework(JOB), id="read a Framework"),
        pytest.param(lambda api: api.create_config_map("team", CONFIG_MAP), id="create a ConfigMap"),
        pytest.param(lambda api: api.list_objects(JOB), id="list"),
        pytest.param(lambda api: api.delete_pods_of_attempt("team", "cm-1", ""), id="delete pods"),
    ],
)
def test_invalid_answer_raises_unknown_outcome_error(act: Act, answer: bytes) -> None:
    """The request may have been processed, so the caller must read the object."""
    with pytest.raises(UnknownOutcomeError, match="invalid response from the API server"):
        Bench(answer).run(act)


@not_answers
def test_invalid_answer_to_a_pod_creation_raises_unknown_outcome_error(answer: bytes) -> None:
    bench = Bench(answer, with_version(POD, "pod-1", "21"))
    odd, good = bench.run(lambda api: api.create_pods("team", [POD, POD]))
    assert isinstance(odd, UnknownOutcomeError)
    assert good.uid == "pod-1"


@pytest.mark.parametrize(
    ("act", "answers"),
    [
        pytest.param(lambda api: api.list_objects(JOB), [page(ODD)], id="a ConfigMap"),
        pytest.param(lambda api: api.list_objects(JOB), [page(), page(ODD)], id="a pod"),
        pytest.param(
            lambda api: api.delete_pods_of_attempt("team", "cm-1", ""), [page(ODD)], id="a deleted pod"
        ),
    ],
)
def test_list_with_invalid_objects_raises_unknown_outcome_error(act: Act, answers: list[Answer]) -> None:
    with pytest.raises(UnknownOutcomeError, match="invalid response from the API server"):
        Bench(*answers).run(act)


# Statuses


def test_stored_status_reaches_the_observer() -> None:
    bench = Bench(STORED)
    found = bench.run(store)
    assert found.status == next_status()
    assert found.metadata.resource_version == "18"
    assert bench.heard == [("stored", "17", "18")]


@pytest.mark.parametrize("answer", [failure(409, "Conflict"), failure(500), failure(403), failure(429)])
def test_failed_store_does_not_reach_the_observer(answer: errors.ApiError) -> None:
    bench = Bench(answer)
    with pytest.raises(RequestError):
        bench.run(store)
    assert bench.heard == []
    assert len(bench.sent) == 1


def test_rejected_patch_is_followed_by_the_whole_status() -> None:
    bench = Bench(failure(422, "Invalid"), STORED)
    bench.run(store)
    piecemeal, whole = (msgspec.json.decode(request.body) for request in bench.sent)
    assert piecemeal == [PRECONDITION, MOVED]
    assert whole[0] == PRECONDITION
    assert [(operation["op"], operation["path"]) for operation in whole[1:]] == [("add", "/status")]
    assert whole[1]["value"]["state"] == "AttemptCreationRequested"
    assert bench.heard == [("stored", "17", "18")]


def test_rejected_whole_status_raises() -> None:
    bench = Bench(failure(422, "Invalid"), failure(422, "Invalid"))
    with pytest.raises(RefusedError):
        bench.run(store)
    assert len(bench.sent) == 2


# A definition without a status


MISSING = failure(404, "NotFound")
THERE = codec.encode_framework(JOB)


def another(uid: str) -> bytes:
    return codec.encode_framework(
        msgspec.structs.replace(JOB, metadata=msgspec.structs.replace(JOB.metadata, uid=uid))
    )


@pytest.mark.parametrize("found", [MISSING, another("fw-2")], ids=["gone", "made anew"])
def test_store_for_a_deleted_framework_raises_not_found(found: Answer) -> None:
    bench = Bench(MISSING, found)
    with pytest.raises(NotFoundError):
        bench.run(store)
    assert bench.heard == []


def test_missing_status_subresource_blocks_stores_and_is_checked_at_intervals() -> None:
    bench = Bench(MISSING, THERE, MISSING, THERE, STORED, STORED)
    with pytest.raises(NoStatusSubresourceError):
        bench.run(store)
    assert [str(request) for request in bench.sent] == [
        f"PATCH {FRAMEWORKS}/job/status",
        f"GET {FRAMEWORKS}/job",
    ]
    bench.seconds += NO_STATUS_SUBRESOURCE_RETRY_SEC - 0.1
    with pytest.raises(NoStatusSubresourceError):
        bench.run(store)
    assert len(bench.sent) == 2, "nothing is asked meanwhile"
    assert bench.heard == [("status is missing", CONTROLLER_GROUP)]
    bench.seconds += 0.1
    with pytest.raises(NoStatusSubresourceError):
        bench.run(store)
    assert bench.heard == 2 * [("status is missing", CONTROLLER_GROUP)], "once for each period"
    bench.seconds += NO_STATUS_SUBRESOURCE_RETRY_SEC
    bench.run(store)
    bench.run(store)
    assert bench.heard[2:] == 2 * [("stored", "17", "18")]


def test_missing_status_subresource_does_not_block_the_other_group() -> None:
    bench = Bench(MISSING, THERE, STORED)
    with pytest.raises(NoStatusSubresourceError):
        bench.run(store)
    bench.run(lambda api: api.store_status(stored(LAUNCHER_GROUP), next_status()))
    assert bench.heard == [("status is missing", CONTROLLER_GROUP), ("stored", "17", "18")]


def test_missing_status_subresource_is_reported_once() -> None:
    many = 20
    bench = Bench()

    async def send(request: Request, timeout: float) -> bytes:
        await asyncio.sleep(0)
        if request.method == "PATCH":
            raise failure(404, "NotFound")
        return THERE

    bench.api._send = send

    async def story() -> list[Framework | BaseException]:
        return await asyncio.gather(*(store(bench.api) for _ in range(many)), return_exceptions=True)

    outcomes = asyncio.run(story())
    assert [type(outcome) for outcome in outcomes] == many * [NoStatusSubresourceError]
    assert bench.heard == [("status is missing", CONTROLLER_GROUP)]
