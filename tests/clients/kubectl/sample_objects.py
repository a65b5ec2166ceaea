"""Objects of many kinds in a namespace, with the statuses that a kubelet or controller would write, and events."""

from pathlib import Path
from typing import Any, Final

from tests.clients.kubectl.runs import Kubectl

from conformance import objects

MANIFESTS: Final = Path(__file__).parent / "manifests"
THINGS: Final = MANIFESTS / "sample_objects.yaml"
WIDGETS: Final = "clients.example.com/v1"
LONG_AGO: Final = "2020-01-02T03:04:05Z"

READY: Final = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
STATUSES: Final[dict[tuple[str, str, str], dict[str, Any]]] = {
    ("pods", "", "web-0"): {
        "phase": "Running",
        "podIP": "127.0.0.9",
        "hostIP": "127.0.0.1",
        "startTime": LONG_AGO,
        "conditions": READY,
        "initContainerStatuses": [
            {
                "name": "prepare",
                "image": "busybox:1",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": LONG_AGO,
                        "finishedAt": LONG_AGO,
                    }
                },
            }
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox:1",
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": LONG_AGO}},
            }
        ],
    },
    ("deployments", "", "web"): {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "unavailableReplicas": 1,
    },
    ("jobs", "", "once"): {"startTime": LONG_AGO, "active": 1, "succeeded": 1},
    ("widgets", WIDGETS, "small"): {"phase": "Made"},
}


def create(kubectl: Kubectl) -> None:
    kubectl("create", "-f", str(THINGS))
    for (plural, group, name), status in STATUSES.items():
        write_status(kubectl, plural, name, status, group)
    create_event(kubectl, "Pod", "web-0", "Started", "Started container main")
    create_event(kubectl, "Widget", "small", "Made", "It was made", WIDGETS)


def post(kubectl: Kubectl, body: Any) -> Any:
    """Create an object over the API, which is faster than kubectl. For setup only."""
    plural = f"{body['kind'].lower()}s"
    path = objects.path(plural, namespace=kubectl.namespace, group=body["apiVersion"])
    return kubectl.server.api.post(path, body).expect(201).body


def write_status(kubectl: Kubectl, plural: str, name: str, status: dict[str, Any], group: str = "") -> None:
    path = objects.path(plural, name, "status", namespace=kubectl.namespace, group=group)
    kubectl.server.api.patch(path, {"status": status}).expect(200)


def create_event(
    kubectl: Kubectl, kind: str, name: str, reason: str, message: str, version: str = "v1"
) -> None:
    """Create an event about an object, with its UID."""
    found = kubectl.json("get", kind, name)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason.lower()}"},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": 1,
        "source": {"component": "tests"},
        "firstTimestamp": LONG_AGO,
        "lastTimestamp": LONG_AGO,
        "involvedObject": {
            "apiVersion": version,
            "kind": kind,
            "name": name,
            "namespace": kubectl.namespace,
            "uid": found["metadata"]["uid"],
        },
    }
    kubectl.server.api.post(objects.path("events", namespace=kubectl.namespace), event).expect(201)
