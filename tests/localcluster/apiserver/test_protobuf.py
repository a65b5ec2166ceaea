"""Protobuf bodies recorded from kubectl 1.32, and invalid ones."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import protobuf

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "protobuf_bodies.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=[row["command"] for row in ROWS])
def test_body_of_kubectl_is_decoded(row: dict[str, Any]) -> None:
    assert protobuf.decode(base64.b64decode(row["body"])) == row["object"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", 400, id="empty"),
        pytest.param(b"{}", 400, id="JSON"),
        pytest.param(b"k8s\0", 415, id="nothing"),
        pytest.param(b"k8s\0\xff\xff", 400, id="cut off"),
        pytest.param(b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Thing", 415, id="unknown kind"),
        pytest.param(b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x03\xf2\x3f\x05", 400, id="unknown field"),
    ],
)
def test_invalid_body_is_rejected(body: bytes, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        protobuf.decode(body)
    assert refused.value.code == code


@given(row=st.sampled_from(ROWS), data=st.data())
def test_damaged_body_is_decoded_or_rejected(row: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(base64.b64decode(row["body"]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ApiError):
        assert isinstance(protobuf.decode(bytes(body)), dict)
