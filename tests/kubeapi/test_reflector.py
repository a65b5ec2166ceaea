"""Whatever happens on the way, a follower learns of every change, and asks no more often than it should."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.kubeapi.scripted import (
    Answer,
    Script,
    error_event,
    event,
    page,
    refusal,
    run,
    serving,
    status_body,
    stream,
    text,
)

from windlass.kubeapi import access, errors, reflector, resources
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.transport import Transport


def told(news: ResourceEvent) -> str:
    """`= a b` for a list, `+ a` and `- a` for a change."""
    match news:
        case Listed(items=items):
            return " ".join(["=", *(msgspec.json.decode(item)["metadata"]["name"] for item in items)])
        case Changed(object=body):
            return f"+ {msgspec.json.decode(body)['metadata']['name']}"
        case Deleted(object=body):
            return f"- {msgspec.json.decode(body)['metadata']['name']}"


class Followed:
    """Records requests, events and delays of a reflector without waiting; the randomness is 1."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.news: list[str] = []
        self.troubles: list[errors.ApiError] = []
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def asked(self) -> list[str]:
        """`list`, `list TOKEN` and `watch VERSION`."""
        words = {
            "watch": lambda query: f"watch {query['resourceVersion']}",
            "list": lambda query: f"list {query.get('continue', '')}".strip(),
        }
        return [
            words["watch" if "watch" in each.query else "list"](each.query) for each in self.script.received
        ]


@asynccontextmanager
async def following_of(script: Script, **options: Any) -> AsyncIterator[Followed]:
    """Until the script is over."""
    async with serving(script), Transport(access.anonymous(script.url)) as transport:
        followed = Followed(script)
        follower = Reflector(
            transport,
            resources.PODS,
            receive=lambda news: followed.news.append(told(news)),
            on_error=followed.troubles.append,
            randomness=lambda: 1.0,
            sleep=followed.sleep,
            **options,
        )
        task = asyncio.create_task(follower.run())
        over = asyncio.create_task(script.over.wait())
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            assert follower.listed.is_set()
            yield followed
        finally:
            over.cancel()
            task.cancel()
            await asyncio.wait([task, over])


ONE = event("ADDED", "b", 11)


def test_first_list_has_a_selector_of_its_own() -> None:
    async def follow() -> None:
        script = Script(page(10, "a"), refusal(410, "Expired"), page(30, "a", "b"))
        async with following_of(script, first_field_selector="status.state!=Completed") as followed:
            assert followed.news == ["= a", "= a b"]
            selectors = [each.query.get("fieldSelector") for each in script.received]
            assert selectors == ["status.state!=Completed", None, None, None]

    run(follow())


def test_first_list_is_complete_if_the_server_cannot_select() -> None:
    async def follow() -> None:
        script = Script(refusal(400, "BadRequest"), page(10, "a", "b"))
        async with following_of(script, first_field_selector="status.state!=Completed") as followed:
            assert followed.news == ["= a b"]
            assert not followed.troubles, "the list is requested again at once"

    run(follow())


def test_failed_first_list_is_repeated_with_its_selector() -> None:
    async def follow() -> None:
        script = Script(refusal(500, "InternalError"), page(10, "a"))
        async with following_of(script, first_field_selector="status.state!=Completed"):
            selectors = [each.query.get("fieldSelector") for each in script.received[:2]]
            assert selectors == ["status.state!=Completed"] * 2

    run(follow())


def test_list_omits_objects_that_are_not_needed() -> None:
    async def follow() -> None:
        script = Script(page(10, "a", "b"), stream(event("MODIFIED", "a", 12)))
        async with following_of(script, is_listed=lambda item: b'"a"' not in bytes(item)) as followed:
            assert followed.news == ["= b", "+ a"]

    run(follow())


@pytest.mark.parametrize(
    ("answers", "asked", "news", "troubles", "slept"),
    [
        pytest.param(
            [
                page(10, "a"),
                stream(ONE, event("MODIFIED", "b", 12), event("DELETED", "a", 13), event("BOOKMARK", "", 20)),
            ],
            ["list", "watch 10", "watch 20"],
            ["= a", "+ b", "+ b", "- a"],
            [],
            [],
            id="a normal end goes on where it was, from a bookmark too",
        ),
        pytest.param(
            [page(10), stream(ONE, b'{"type":"ADD', is_cut=True), stream(event("ADDED", "c", 12))],
            ["list", "watch 10", "watch 11", "watch 12"],
            ["=", "+ b", "+ c"],
            [errors.NoValidResponseError],
            [0.2],
            id="cut in mid-line",
        ),
        pytest.param(
            [page(10), stream(ONE, b'{"type":"ADD')],
            ["list", "watch 10", "watch 11"],
            ["=", "+ b"],
            [errors.NoValidResponseError],
            [0.2],
            id="ended in mid-line",
        ),
        pytest.param(
            [page(10, "a"), refusal(410, "Expired"), page(30, "c")],
            ["list", "watch 10", "list", "watch 30"],
            ["= a", "= c"],
            [errors.ExpiredError],
            [],
            id="410 as an answer",
        ),
        pytest.param(
            [page(10, "a"), stream(ONE, error_event(410, "Expired")), page(30, "c")],
            ["list", "watch 10", "list", "watch 30"],
            ["= a", "+ b", "= c"],
            [errors.ExpiredError],
            [],
            id="410 as an event",
        ),
        pytest.param(
            [page(10), *[refusal(410, "Expired"), page(30)] * 3],
            ["list", "watch 10", *["list", "watch 30"] * 3],
            ["="] * 4,
            [errors.ExpiredError] * 3,
            [0.2, 0.4],
            id="410 again and again is not answered with list after list",
        ),
        pytest.param(
            [page(10), stream(ONE, error_event(500, "InternalError")), stream(event("ADDED", "c", 12))],
            ["list", "watch 10", "watch 11", "watch 12"],
            ["=", "+ b", "+ c"],
            [errors.ServerError],
            [0.2],
            id="another error as an event",
        ),
        pytest.param(
            [page(10), *[refusal(500, "InternalError")] * 3, stream(ONE), refusal(503, "ServiceUnavailable")],
            ["list", *["watch 10"] * 4, *["watch 11"] * 2],
            ["=", "+ b"],
            [errors.ServerError] * 4,
            [0.2, 0.4, 0.8, 0.2],
            id="500s back off, and what is received sets it back",
        ),
        pytest.param(
            [page(10), *[refusal(504, "Timeout")] * 5, page(3)],
            ["list", *["watch 10"] * 5, "list", "watch 3"],
            ["=", "="],
            [errors.ServerError] * 5,
            [0.2, 0.4, 0.8, 1.6, 3.2],
            id="a version that is never served is given up",
        ),
        pytest.param(
            [page(10), refusal(400, "BadRequest"), page(3)],
            ["list", "watch 10", "list", "watch 3"],
            ["=", "="],
            [errors.ResponseError],
            [0.2],
            id="a version that is refused is given up",
        ),
        pytest.param(
            [*[refusal(404, "NotFound")] * 2, page(10, "a")],
            ["list", "list", "list", "watch 10"],
            ["= a"],
            [errors.NotFoundError] * 2,
            [0.2, 0.4],
            id="no such kind yet",
        ),
        pytest.param(
            [page(10), refusal(404, "NotFound"), refusal(404, "NotFound"), page(30)],
            ["list", "watch 10", "list", "list", "watch 30"],
            ["=", "="],
            [errors.NotFoundError] * 2,
            [0.2, 0.4],
            id="the kind was taken away and came back",
        ),
        pytest.param(
            [page(10), refusal(429, "TooManyRequests", Retry_After="7")],
            ["list", "watch 10", "watch 10"],
            ["="],
            [errors.TooManyRequestsError],
            [7.0],
            id="Retry-After is waited for",
        ),
        pytest.param(
            [page(10), refusal(503, "ServiceUnavailable", Retry_After="86400")],
            ["list", "watch 10", "watch 10"],
            ["="],
            [errors.ServerError],
            [300.0],
            id="but not for a day",
        ),
        pytest.param(
            [text("<html>502</html>", 502, "text/html"), page(10)],
            ["list", "list", "watch 10"],
            ["="],
            [errors.ServerError],
            [0.2],
            id="a page of a proxy",
        ),
        pytest.param(
            [text("<html>log in</html>", 200, "text/html"), text("{}"), text('{"metadata":{}}'), page(10)],
            ["list"] * 4 + ["watch 10"],
            ["="],
            [errors.NotKubernetesError, errors.NoValidResponseError, errors.NoValidResponseError],
            [0.2, 0.4, 0.8],
            id="not a list",
        ),
        pytest.param(
            [page(10), stream(ONE, b"nonsense\n"), stream(b'{"type":"NEW","object":{"metadata":{}}}\n')],
            ["list", "watch 10", "watch 11", "watch 11"],
            ["=", "+ b"],
            [errors.NoValidResponseError] * 2,
            [0.2, 0.4],
            id="lines that are no events",
        ),
        pytest.param(
            [page(10), stream(), stream(), stream(ONE), stream()],
            ["list", *["watch 10"] * 3, *["watch 11"] * 2],
            ["=", "+ b"],
            [],
            [0.2, 0.4, 0.2],
            id="watches that give nothing are not asked for on and on",
        ),
        pytest.param(
            [page(10, "a", more="x"), page(10, "b", more="y"), page(10, "c")],
            ["list", "list x", "list y", "watch 10"],
            ["= a b c"],
            [],
            [],
            id="a list in pages",
        ),
        pytest.param(
            [page(10, "a", more="x"), refusal(410, "Expired"), page(20, "a", "b")],
            ["list", "list x", "list", "watch 20"],
            ["= a b"],
            [],
            [],
            id="a page that expired",
        ),
        pytest.param(
            [page(10, "a", more="x"), refusal(500, "InternalError"), page(20, "b")],
            ["list", "list x", "list", "watch 20"],
            ["= b"],
            [errors.ServerError],
            [0.2],
            id="a page that failed",
        ),
    ],
)
def test_reflector_lists_and_watches(
    answers: list[Answer], asked: list[str], news: list[str], troubles: list[type], slept: list[float]
) -> None:
    async def follow() -> None:
        async with following_of(Script(*answers)) as followed:
            assert followed.asked() == asked
            assert followed.news == news
            assert [type(each) for each in followed.troubles] == troubles
            assert followed.slept == pytest.approx(slept)

    run(follow())


def test_requests_of_a_reflector() -> None:
    async def follow() -> None:
        script = Script(page(10, more="x"), refusal(410, "Expired"), page(10))
        async with following_of(script, namespace="team", label_selector="a=b", page_size=7):
            assert {each.path for each in script.received} == {"/api/v1/namespaces/team/pods"}
            selector = {"labelSelector": "a=b"}
            assert [each.query for each in script.received] == [
                {**selector, "limit": "7"},
                {**selector, "limit": "7", "continue": "x"},
                # In one piece: no page of it can expire.
                selector,
                {
                    **selector,
                    "watch": "true",
                    "allowWatchBookmarks": "true",
                    "resourceVersion": "10",
                    "timeoutSeconds": "480",
                },
            ]

    run(follow())


def test_long_watch_is_not_a_failure() -> None:
    """Something on the way cuts what is silent for a minute: the back-off must not grow from that."""

    async def follow() -> None:
        times = iter(range(0, 100_000, 60))
        script = Script(page(10), *[stream(is_cut=True)] * 4)
        async with following_of(script, clock=lambda: float(next(times))) as followed:
            assert followed.slept == pytest.approx([0.2] * 4)

    run(follow())


def test_silent_watch_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "WATCH_SECONDS", (0.1, 0.2))
    monkeypatch.setattr(reflector, "GRACE_SECONDS", 0.1)

    async def silent(request: Any) -> Any:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async def follow() -> None:
        async with following_of(Script(page(10), silent)) as followed:
            assert followed.asked() == ["list", "watch 10", "watch 10"]
            assert [str(each) for each in followed.troubles] == ["GET /api/v1/pods: the stream timed out"]

    run(follow())


def test_error_of_the_receiver_is_raised() -> None:
    def receive(news: ResourceEvent) -> None:
        raise ZeroDivisionError

    async def follow() -> None:
        script = Script(page(10))
        async with serving(script), Transport(access.anonymous(script.url)) as transport:
            with pytest.raises(ZeroDivisionError):
                await Reflector(transport, resources.PODS, receive=receive).run()

    run(follow())


@pytest.mark.parametrize(
    ("failures", "randomness", "wished", "seconds"),
    [
        (1, 0.0, None, 0.1),
        (1, 1.0, None, 0.2),
        (3, 0.5, None, 0.6),
        (9, 1.0, None, 30.0),
        (10_000, 0.0, None, 15.0),
        (1, 0.0, 7.0, 7.0),
        (9, 1.0, 7.0, 30.0),
        (1, 1.0, 9000.0, 300.0),
    ],
)
def test_backoff_grows_with_failures(
    failures: int, randomness: float, wished: float | None, seconds: float
) -> None:
    assert reflector.backoff_seconds(failures, randomness, wished) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("error", "failures", "expected"),
    [
        (errors.NotSentError("cannot connect"), 1000, False),
        (errors.NoValidResponseError("cut"), 1, False),
        (errors.NoValidResponseError("cut"), 5, True),
        *[
            (errors.from_response(code, {}, json.dumps(status_body(code, "X")).encode()), failures, expected)
            for code, failures, expected in [
                (410, 1, True),
                (404, 1, True),
                (401, 1000, False),
                (403, 1000, False),
                (429, 1000, False),
                (500, 1, False),
                (500, 5, True),
            ]
        ],
    ],
)
def test_relist_after_certain_errors(error: errors.ApiError, failures: int, expected: bool) -> None:
    assert reflector.must_relist(error, failures) is expected
