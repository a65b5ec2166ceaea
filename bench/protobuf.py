"""Compare the CPU time per pod of JSON and of protobuf.

    python bench/protobuf.py

The view that is decoded is that of the controller. Times are user time in microseconds, the best of several rounds.
"""

import timeit
from collections.abc import Callable
from time import process_time
from typing import Any, Final

import msgspec

from windlass.k8s.protobuf import encoding, views
from windlass.model.pods import PodView

ROUNDS: Final = 7
NUMBER: Final = 500
UID: Final = "b0a5a1a8-5a0f-4c55-9f07-a86a5f6f1b11"
POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "job-worker-0",
        "namespace": "team-a",
        "uid": UID,
        "resourceVersion": "123456",
        "creationTimestamp": "2026-11-19T10:00:00Z",
        "labels": dict.fromkeys(("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "windlass.dev/attempt"), UID),
        "annotations": {f"FC_ANNOTATION_{number}": UID for number in range(13)},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "job-attempt", "uid": UID, "controller": True}
        ],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["sh", "-c", "true"],
                "env": [{"name": f"FC_ANNOTATION_{number}", "value": UID} for number in range(15)],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
        "restartPolicy": "Never",
        "nodeName": "node-1",
    },
    "status": {
        "phase": "Succeeded",
        "conditions": [{"type": name, "status": "True"} for name in ("Initialized", "Ready", "PodScheduled")],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.2.3",
        "startTime": "2026-11-19T10:00:00Z",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-11-19T10:00:01Z"}},
                "ready": False,
                "restartCount": 0,
                "image": "busybox",
                "imageID": "",
            }
        ],
    },
}


def measure(what: str, act: Callable[[], object]) -> None:
    seconds = min(timeit.repeat(act, number=NUMBER, repeat=ROUNDS, timer=process_time)) / NUMBER
    print(f"{what:42} {seconds * 1e6:8.1f} µs")


def main() -> None:
    body, text = encoding.encode(POD), msgspec.json.encode(POD)
    if body is None:
        raise AssertionError("the pod cannot be encoded")
    decode_json = msgspec.json.Decoder(PodView).decode
    decode = views.Decoder(PodView, "v1", "Pod").decode
    if decode(body) != decode_json(text):
        raise AssertionError("the views differ")
    print(f"JSON: {len(text)} bytes; protobuf: {len(body)} bytes")
    measure("decode a view of JSON", lambda: decode_json(text))
    measure("decode a view of protobuf", lambda: decode(body))
    measure("encode JSON", lambda: msgspec.json.encode(POD))
    measure("encode protobuf", lambda: encoding.encode(POD))
    memo: encoding.Memo = {}
    encoding.encode(POD, memo)
    measure("encode protobuf, for the same role", lambda: encoding.encode(another_of_the_role(), memo))


def another_of_the_role() -> dict[str, Any]:
    """Return a pod with the same template and other metadata and variables."""
    (container,) = POD["spec"]["containers"]
    env = [{**variable} for variable in container["env"]]
    metadata = {
        name: value.copy() if isinstance(value, dict) else value for name, value in POD["metadata"].items()
    }
    return {**POD, "metadata": metadata, "spec": {**POD["spec"], "containers": [{**container, "env": env}]}}


if __name__ == "__main__":
    main()
