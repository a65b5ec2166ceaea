"""`HttpApi` with many objects or requests, with several pages, and without the lease."""

import asyncio
import itertools

import msgspec
import pytest
from tests.controller.http_apis import (
    CONFIG_MAP,
    JOB,
    POD,
    TIMEOUT,
    Act,
    Bench,
    failure,
    page,
    revoked_guard,
    store,
    with_version,
)

from windlass.controller.engine.api import RefusedError, RequestError, UnknownOutcomeError
from windlass.controller.engine.http_api import MAX_PARALLEL_REQUESTS, HttpApi
from windlass.controller.engine.lease_guard import LeaseGuard, NotLeadingError, unrestricted
from windlass.decide.types import DeletePod, Reason, ReasonKind
from windlass.kubeapi.requests import Request
from windlass.model.base import Json

# Many pods


def pod(index: int) -> Json:
    return {**POD, "metadata": {"name": f"job-worker-{index}"}}


def test_deleted_pods_of_an_attempt_are_returned() -> None:
    answer = page(with_version(pod(0), "a", "5"), with_version(pod(1), "b", "6"), token="more")  # noqa: S106
    emptied = Bench(answer).run(lambda api: api.delete_pods_of_attempt("team", "cm-1", ""))
    assert [found.uid for found in emptied.pods] == ["a", "b"]
    assert emptied.continue_token == "more"  # noqa: S105


def test_expired_continue_token_restarts_the_deletion() -> None:
    bench = Bench(failure(410, "Expired"), page(with_version(pod(0), "a", "5")))
    emptied = bench.run(lambda api: api.delete_pods_of_attempt("team", "cm-1", "old"))
    assert ["continue" in dict(request.query) for request in bench.sent] == [True, False]
    assert [found.uid for found in emptied.pods] == ["a"]


def test_expired_error_without_a_token_is_raised() -> None:
    bench = Bench(failure(410, "Expired"))
    with pytest.raises(RefusedError):
        bench.run(lambda api: api.delete_pods_of_attempt("team", "cm-1", ""))


class Crowd(Bench):
    """Answers when all that can be under way are, the last one first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.under_way: list[tuple[Request, asyncio.Future[bytes]]] = []
        self.most = 0
        self.api._send = self._wait

    async def _wait(self, request: Request, timeout: float) -> bytes:
        self.sent.append(request)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.under_way.append((request, answer))
        self.most = max(self.most, len(self.under_way))
        is_full = len(self.under_way) >= MAX_PARALLEL_REQUESTS or len(self.sent) == self.count
        if is_full:
            asyncio.get_running_loop().call_soon(self._answer)
        return await answer

    def _answer(self) -> None:
        answered, self.under_way = self.under_way[::-1], []
        for request, answer in answered:
            name = (
                msgspec.json.decode(request.body)["metadata"]["name"]
                if request.method == "POST"
                else request.path.rpartition("/")[2]
            )
            index = int(name.rpartition("-")[2])
            if index % 10 == 3:
                answer.set_exception(failure(500))
            else:
                answer.set_result(with_version(pod(index), f"uid-{index}", str(100 + index)))


COUNT = 2 * MAX_PARALLEL_REQUESTS + 7


def test_pods_are_created_in_parallel_up_to_a_limit_with_results_in_order() -> None:
    crowd = Crowd(COUNT)
    outcomes = crowd.run(lambda api: api.create_pods("team", [pod(index) for index in range(COUNT)]))
    assert crowd.most == MAX_PARALLEL_REQUESTS
    assert len(crowd.sent) == COUNT
    expected = [None if index % 10 == 3 else f"uid-{index}" for index in range(COUNT)]
    assert [getattr(outcome, "uid", None) for outcome in outcomes] == expected
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, RequestError)} == {
        UnknownOutcomeError
    }


def test_pods_are_deleted_in_parallel_up_to_a_limit_with_results_in_order() -> None:
    crowd = Crowd(COUNT)
    deletions = [DeletePod(f"job-worker-{index}", f"uid-{index}") for index in range(COUNT)]
    outcomes = crowd.run(lambda api: api.delete_pods("team", deletions))
    assert crowd.most == MAX_PARALLEL_REQUESTS
    expected = [UnknownOutcomeError if index % 10 == 3 else type(None) for index in range(COUNT)]
    assert [type(outcome) for outcome in outcomes] == expected


class FifoServer(Bench):
    """Answers one request at a time, in the order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()
        self.answered: list[str] = []
        self.api._send = self._answer

    async def _answer(self, request: Request, timeout: float) -> bytes:
        async with self.lock:
            await asyncio.sleep(0)
            self.answered.append(request.path.split("/")[4])
            return with_version(POD if request.path.endswith("pods") else CONFIG_MAP, "uid", "5")


def test_limited_number_of_other_requests_between_two_requests_of_a_framework() -> None:
    """Four Frameworks create 200 pods each, while a small one sends one request after the other."""
    server, larger = FifoServer(), [f"large-{number}" for number in range(4)]

    async def small(api: HttpApi) -> None:
        for _ in range(4):
            await api.create_config_map("small", CONFIG_MAP)
            await api.create_pods("small", [POD])

    async def all_frameworks(api: HttpApi) -> None:
        async with asyncio.TaskGroup() as group:
            for namespace in larger:
                group.create_task(api.create_pods(namespace, [POD] * 200))
            await asyncio.sleep(0)
            group.create_task(small(api))

    server.run(all_frameworks)
    assert len(server.answered) == 4 * 200 + 8
    positions = [index for index, namespace in enumerate(server.answered) if namespace == "small"]
    others = [later - earlier - 1 for earlier, later in itertools.pairwise([-1, *positions])]
    assert max(others) <= MAX_PARALLEL_REQUESTS + len(larger)


@pytest.mark.parametrize("act", ["create_pods", "delete_pods"])
def test_no_request_for_no_pods(act: str) -> None:
    bench = Bench()
    assert bench.run(lambda api: getattr(api, act)("team", [])) == []
    assert bench.sent == []


# A look at one Framework's objects


def test_objects_are_listed_in_pages_with_the_version_of_the_first_list() -> None:
    stranger = {**CONFIG_MAP, "metadata": {"name": "job-notes"}}
    bench = Bench(
        page(with_version(stranger, "cm-9", "3"), version="40", token="next"),  # noqa: S106
        page(with_version(CONFIG_MAP, "cm-1", "4"), version="40"),
        page(with_version(pod(0), "a", "5"), version="45", token="next"),  # noqa: S106
        page(with_version(pod(1), "b", "6"), version="45"),
    )
    listed = bench.run(lambda api: api.list_objects(JOB))
    assert listed.resource_version == "40"
    assert listed.config_map is not None
    assert listed.config_map.uid == "cm-1"
    assert [found.uid for found in listed.pods] == ["a", "b"]
    assert [(str(request), dict(request.query).get("continue", "")) for request in bench.sent] == [
        ("GET /api/v1/namespaces/team/configmaps", ""),
        ("GET /api/v1/namespaces/team/configmaps", "next"),
        ("GET /api/v1/namespaces/team/pods", ""),
        ("GET /api/v1/namespaces/team/pods", "next"),
    ]
    assert all(("labelSelector", "FC_FRAMEWORK_NAME=job") in request.query for request in bench.sent)


def test_list_without_objects() -> None:
    listed = Bench(page(version="40"), page(version="41")).run(lambda api: api.list_objects(JOB))
    assert (listed.resource_version, listed.config_map, listed.pods) == ("40", None, ())


# What goes on without the lease: nothing


def ending() -> LeaseGuard:
    return LeaseGuard(lambda: TIMEOUT - 0.1)


@pytest.mark.parametrize("guard", [revoked_guard(), ending()], ids=["not leading", "not for long"])
@pytest.mark.parametrize(
    "act",
    [
        store,
        lambda api: api.read_framework(JOB),
        lambda api: api.delete_framework(JOB),
        lambda api: api.create_config_map("team", CONFIG_MAP),
        lambda api: api.delete_config_map("team", "job-attempt", "cm-1"),
        lambda api: api.delete_pods_of_attempt("team", "cm-1", ""),
        lambda api: api.list_objects(JOB),
    ],
)
def test_no_request_that_may_outlive_the_lease(act: Act, guard: LeaseGuard) -> None:
    bench = Bench(guard=guard)
    with pytest.raises(NotLeadingError):
        bench.run(act)
    assert bench.sent == []


@pytest.mark.parametrize("guard", [revoked_guard(), ending()], ids=["not leading", "not for long"])
def test_no_pod_request_that_may_outlive_the_lease(guard: LeaseGuard) -> None:
    bench = Bench(guard=guard)
    created = bench.run(lambda api: api.create_pods("team", [POD, POD]))
    deleted = bench.run(lambda api: api.delete_pods("team", [DeletePod("a", "b")]))
    assert [type(outcome) for outcome in (*created, *deleted)] == 3 * [NotLeadingError]
    assert bench.sent == []


def test_lease_is_checked_before_each_request() -> None:
    """It ends in the middle of a gang."""
    guard = unrestricted()
    bench = Bench(*[with_version(POD, "uid", "5")] * MAX_PARALLEL_REQUESTS, guard=guard)
    counted = bench.send

    async def send(request: Request, timeout: float) -> bytes:
        answer = await counted(request, timeout)
        if len(bench.sent) == 3:
            guard.revoke()
        return answer

    bench.api._send = send
    outcomes = bench.run(lambda api: api.create_pods("team", [POD] * 5))
    assert len(bench.sent) == 3
    assert [isinstance(outcome, NotLeadingError) for outcome in outcomes].count(True) == 2


def test_announced_reasons_reach_the_observer() -> None:
    bench = Bench()
    reason = Reason(ReasonKind.ATTEMPT_STARTED, "started")
    bench.api.announce(JOB, [reason])
    assert bench.heard == [("announced", "fw-1", reason)]
