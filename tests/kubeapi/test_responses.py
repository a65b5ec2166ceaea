"""A watch arrives in pieces of any size, and is whole lines again."""

import itertools
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kubeapi import responses
from windlass.kubeapi.responses import EventSplitter

DEEP = b'{"metadata":{"name":"deep","resourceVersion":"7"},"spec":' + b'{"a":' * 5000 + b'"]}"' + b"}" * 5001
"""An API server takes it, and a decoder does not."""
LINE = st.binary(max_size=20).map(lambda line: re.sub(rb"[\x00-\n]", b".", line))
"""A line without line ends and without the bytes with which a frame of protobuf begins."""


@given(st.lists(LINE), LINE, st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_chunks(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines) + rest
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    splitter = EventSplitter()
    found = [line for start, end in itertools.pairwise(places) for line in splitter.feed(whole[start:end])]
    assert found == [line for line in lines if line]
    assert splitter.has_partial_event == bool(rest)


def test_long_line_in_many_chunks() -> None:
    splitter = EventSplitter()
    for _ in range(4096):
        assert splitter.feed(b"x" * 1024) == []
    assert splitter.feed(b"\n") == [b"x" * 4 * 1024 * 1024]
    assert not splitter.has_partial_event


def test_object_stays_bytes() -> None:
    event = responses.decode_event(
        b'{"type":"ADDED","object":{"metadata" : {"resourceVersion":"7"}, "x": [1]}}'
    )
    assert event.type == responses.ADDED
    assert bytes(event.object) == b'{"metadata" : {"resourceVersion":"7"}, "x": [1]}'
    assert responses.version_of(event.object) == "7"


@pytest.mark.parametrize(
    "line", [b"", b"<html>", b"[]", b'{"type":"ADDED"}', b'{"object":{}}', b'{"type":"ADDED"']
)
def test_invalid_event_raises(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        responses.decode_event(line)


@pytest.mark.parametrize(
    ("body", "objects", "token"),
    [
        (b'{"metadata":{"resourceVersion":"5"},"items":[{"a":1},{}]}', [b'{"a":1}', b"{}"], ""),
        (b'{"metadata":{"resourceVersion":"5","continue":"next"},"items":null}', [], "next"),
        (b'{"kind":"PodList","metadata":{"resourceVersion":"5"}}', [], ""),
    ],
)
def test_page_of_a_list_is_decoded(body: bytes, objects: list[bytes], token: str) -> None:
    page = responses.decode_page(body)
    assert [bytes(each) for each in page.objects] == objects
    assert (page.metadata.resource_version, page.metadata.continue_) == ("5", token)


def test_deeply_nested_object_has_a_version() -> None:
    event = responses.decode_event(b'{"type":"MODIFIED", "object": ' + DEEP + b"}")
    assert event.type == responses.MODIFIED
    assert bytes(event.object) == DEEP
    assert responses.version_of(event.object) == "7"


@pytest.mark.parametrize(
    "line", [DEEP, b'{"type":"ADDED","objekt":' + DEEP + b"}"], ids=["no event", "no object"]
)
def test_deeply_nested_invalid_event_raises(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        responses.decode_event(line)


def test_deeply_nested_object_does_not_hide_others() -> None:
    items = [b'{"a":1}', DEEP, b"{}"]
    page = responses.decode_page(
        b'{"metadata":{"resourceVersion":"5","continue":"next"},"items":[' + b", ".join(items) + b"]}"
    )
    assert [bytes(each) for each in page.objects] == items
    assert (page.metadata.resource_version, page.metadata.continue_) == ("5", "next")
