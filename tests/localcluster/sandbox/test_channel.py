"""Messages and descriptors arrive whole, in their order, and each descriptor with its own message."""

import os
import socket
import stat
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from windlass.localcluster.sandbox import channel, messages
from windlass.localcluster.sandbox.channel import Channel
from windlass.localcluster.sandbox.messages import Done, Hello, Opened, Rejected, RunReports

Ends = tuple[Channel[Any], Channel[Any]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    left, right = channel.pair(messages.FromSupervisor, messages.FromSpawner | Hello)
    right.socket.settimeout(60)
    yield left, right
    left.close()
    right.close()


def received(end: Channel[Any], count: int) -> list[tuple[Any, list[int]]]:
    found: list[tuple[Any, list[int]]] = []
    while len(found) < count:
        found += end.receive()
    return found


def pipe_with(word: bytes) -> int:
    """The read end of one that holds the word."""
    reader, writer = os.pipe()
    os.write(writer, word)
    os.close(writer)
    return reader


def test_messages_keep_their_order(ends: Ends) -> None:
    left, right = ends
    sent = [Done(1), Rejected(2, "no"), Done(3)]
    for message in sent:
        left.send(message)
    assert received(right, 3) == [(message, []) for message in sent]


def test_messages_in_both_directions(ends: Ends) -> None:
    left, right = ends
    right.send(messages.Exited(1, 2))
    assert left.receive() == [(messages.Exited(1, 2), [])]


def test_message_in_pieces_is_assembled(ends: Ends) -> None:
    left, right = ends
    body = msgspec.msgpack.encode(Rejected(1, "why"))
    data = len(body).to_bytes(4, "big") + b"\0" + body
    for index in range(len(data) - 1):
        left.socket.sendall(data[index : index + 1])
        assert right.receive() == []
    left.socket.sendall(data[-1:])
    assert right.receive() == [(Rejected(1, "why"), [])]


@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_message_larger_than_the_socket_buffer(ends: Ends, count: int, seconds: int | None) -> None:
    """One that waits only so long sends a part at a time."""
    left, right = ends
    left.socket.settimeout(seconds)
    sent = Hello(tuple(RunReports(f"{number:064}") for number in range(20000)))
    given = [pipe_with(b"%d" % number) for number in range(count)]
    sending = threading.Thread(target=left.send, args=(sent, *given))
    sending.start()
    ((message, descriptors),) = received(right, 1)
    sending.join()
    assert message == sent
    assert [os.read(each, 9) for each in descriptors] == [b"%d" % number for number in range(count)]
    for each in (*given, *descriptors):
        os.close(each)


def test_descriptors_arrive_with_their_message(ends: Ends) -> None:
    left, right = ends
    words = [b"one", b"two", b"three", b"four"]
    given = [pipe_with(word) for word in words]
    left.send(Opened(1), *given[:1])
    left.send(Done(2))
    left.send(Opened(3), *given[1:])
    for each in given:
        # They stay open for the sender.
        os.close(each)
    answers = received(right, 3)
    assert [message for message, _ in answers] == [Opened(1), Done(2), Opened(3)]
    assert [[os.read(each, 9) for each in descriptors] for _, descriptors in answers] == [
        words[:1],
        [],
        words[1:],
    ]
    for _, descriptors in answers:
        for each in descriptors:
            os.close(each)


def test_received_descriptors_are_close_on_exec(ends: Ends) -> None:
    left, right = ends
    given = pipe_with(b"")
    left.send(Opened(1), given)
    ((_, (mine,)),) = right.receive()
    assert not os.get_inheritable(mine)
    os.close(mine)
    os.close(given)


def test_unclaimed_descriptors_are_closed(ends: Ends) -> None:
    """Half of a message has come, with its descriptor, when the end is closed."""
    left, right = ends
    reader, writer = os.pipe()
    socket.send_fds(left.socket, [b"\0\0\0\x09\x01half"], [writer])
    os.close(writer)
    assert right.receive() == []
    right.close()
    os.set_blocking(reader, False)
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.parametrize("is_reset", [False, True])
def test_end_of_the_connection_raises(ends: Ends, is_reset: bool) -> None:
    left, right = ends
    if is_reset:
        # What the other side has not read makes its end a fault instead of an end.
        right.send(Done(1))
    left.close()
    with pytest.raises(EOFError):
        right.receive()
    with pytest.raises(OSError, match="Broken pipe"):
        right.send(Done(2))


def test_messages_before_the_end_are_received(ends: Ends) -> None:
    left, right = ends
    left.send(Done(1))
    left.close()
    assert right.receive() == [(Done(1), [])]
    with pytest.raises(EOFError):
        right.receive()


@pytest.mark.parametrize(
    "message", [messages.Exited(1, 2), messages.Spawn(1, messages.PodPlan("", "", "")), messages.End()]
)
def test_message_of_another_type_is_rejected(ends: Ends, message: msgspec.Struct) -> None:
    left, right = ends
    left.send(message)
    with pytest.raises(msgspec.ValidationError):
        right.receive()


def test_channel_can_be_polled(ends: Ends) -> None:
    left, _ = ends
    assert stat.S_ISSOCK(os.fstat(left.fileno()).st_mode)
