"""Tasks that do what a test tells them, through the API server's proxy to their pods."""

from typing import Any, Final

from live import jobs
from live.place import SECONDS, Place

import kubernetes_binaries
from conformance.client import Client, Json

PORT: Final = 8080

PROGRAM: Final = f"""
import http.server, os, signal

stays = False

def leave(*_):
    if not stays:
        os._exit(0)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global stays
        what, _, number = self.path.strip('/').partition('/')
        stays = stays or what == 'stay'
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
        self.wfile.flush()
        if what == 'exit':
            os._exit(int(number))

signal.signal(signal.SIGTERM, leave)
# An API server may open a connection over which it never asks anything: nobody else may have to wait for it.
http.server.ThreadingHTTPServer(('', {PORT}), Handler).serve_forever()
"""
GRACE_SECONDS: Final = 1200
"""Longer than any test: one that was told to stay goes when it is told to end, or its namespace waits that long."""

SECONDS_TO_ANSWER: Final = 20.0 if kubernetes_binaries.is_oldest() else SECONDS
"""The proxy of Kubernetes 1.20 may lose an answer: there the task is asked again."""


def role(name: str = "worker", tasks: int = 1, **more: Any) -> Json:
    """Its tasks run until they are told otherwise, and go at once when Kubernetes asks them to."""
    spec = {
        "container": {"command": ["python3", "-c", PROGRAM]},
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        # A pod runs before its program has begun to listen to signals. The first process of a namespace would not
        # even hear one that comes so early, and it comes only once; any other process ends.
        "shareProcessNamespace": True,
    }
    return jobs.role(name, tasks, pod_spec=spec, **more)


def end(place: Place, pod: str, code: int = 0) -> None:
    uid = place.pod(pod)["metadata"]["uid"]
    place.wait_for(f"{pod} to end", lambda: _has_ended(place, pod, uid) or _hears(place, pod, f"exit/{code}"))


def stay(place: Place, pod: str) -> None:
    """From now on it does not mind being asked to go."""
    place.wait_for(f"{pod} to listen", lambda: _hears(place, pod, "stay"))


def _has_ended(place: Place, pod: str, uid: str) -> bool:
    found = place.client.get(place.path("pods", pod))
    if found.code == 404 or found.expect(200).body["metadata"]["uid"] != uid:
        return True
    return found.body["status"]["phase"] in ("Succeeded", "Failed")


def _hears(place: Place, pod: str, what: str) -> bool:
    """Does it say so? It may be a while before it listens, and what it answered last may be lost with its network."""
    asking = Client(place.client.access, seconds=SECONDS_TO_ANSWER)
    try:
        return asking.get(f"{place.path('pods', pod)}:{PORT}/proxy/{what}").code == 200
    except TimeoutError:
        return False
    finally:
        asking.close()
