"""Tasks that a test controls through the API server's proxy to their pods."""

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
# An API server may open a connection and send nothing: other connections must not wait for it.
http.server.ThreadingHTTPServer(('', {PORT}), Handler).serve_forever()
"""
GRACE_SECONDS: Final = 1200
"""Longer than any test: a task that ignores SIGTERM must be ended, or its namespace waits that long."""

SECONDS_TO_ANSWER: Final = 20.0 if kubernetes_binaries.is_oldest() else SECONDS
"""The proxy of Kubernetes 1.20 may lose a response: then the request is repeated."""


def role(name: str = "worker", tasks: int = 1, **more: Any) -> Json:
    """Return a role whose tasks run until they are ended, and end at once on SIGTERM."""
    spec = {
        "container": {"command": ["python3", "-c", PROGRAM]},
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        # A pod is Running before its program handles signals. The first process of a PID namespace would
        # ignore an early signal, which is sent only once; any other process ends.
        "shareProcessNamespace": True,
    }
    return jobs.role(name, tasks, pod_spec=spec, **more)


def end(place: Place, pod: str, code: int = 0) -> None:
    uid = place.pod(pod)["metadata"]["uid"]
    place.wait_for(f"{pod} to end", lambda: _has_ended(place, pod, uid) or _hears(place, pod, f"exit/{code}"))


def stay(place: Place, pod: str) -> None:
    """Make the task ignore SIGTERM from now on."""
    place.wait_for(f"{pod} to listen", lambda: _hears(place, pod, "stay"))


def _has_ended(place: Place, pod: str, uid: str) -> bool:
    found = place.client.get(place.path("pods", pod))
    if found.code == 404 or found.expect(200).body["metadata"]["uid"] != uid:
        return True
    return found.body["status"]["phase"] in ("Succeeded", "Failed")


def _hears(place: Place, pod: str, what: str) -> bool:
    """Return whether the task confirms it. It may not listen yet, and its last response may be lost."""
    asking = Client(place.client.access, seconds=SECONDS_TO_ANSWER)
    try:
        return asking.get(f"{place.path('pods', pod)}:{PORT}/proxy/{what}").code == 200
    except TimeoutError:
        return False
    finally:
        asking.close()
