"""A client and servers with, without and with partial support of protobuf."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from aiohttp import web
from tests.kubeapi.scripted import Answer, Received, Script, refusal, run, serving, text

from windlass.k8s.protobuf import encoding, messages, objects
from windlass.kubeapi import errors, requests, responses
from windlass.kubeapi.access import Access
from windlass.kubeapi.credentials import ClusterConfig
from windlass.kubeapi.reflector import Changed, Deleted, Listed, Reflector, ResourceEvent
from windlass.kubeapi.requests import METADATA_ONLY, PROTOBUF, Request
from windlass.kubeapi.resources import GANGS, PODS
from windlass.kubeapi.transport import Transport
from windlass.wire import codec

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}}
CREATE = requests.create_object(PODS, "t", POD)
GET = requests.get(PODS, "t", "a").with_protobuf()


def protobuf(body: bytes, code: int = 200, **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        spelt = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=code, headers={"Content-Type": PROTOBUF, **spelt})

    return answer


def encoded(obj: dict[str, Any]) -> bytes:
    body = encoding.encode(obj)
    assert body is not None
    return body


def received(script: Script, *sent: Request) -> list[Received]:
    async def send() -> None:
        async with serving(script), Transport(Access(ClusterConfig(server=script.url))) as transport:
            for request in sent:
                await transport.send(request)

    run(send())
    return script.received


def is_protobuf(each: Received) -> bool:
    return each.headers.get("Content-Type") == PROTOBUF and each.body.startswith(messages.MAGIC)


IN_JSON = text(json.dumps(POD))
IN_PROTOBUF = protobuf(encoded(POD))


def test_bodies_are_protobuf_once_the_server_has_sent_protobuf() -> None:
    first, second, third = received(Script(IN_PROTOBUF, IN_PROTOBUF, IN_JSON), CREATE, CREATE, CREATE)
    assert not is_protobuf(first)
    assert json.loads(first.body) == POD
    assert is_protobuf(second)
    assert objects.decode(second.body) == POD
    assert is_protobuf(third), "one answer in JSON, e.g. to a custom resource, means nothing"


def test_server_without_protobuf_receives_json() -> None:
    found = received(Script(IN_JSON, IN_JSON, IN_JSON), GET, CREATE, CREATE)
    assert [each.headers["Accept"] for each in found] == [f"{PROTOBUF},application/json"] * 3
    assert not any(map(is_protobuf, found))


@pytest.mark.parametrize(("code", "reason"), [(415, "UnsupportedMediaType"), (406, "NotAcceptable")])
def test_refusal_of_protobuf_falls_back_to_json_for_good(code: int, reason: str) -> None:
    script = Script(IN_PROTOBUF, refusal(code, reason), IN_JSON, IN_PROTOBUF, IN_JSON)
    found = received(script, GET, CREATE, CREATE, GET)
    assert [is_protobuf(each) for each in found] == [False, True, False, False, False]
    assert [PROTOBUF in each.headers["Accept"] for each in found] == [True, True, False, False, False]
    assert json.loads(found[2].body) == POD


def test_refusal_of_json_is_an_error() -> None:
    with pytest.raises(errors.ResponseError):
        received(Script(refusal(415, "UnsupportedMediaType")), requests.create(PODS, "t", b"{}"))


def test_manifest_that_protobuf_cannot_express_is_sent_as_json() -> None:
    """The API server reports its errors only for JSON."""
    wrong = requests.create_object(PODS, "t", {**POD, "spec": {"containers": "none"}})
    found = received(Script(IN_PROTOBUF, IN_JSON), GET, wrong)
    assert found[1].headers["Content-Type"] == requests.JSON


def test_delete_options_are_protobuf_for_built_in_kinds_only() -> None:
    deletion = requests.delete(PODS, "t", "a", uid="u", grace_seconds=0, propagation="Background")
    custom = requests.delete(GANGS, "t", "a", uid="u")
    found = received(Script(IN_PROTOBUF, IN_JSON, IN_JSON), GET, deletion, custom)
    assert objects.decode(found[1].body) == json.loads(deletion.body)
    assert json.loads(found[2].body)["preconditions"] == {"uid": "u"}


def test_metadata_only_is_asked_for_in_both_formats() -> None:
    (found,) = received(Script(IN_JSON), CREATE.with_accept(METADATA_ONLY))
    partial = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert found.headers["Accept"] == (
        f"{PROTOBUF};{partial},{PROTOBUF},application/json;{partial},application/json"
    )


def test_error_in_protobuf_is_decoded() -> None:
    content = (
        messages.entry(3, b"not now")
        + messages.entry(4, b"TooManyRequests")
        + messages.entry(5, messages.tag(5, messages.VARINT) + messages.varint(3))
        + messages.tag(6, messages.VARINT)
        + messages.varint(429)
    )
    error = errors.from_response(429, {}, messages.envelope("v1", "Status", content))
    assert isinstance(error, errors.TooManyRequestsError)
    assert (error.failure.message, error.retry_after) == ("not now", 3.0)


def test_compressed_protobuf_is_decompressed() -> None:
    async def send() -> bytes:
        script = Script(protobuf(gzip.compress(encoded(POD)), Content_Encoding="gzip"))
        async with serving(script), Transport(Access(ClusterConfig(server=script.url))) as transport:
            return await transport.send(GET)

    assert codec.decode_pod(run(send())).name == "a"


# Watches


def frame(event_type: str, obj: bytes) -> bytes:
    event = messages.entry(1, event_type.encode()) + messages.entry(2, messages.entry(1, obj))
    return len(event).to_bytes(4) + event


def pod(name: str, version: int) -> bytes:
    return encoded({**POD, "metadata": {"name": name, "resourceVersion": str(version)}})


def frames(*pieces: bytes) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": f"{PROTOBUF};stream=watch"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response

    return answer


def a_list(version: int, *items: bytes) -> Answer:
    contents = [item[slice(*messages.open_envelope(item)[2:])] for item in items]
    meta = messages.entry(1, messages.entry(2, str(version).encode()))
    body = messages.envelope("v1", "PodList", meta + b"".join(messages.entry(2, each) for each in contents))
    return protobuf(body)


def followed(*answers: Answer) -> tuple[list[ResourceEvent], list[errors.ApiError], list[Received]]:
    """Run a Reflector until it has read all answers and sends one more request."""
    news: list[ResourceEvent] = []
    failures: list[errors.ApiError] = []

    async def nothing(_: float) -> None:
        pass

    async def follow() -> list[Received]:
        script = Script(*answers)
        async with serving(script), Transport(Access(ClusterConfig(server=script.url))) as transport:
            reflector = Reflector(
                transport,
                PODS,
                receive=news.append,
                on_error=failures.append,
                accepts_protobuf=True,
                sleep=nothing,
            )
            async with asyncio.TaskGroup() as group:
                running = group.create_task(reflector.run())
                await script.over.wait()
                running.cancel()
        return script.received

    received = run(follow())
    return news, failures, received


def test_watch_in_protobuf_reports_changes_and_continues_after_a_bookmark() -> None:
    bookmark = encoded({**POD, "metadata": {"resourceVersion": "30"}})
    whole = (
        frame("ADDED", pod("a", 21))
        + frame("MODIFIED", pod("a", 22))
        + frame("DELETED", pod("a", 23))
        + frame("BOOKMARK", bookmark)
    )
    news, failures, received = followed(a_list(20, pod("b", 5)), frames(whole[:7], whole[7:90], whole[90:]))
    assert not failures
    listed, added, changed, deleted = news
    assert isinstance(listed, Listed)
    assert [codec.decode_pod(item).name for item in listed.items] == ["b"]
    assert isinstance(added, Changed)
    assert isinstance(changed, Changed)
    assert codec.decode_pod(changed.object).metadata.resource_version == "22"
    assert isinstance(deleted, Deleted)
    assert [each.query.get("resourceVersion") for each in received] == [None, "20", "30"]


def test_expired_watch_in_protobuf_lists_again() -> None:
    gone = messages.tag(6, messages.VARINT) + messages.varint(410)
    expired = frame("ERROR", messages.envelope("v1", "Status", messages.entry(3, b"too old") + gone))
    news, failures, received = followed(a_list(20), frames(expired), a_list(40))
    assert [type(error) for error in failures] == [errors.ExpiredError]
    assert [event.resource_version for event in news if isinstance(event, Listed)] == ["20", "40"]
    assert len(received) == 4


def test_connection_closed_within_a_frame_is_reported() -> None:
    whole = frame("ADDED", pod("a", 21))
    news, failures, _ = followed(a_list(20), frames(whole, whole[:-1]))
    assert len(news) == 2
    assert "closed within an event" in str(failures[0])


def test_malformed_frame_is_reported() -> None:
    _, failures, _ = followed(a_list(20), frames(b"\0\0\0\x02\x0a\xff"))
    assert "invalid watch event" in str(failures[0])


@pytest.mark.parametrize("size", [1, 3, 5, 1000])
def test_frames_do_not_depend_on_chunks(size: int) -> None:
    contents = [b"\x0a\x01A", b"", b"x" * 70_000, b"y"]
    whole = b"".join(len(each).to_bytes(4) + each for each in contents)
    splitter = responses.EventSplitter()
    found = [
        each for start in range(0, len(whole), size) for each in splitter.feed(whole[start : start + size])
    ]
    assert found == contents
    assert not splitter.has_partial_event
    assert splitter.feed(b"\0\0") == []
    assert splitter.has_partial_event
