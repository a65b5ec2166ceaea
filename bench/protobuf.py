"""Compare the CPU time per pod of JSON, of Windlass' protobuf and, if it is installed, of the package `protobuf`.

    python bench/protobuf.py

The view that is decoded is that of the controller. Times are user time in microseconds, the best of several rounds.
"""

import importlib
import timeit
from collections.abc import Callable
from time import process_time
from typing import Any, Final

import msgspec

from windlass.k8s.protobuf import encoding, messages, views
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


def parser_of_package(found: messages.Envelope, body: bytes) -> Callable[[], object] | None:
    """Return a function that parses the pod with the package `protobuf`, without making a view; None without it."""
    try:
        descriptor_pb2, descriptor_pool, message_factory = (
            importlib.import_module(f"google.protobuf.{name}")
            for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
        )
    except ModuleNotFoundError:
        return None
    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="k8s.proto", package="k8s", syntax="proto2")
    scalars = {"string": proto.TYPE_STRING, "bool": proto.TYPE_BOOL, "int32": proto.TYPE_INT32}
    for name, fields in messages.table().items():
        message = file.message_type.add(name=name.replace(".", "_"))
        for number, field in fields.items():
            many = field.label in (messages.Label.REPEATED, messages.Label.MAP)
            label = proto.LABEL_REPEATED if many else proto.LABEL_OPTIONAL
            added = message.field.add(name=field.name, number=number, label=label)
            if field.type in messages.table() and field.label is not messages.Label.MAP:
                added.type, added.type_name = proto.TYPE_MESSAGE, f".k8s.{field.type.replace('.', '_')}"
            else:
                added.type = scalars.get(field.type, proto.TYPE_BYTES)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    pod = message_factory.GetMessageClass(pool.FindMessageTypeByName("k8s.core_v1_Pod"))
    content = body[found.start : found.end]
    return lambda: pod.FromString(content)


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
    if (parse := parser_of_package(messages.open_envelope(body), body)) is not None:
        measure("parse with the package protobuf, no view", parse)
    measure("encode JSON", lambda: msgspec.json.encode(POD))
    measure("encode protobuf", lambda: encoding.encode(POD))
    memo: encoding.Memo = {}
    encoding.encode(POD, memo)
    measure("encode protobuf, for the same role", lambda: encoding.encode(another_of_the_role(), memo))


def another_of_the_role() -> dict[str, Any]:
    """Return a pod with the same template and other variables."""
    (container,) = POD["spec"]["containers"]
    env = [{**variable} for variable in container["env"]]
    return {**POD, "spec": {**POD["spec"], "containers": [{**container, "env": env}]}}


if __name__ == "__main__":
    main()
