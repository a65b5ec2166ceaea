"""Applies JSON patches (RFC 6902) and merge patches (RFC 7386) like Kubernetes, which is less strict than the RFCs.

Results share no data with the arguments. Strategic merge patches are in `strategic_merge`.
"""

import copy
import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import msgspec

from windlass.k8s import api_errors

MAX_OPERATIONS = 10_000
# The limit for the data that copy operations of a patch add. Without it, about 30 operations fill the memory.
MAX_COPIED_BYTES = 3 * 1024 * 1024
# Maximum number of list elements that the insertions and removals of a patch move, in total.
MAX_MOVED_ITEMS = 50_000_000

_INDEX = re.compile(r"[+-]?[0-9]{1,18}")

_P = ParamSpec("_P")
_T = TypeVar("_T")


def require_version(resource_version: str) -> dict[str, str]:
    """Return the operation that makes a patch fail with a conflict if the object has another resourceVersion."""
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}


def limit_depth(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Reject with HTTP 400 the documents that are nested too deeply for the interpreter."""

    @functools.wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            raise api_errors.bad_request("exceeded max depth") from error

    return guarded


def deep_copy(value: Any) -> Any:
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    except OverflowError:
        # An integer of more than 64 bits.
        return copy.deepcopy(value)


@limit_depth
def json_patch(obj: Any, operations: Any) -> Any:
    """Return the object after all operations. Reject the patch if one of them cannot be applied."""
    document = _Document(deep_copy(obj))
    for operation in _check_operations(deep_copy(operations)):
        document.apply(operation)
    return document.root


@limit_depth
def merge_patch(obj: Any, patch: Any) -> Any:
    if patch is None:
        raise api_errors.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise undecodable(patch, "map[string]interface {}", "error decoding patch: ")
    return _merged(deep_copy(obj), deep_copy(patch))


def _merged(target: Any, patch: Any) -> Any:
    if isinstance(patch, list):
        # Kubernetes removes nulls from a list. The RFC does not.
        return [_merged(None, item) for item in patch if item is not None]
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _check_operations(operations: Any) -> list[dict[str, Any]]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise undecodable(operations, "[]handlers.jsonPatchOp", "error decoding patch: ")
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise undecodable(operation, "handlers.jsonPatchOp", "error decoding patch: ")
    if len(operations) > MAX_OPERATIONS:
        raise api_errors.ApiError(
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS},"
            f" got {len(operations)}",
        )
    return [operation or {} for operation in operations]


def undecodable(value: Any, go_type: str, prefix: str = "") -> api_errors.ApiError:
    """Return the error of Kubernetes' JSON decoder for a value that is not of the expected Go type."""
    return api_errors.bad_request(
        f"{prefix}json: cannot unmarshal {api_errors.json_type(value)} into Go value of type {go_type}"
    )


def inapplicable() -> api_errors.ApiError:
    """Return the error of Kubernetes for a well-formed patch that cannot be applied."""
    return api_errors.ApiError(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )


def _reject() -> NoReturn:
    raise inapplicable()


class _Document:
    """A document to which operations are applied."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied_bytes = 0
        self._moved_items = 0

    def apply(self, operation: dict[str, Any]) -> None:
        path, value = _path(operation, "path"), operation.get("value")
        match operation.get("op"):
            case "add":
                self._add(path, value)
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, value)
            case "move":
                source = _path(operation, "from")
                moved = self._get(source)
                self._remove(source)
                self._add(path, moved)
            case "copy":
                copied = self._get(_path(operation, "from"))
                self._copied_bytes += len(msgspec.json.encode(copied))
                if self._copied_bytes > MAX_COPIED_BYTES:
                    _reject()
                self._add(path, deep_copy(copied))
            case "test":
                if not _is_same(self._get(path) if path else self.root, value):
                    _reject()
            case _:
                _reject()

    def _get(self, path: list[str]) -> Any:
        return _member(self._parent(path), path[-1])

    def _parent(self, path: list[str]) -> Any:
        if not path:
            _reject()
        container = self.root
        for token in path[:-1]:
            container = _member(container, token)
        return container

    def _add(self, path: list[str], value: Any) -> None:
        container = self._parent(path)
        match container:
            case dict():
                container[path[-1]] = value
            case list() if path[-1] == "-":
                container.append(value)
            case list():
                index = _index(path[-1], len(container) + 1)
                self._count_moved(len(container) - index)
                container.insert(index, value)
            case _:
                _reject()

    def _remove(self, path: list[str]) -> None:
        container = self._parent(path)
        match container:
            case dict() if path[-1] in container:
                del container[path[-1]]
            case list():
                index = _index(path[-1], len(container))
                self._count_moved(len(container) - index)
                del container[index]
            case _:
                _reject()

    def _count_moved(self, items: int) -> None:
        self._moved_items += items
        if self._moved_items > MAX_MOVED_ITEMS:
            message = (
                f"Request entity too large: the JSON patch moves more than {MAX_MOVED_ITEMS} list elements"
            )
            raise api_errors.ApiError(413, "RequestEntityTooLarge", message)

    def _replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.root = value if isinstance(value, dict | list) else _reject()
            return
        container = self._parent(path)
        match container:
            case dict():
                # The RFC requires an existing member. Kubernetes does not.
                container[path[-1]] = value
            case list():
                container[_index(path[-1], len(container))] = value
            case _:
                _reject()


def _path(operation: dict[str, Any], name: str) -> list[str]:
    """Return the keys of a JSON pointer. The empty list means the whole document."""
    text = operation.get(name)
    if not isinstance(text, str) or (text and "/" not in text):
        _reject()
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _member(container: Any, token: str) -> Any:
    """Return the value at a key. As in Kubernetes, a missing member of a map is null: `test` and `copy` accept it."""
    match container:
        case dict():
            return container.get(token)
        case list():
            return container[_index(token, len(container))]
        case _:
            _reject()


def _index(token: str, size: int) -> int:
    """Return an index. Unlike the RFC, Kubernetes accepts signs, leading zeros, and negative indexes from the end."""
    if not _INDEX.fullmatch(token):
        _reject()
    index = int(token)
    if not -size <= index < size:
        _reject()
    return index % size


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal. Unlike with `==` in Python, true is not 1, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)
