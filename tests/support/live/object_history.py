"""Record every version of some objects while a test runs.

Versions of all kinds are ordered by resourceVersion.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

from conformance.client import Client, Json

SILENCE = 3600.0
"""A watch may be idle as long as a test."""


class History:
    def __init__(self) -> None:
        self.events: list[Json] = []

    def versions(self, name: str) -> list[Json]:
        """Return the versions, oldest first."""
        objects = [event["object"] for event in tuple(self.events)]
        return [each for each in objects if each["metadata"]["name"] == name]

    def uids(self, name: str) -> list[str]:
        """Return the uids of all objects of that name, in order."""
        return list(dict.fromkeys(each["metadata"]["uid"] for each in self.versions(name)))

    def first(self, name: str, is_true: Callable[[Json], bool]) -> int:
        """Return the first resourceVersion at which the condition held."""
        return next(version_of(each) for each in self.versions(name) if is_true(each))

    def is_gone(self, uid: str) -> bool:
        return any(
            event["type"] == "DELETED" and event["object"]["metadata"]["uid"] == uid
            for event in tuple(self.events)
        )


def version_of(body: Json) -> int:
    return int(body["metadata"]["resourceVersion"])


@contextlib.contextmanager
def kept(client: Client, path: str) -> Iterator[History]:
    """Record existing and new objects."""
    history = History()
    connection = client.access.connect(timeout=SILENCE)
    headers = {"Authorization": f"Bearer {client.access.token}"} if client.access.token else {}
    connection.request("GET", f"{path}?watch=true", headers=headers)
    wire = connection.sock
    response = connection.getresponse()
    assert response.status == 200, response.read()

    def follow() -> None:
        with contextlib.suppress(
            OSError, ValueError
        ):  # the end of the connection, within a line or between two
            for line in response:
                event = json.loads(line)
                if event["type"] != "BOOKMARK":  # a bookmark has a resourceVersion and no name
                    history.events.append(event)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield history
    finally:
        with contextlib.suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)
        follower.join()
        connection.close()
