"""The ports of a pod from outside, over the WebSocket protocol."""

from pods import streaming
from pods.place import Place
from pods.specs import FOREVER, free_port

ECHO = """
import socket, sys
with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        word = connection.recv(100)
        connection.sendall(b"you said " + word)
        connection.close()
"""


def test_port_forward_connects(place: Place) -> None:
    port = free_port()
    pod = place.start(["python3", "-c", ECHO, str(port)])
    pod.says("listening")
    for word in (b"hello", b"again"):
        answer = streaming.forward(place.client.access, f"{pod.path}/portforward", port, word)
        assert (answer.data, answer.error) == (b"you said " + word, "")


def test_port_forward_to_a_closed_port_fails(place: Place) -> None:
    pod = place.start(FOREVER)
    pod.running()
    answer = streaming.forward(place.client.access, f"{pod.path}/portforward", free_port(), b"hello")
    assert answer.data == b""
    assert "refused" in answer.error.lower()
