"""Channels in a WebSocket."""

import pytest

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.streams import websockets

_ALL_BYTES = bytes(range(256))
_V5, _V4, *_, _BASE64, _OLD_BASE64, _PLAIN = websockets.REMOTE_COMMAND


@pytest.mark.parametrize(
    ("protocol", "message", "expected"),
    [
        (_V5, b"\x01\x00\xff", websockets.Data(1, b"\x00\xff")),
        (_V5, b"\x01", websockets.Data(1, b"")),
        (_V5, b"\xff\x00", websockets.Closed(0)),
        (_V5, b"\xff", None),
        (_V4, b"\xff\x00", websockets.Data(255, b"\x00")),
        (_PLAIN, "\x00text", websockets.Data(0, b"text")),
        (_BASE64, "0aGk=", websockets.Data(0, b"hi")),
        (_OLD_BASE64, b"2aGk=", websockets.Data(2, b"hi")),
        (_BASE64, "0a", None),
        (_BASE64, "0***", None),
        (_V4, b"", None),
        (_V4, "", None),
    ],
)
def test_messages_are_decoded(
    protocol: websockets.Subprotocol,
    message: bytes | str,
    expected: websockets.Data | websockets.Closed | None,
) -> None:
    assert websockets.decode(protocol, message) == expected


@pytest.mark.parametrize("protocol", websockets.REMOTE_COMMAND)
@pytest.mark.parametrize("channel", range(5))
def test_encoding_round_trips(protocol: websockets.Subprotocol, channel: int) -> None:
    message = websockets.encode(protocol, channel, _ALL_BYTES)
    assert websockets.decode(protocol, message) == websockets.Data(channel, _ALL_BYTES)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"Width":80,"Height":24}', websockets.Size(80, 24)),
        (b'{"Width":80,"Height":24}\n', websockets.Size(80, 24)),
        (b'{"Width":80}', None),
        (b"80x24", None),
        (b"", None),
    ],
)
def test_terminal_sizes(data: bytes, expected: websockets.Size | None) -> None:
    assert websockets.parse_size(data) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], ""),
        (["v4.channel.k8s.io", "v5.channel.k8s.io"], "v4.channel.k8s.io"),
        (["v9.channel.k8s.io", " channel.k8s.io"], "channel.k8s.io"),
    ],
)
def test_first_supported_subprotocol_is_chosen(asked: list[str], expected: str) -> None:
    assert websockets.choose_subprotocol(asked, websockets.REMOTE_COMMAND).name == expected


def test_unknown_subprotocols_are_rejected() -> None:
    with pytest.raises(api_errors.ApiError) as caught:
        websockets.choose_subprotocol(["a", "b"], websockets.PORT_FORWARD)
    expected = "requested protocol(s) are not supported: [a b]; supports [v4.channel.k8s.io v4.base64.channel.k8s.io]"
    assert (caught.value.code, caught.value.message) == (400, expected)


def test_ports_are_announced_little_endian() -> None:
    assert websockets.port_announcement(0x1234) == b"\x34\x12"
