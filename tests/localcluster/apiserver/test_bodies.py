"""Limits of request bodies: bytes, and values of YAML and JSON bodies."""

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import yaml
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.bodies import RequestBody
from windlass.wire.yaml import parse as yaml_parse


@pytest.fixture
def parsed_nodes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The node events that the YAML parser has produced."""
    nodes: list[Any] = []
    events_of = yaml_parse.events_of

    def recorded(text: str) -> Iterator[Any]:
        for event in events_of(text):
            if isinstance(event, yaml.NodeEvent):
                nodes.append(event)
            yield event

    monkeypatch.setattr(yaml_parse, "events_of", recorded)
    return nodes


def flow_list(values: int) -> bytes:
    """An object with a list of empty mappings, with this number of values in total."""
    return b"items: [" + b"{}," * (values - 3) + b"]"


def test_yaml_body_with_the_maximum_of_values_is_accepted(parsed_nodes: list[Any]) -> None:
    body = RequestBody(bodies.YAML, flow_list(bodies.MAX_YAML_VALUES))

    assert len(body.as_object()["items"]) == bodies.MAX_YAML_VALUES - 3
    assert len(parsed_nodes) == bodies.MAX_YAML_VALUES


LARGEST = b"a: [" + b"1," * (bodies.MAX_BYTES // 2 - 10) + b"]"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(flow_list(bodies.MAX_YAML_VALUES + 1), id="one too many"),
        pytest.param(LARGEST, id="3 MiB"),
        pytest.param(b"- {}\n" * (bodies.MAX_BYTES // 5), id="block list"),
        pytest.param(b"---\na\n" * (bodies.MAX_BYTES // 6), id="documents"),
    ],
)
def test_yaml_body_with_too_many_values_is_rejected_at_the_limit(
    parsed_nodes: list[Any], content: bytes
) -> None:
    assert len(content) <= bodies.MAX_BYTES
    with pytest.raises(api_errors.ApiError) as raised:
        RequestBody(bodies.YAML, content).as_object()

    assert raised.value.code == 400
    assert str(raised.value).endswith(
        "more than 20000 values, with aliases expanded: use fewer, or send the object as JSON"
    )
    assert len(parsed_nodes) == bodies.MAX_YAML_VALUES + 1


def test_aliases_count_as_often_as_they_are_expanded(parsed_nodes: list[Any]) -> None:
    content = b"a: &a [" + b"1," * 100 + b"]\nb: [" + b"*a," * 1_000 + b"]\n"
    with pytest.raises(api_errors.ApiError, match="more than 20000 values"):
        RequestBody(bodies.YAML, content).as_object()

    assert len(parsed_nodes) < 400


@pytest.mark.parametrize(("excess", "code"), [(0, None), (1, 413)])
def test_chunked_body_that_has_arrived_completely_is_limited(excess: int, code: int | None) -> None:
    assert asyncio.run(rejection_of_chunked_body(b"x" * (bodies.MAX_BYTES + excess))) == code


async def rejection_of_chunked_body(body: bytes) -> int | None:
    """Return the status code with which a body is rejected that arrives together with its headers."""
    content = StreamReader(BaseProtocol(asyncio.get_running_loop()), limit=2 * bodies.MAX_BYTES)
    content.feed_data(body)
    content.feed_eof()
    headers = {"Transfer-Encoding": "chunked"}
    request = make_mocked_request("POST", "/", headers, payload=content, protocol=mock.Mock())
    assert request.content_length is None
    try:
        assert (await bodies.read(request, timeout_seconds=60)).content == body
    except api_errors.ApiError as error:
        return error.code
    return None


@pytest.mark.parametrize("excess", [0, 1])
def test_yaml_answer_with_too_many_values_stays_json(excess: int) -> None:
    values = [1] * (bodies.MAX_YAML_VALUES - 3 + excess)
    body = bodies.encode({"items": values})

    answer = bodies.to_yaml(body)

    assert (answer == body) == bool(excess)
    assert RequestBody(bodies.JSON if excess else bodies.YAML, answer).as_object() == {"items": values}


def test_yaml_answer_with_too_many_bytes_stays_json() -> None:
    body = bodies.encode(["x" * bodies.MAX_BYTES])
    assert bodies.to_yaml(body) == body


@pytest.mark.parametrize(
    ("value", "count"), [(1, 1), ([], 1), ([1, [2, 3]], 5), ({"a": {"b": [1]}}, 6), ("text", 1)]
)
def test_keys_and_values_are_counted(value: Any, count: int) -> None:
    assert bodies.has_more_values(value, count - 1)
    assert not bodies.has_more_values(value, count)


@pytest.mark.parametrize("media_type", [bodies.JSON, bodies.MERGE_PATCH])
def test_json_body_of_a_built_in_kind_has_a_maximum_of_values(media_type: str) -> None:
    largest = bodies.encode({"items": [1] * (bodies.MAX_JSON_VALUES - 3)})
    RequestBody(media_type, largest).check_values()
    with pytest.raises(api_errors.ApiError) as raised:
        RequestBody(media_type, largest.replace(b"[", b"[1,")).check_values()
    assert raised.value.code == 413


def test_separators_in_strings_are_not_values() -> None:
    body = RequestBody(bodies.JSON, bodies.encode({"data": {"script": "[,:{" * bodies.MAX_JSON_VALUES}}))
    body.check_values()
    assert len(body.as_object()["data"]["script"]) == 4 * bodies.MAX_JSON_VALUES


def test_json_body_of_a_built_in_kind_has_a_maximum_of_objects() -> None:
    items: list[Any] = [{}] * (bodies.MAX_JSON_CONTAINERS - 2)
    RequestBody(bodies.JSON, bodies.encode({"items": items})).check_values()
    with pytest.raises(api_errors.ApiError) as raised:
        RequestBody(bodies.JSON, bodies.encode({"items": [{}, *items]})).check_values()
    assert raised.value.code == 413


def test_json_body_of_a_custom_kind_has_a_maximum_of_objects() -> None:
    roles: list[Any] = [{}] * (bodies.MAX_CUSTOM_CONTAINERS - 3)
    body = {"spec": {"taskRoles": roles}}
    RequestBody(bodies.JSON, bodies.encode(body)).check_values(is_custom=True)
    with pytest.raises(api_errors.ApiError) as raised:
        RequestBody(bodies.JSON, bodies.encode(body | {"status": {}})).check_values(is_custom=True)
    assert raised.value.code == 413
    assert (
        raised.value.message
        == "Request entity too large: limit is 3145728 keys and values, 200000 of them objects or lists"
    )


@pytest.mark.parametrize(
    ("type_name", "most"), [("", bodies.MAX_CUSTOM_CONTAINERS), ("V1Pod", bodies.MAX_JSON_CONTAINERS)]
)
def test_copies_of_a_json_patch_have_a_maximum_of_objects(type_name: str, most: int) -> None:
    copies = [{"op": "copy", "from": "/source", "path": f"/{number}"} for number in range(10)]
    obj: dict[str, Any] = {"source": [{}] * (most // 10)}
    RequestBody(bodies.JSON_PATCH, bodies.encode(copies[:-2])).as_patch(type_name)(obj)
    with pytest.raises(api_errors.ApiError) as raised:
        RequestBody(bodies.JSON_PATCH, bodies.encode(copies)).as_patch(type_name)(obj)
    assert raised.value.code == 413
