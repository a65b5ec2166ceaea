"""Write odd and invalid objects: new ones, and changes of existing ones."""

import json
from random import Random
from typing import Any

from fuzzing import objects, protobufs, queries, values, verdicts, yaml_texts
from fuzzing.session import Session
from fuzzing.surface import Resource
from fuzzing.wire import Answer, Line, Request

_JSON = "application/json"
_YAML = "application/yaml"
_ODD_TYPES = (
    "",
    "text/plain",
    "application/json; charset=utf-16",
    "application/vnd.kubernetes.protobuf",
    ";",
    "é",
    "a/b;c",
)
_TURN = 40
"""Number of requests after which the kinds are discovered again."""

_OPTIONS: dict[str, Any] = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
    "preconditions": {"uid": "u", "resourceVersion": "1"},
    "dryRun": ["All"],
}
_BELOW: dict[str, Any] = {
    "scale": {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {"replicas": 2}},
    "binding": {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {},
        "target": {"kind": "Node", "name": "n"},
    },
    "eviction": {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {}, "deleteOptions": _OPTIONS},
    "token": {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"},
        },
    },
}
_CREATED = ("binding", "eviction", "token")


def run(session: Session, line: Line, dice: Random) -> None:
    turn = 0
    while session.goes_on():
        turn += 1
        if turn % _TURN == 0:
            session.rediscover(line)
        resource = dice.choice((*session.surface.resources, *session.surface.reviews))
        namespace, name = dice.choice(objects.NAMESPACES), objects.name_of_one(resource, dice)
        answer = session.ask(line, _request(session, line, resource, namespace, name, dice))
        look_at(session, line, resource, answer)


def _request(
    session: Session, line: Line, resource: Resource, namespace: str, name: str, dice: Random
) -> Request:
    draw = dice.random()
    if draw < 0.55:
        given = objects.named(resource, namespace, name, dice)
        return _written("POST", resource.path(namespace), given, dice)
    path = resource.path(namespace, name)
    if draw < 0.7:
        return _written(
            "PUT", path, stored(session, line, path) or objects.named(resource, namespace, name, dice), dice
        )
    if draw < 0.9 and resource.subresources:
        return _below(session, line, resource, path, dice)
    collection = dice.random() < 0.1 and resource.kind not in ("Namespace", "CustomResourceDefinition")
    query = queries.deleting(dice) | (queries.selecting(dice) if collection else {})
    target = queries.with_query(resource.path(namespace) if collection else path, query)
    if dice.random() < 0.5:
        return Request("DELETE", target)
    return _written("DELETE", target, _OPTIONS, dice)


def _below(session: Session, line: Line, resource: Resource, path: str, dice: Random) -> Request:
    subresource = dice.choice(resource.subresources)
    valid = objects.of(resource, dice)
    valid["metadata"]["name"] = path.rpartition("/")[2]
    given = _BELOW.get(subresource) or (stored(session, line, path) if dice.random() < 0.5 else None) or valid
    method = "POST" if subresource in _CREATED else dice.choice(("PUT", "PUT", "GET", "POST"))
    return _written(method, f"{path}/{subresource}", given, dice)


def _written(method: str, target: str, given: Any, dice: Random) -> Request:
    value = _mutated(given, target, dice) if dice.random() < 0.9 else given
    if "?" not in target:
        target = queries.with_query(target, queries.writing(dice))
    if method == "GET":
        return Request(method, target)
    draw = dice.random()
    if draw < 0.2:
        return Request(method, target, (("Content-Type", _YAML),), yaml_texts.yaml_text(value, dice))
    if draw < 0.3:
        in_protobuf = (("Content-Type", protobufs.MEDIA_TYPE),)
        return Request(method, target, in_protobuf, protobufs.protobuf(value, dice))
    media_type = _JSON if dice.random() < 0.95 else dice.choice(_ODD_TYPES)
    accept = dice.choice(queries.ACCEPTS) if dice.random() < 0.1 else _JSON
    headers = (("Content-Type", media_type), ("Accept", accept))
    return Request(method, target, headers, values.json_text(value, dice))


def _mutated(given: Any, target: str, dice: Random) -> Any:
    """Mutate mostly the relevant part: an object of the wrong kind is rejected early."""
    about = "status" if target.endswith("/status") else dice.choice(("metadata", "spec", "spec", "spec"))
    if not given.get(about) or dice.random() < 0.3:
        return values.mutated(given, dice)
    return {**given, about: values.mutated(given[about], dice)}


def look_at(session: Session, line: Line, resource: Resource, answer: Answer | None) -> None:
    """Check that an accepted object can be read in every form."""
    obj = verdicts.parsed(answer) if answer is not None and answer.code in (200, 201) else None
    if not isinstance(obj, dict) or obj.get("kind") != resource.kind or resource in session.surface.reviews:
        return
    path = resource.path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    for accept in (queries.TABLE, _YAML):
        session.ask(line, Request("GET", path, (("Accept", accept),)))


def stored(session: Session, line: Line, path: str) -> Any:
    """Return the object at a path, or None."""
    answer = session.ask(line, Request("GET", path))
    return json.loads(answer.body) if answer is not None and answer.code == 200 else None
