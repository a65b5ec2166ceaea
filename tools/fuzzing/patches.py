"""Patch stored objects: valid operations in random order, and invalid ones."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzzing import objects, queries, values, writes
from fuzzing.session import Session
from fuzzing.surface import Resource
from fuzzing.wire import Line, Request

_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_ODD_TYPES = ("application/apply-patch+yaml", "application/json", "", "application/json-patch+json; x")
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_POINTERS = (
    "",
    "/",
    "/-",
    "/a",
    "a",
    "//",
    "/~",
    "/~2",
    "/~0~1",
    "/metadata/labels/-",
    "/spec/-/-",
    "/\0",
    "/\ud800",
    "/é",
)
_DIRECTIVES: tuple[dict[str, Any], ...] = (
    {"$patch": "delete"},
    {"$patch": "replace"},
    {"$patch": "merge"},
    {"$patch": "nonsense"},
    {"$patch": None},
    {"$retainKeys": ["name", "type"]},
    {"$retainKeys": [1]},
    {"$setElementOrder/containers": [{"name": "second"}, {"name": "main"}]},
    {"$setElementOrder/ports": [{"port": 1}]},
    {"$setElementOrder/finalizers": ["a/b"]},
    {"$deleteFromPrimitiveList/finalizers": ["a/b"]},
    {"$deleteFromPrimitiveList/x": 3},
)


def run(session: Session, line: Line, dice: Random) -> None:
    while session.goes_on():
        resource = dice.choice(session.surface.resources)
        namespace, name = dice.choice(objects.NAMESPACES), objects.name_of_one(resource, dice)
        path = resource.path(namespace, name)
        given = writes.stored(session, line, path) or _made(session, line, resource, namespace, name, dice)
        if given is None:
            continue
        below = dice.choice(resource.subresources) if resource.subresources and dice.random() < 0.2 else ""
        target = queries.with_query(f"{path}/{below}" if below else path, queries.writing(dice))
        media_type, patch = _patch(given, dice)
        headers = (("Content-Type", media_type), ("Accept", "application/json"))
        answer = session.ask(line, Request("PATCH", target, headers, values.json_text(patch, dice)))
        writes.look_at(session, line, resource, answer)


def _made(
    session: Session, line: Line, resource: Resource, namespace: str, name: str, dice: Random
) -> dict[str, Any] | None:
    obj = objects.named(resource, namespace, name, dice)
    headers = (("Content-Type", "application/json"),)
    answer = session.ask(line, Request("POST", resource.path(namespace), headers, json.dumps(obj).encode()))
    return obj if answer is not None and answer.code == 201 else None


def _patch(given: dict[str, Any], dice: Random) -> tuple[str, Any]:
    draw = dice.random()
    if draw < 0.4:
        pointers = [*_pointers(given, ""), *_POINTERS]
        operations = [_operation(given, pointers, dice) for _ in range(dice.choice((1, 1, 1, 2, 3, 8)))]
        patch = values.mutated(operations, dice) if dice.random() < 0.15 else operations
        return _JSON_PATCH, patch
    if draw < 0.65:
        return _MERGE, _part(given, dice, with_directives=False)
    if draw < 0.97:
        return _STRATEGIC, _part(given, dice, with_directives=True)
    return dice.choice(_ODD_TYPES), _part(given, dice, with_directives=False)


def _operation(given: dict[str, Any], pointers: list[str], dice: Random) -> dict[str, Any]:
    operation: dict[str, Any] = {"op": dice.choice(_OPERATIONS), "path": _pointer(pointers, dice)}
    if operation["op"] in ("move", "copy"):
        operation["from"] = _pointer(pointers, dice)
    elif operation["op"] != "remove" and dice.random() < 0.95:
        operation["value"] = (
            _value_at(given, operation["path"]) if dice.random() < 0.3 else values.anything(dice)
        )
    return operation


def _pointer(pointers: list[str], dice: Random) -> str:
    chosen = dice.choice(pointers)
    return chosen + dice.choice(("", "", "", "", "/-", "/0", "/1", "/-1", "/00", "/99", "/x", "/"))


def _pointers(value: Any, prefix: str) -> Iterator[str]:
    """Yield the pointers to all parts of a value."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, below in entries:
        pointer = f"{prefix}/{str(name).replace('~', '~0').replace('/', '~1')}"
        yield pointer
        yield from _pointers(below, pointer)


def _value_at(value: Any, pointer: str) -> Any:
    for name in pointer.split("/")[1:]:
        try:
            value = (
                value[int(name)]
                if isinstance(value, list)
                else value[name.replace("~1", "/").replace("~0", "~")]
            )
        except (LookupError, TypeError, ValueError):
            return None
    return value


def _part(value: Any, dice: Random, *, with_directives: bool) -> Any:
    """Return a part of an object with changes, as in a merge patch."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        chosen = dice.sample(sorted(value), k=min(len(value), dice.randint(1, 2)))
        found = {name: _part(value[name], dice, with_directives=with_directives) for name in chosen}
        if dice.random() < 0.2:
            found[values.key(dice)] = values.anything(dice)
        return found | (dice.choice(_DIRECTIVES) if with_directives and dice.random() < 0.2 else {})
    if isinstance(value, list) and value and dice.random() < 0.7:
        items = [_part(one, dice, with_directives=with_directives) for one in value[: dice.randint(1, 3)]]
        return [*items, dice.choice(_DIRECTIVES)] if with_directives and dice.random() < 0.2 else items
    return value if dice.random() < 0.3 else values.anything(dice)
