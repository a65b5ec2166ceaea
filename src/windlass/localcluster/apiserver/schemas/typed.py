"""Schemas of the built-in kinds, compiled from the types in `windlass.k8s.types`.

Rules of a single kind are in its strategy. A type is compiled at its first use, since types are recursive and
most are never used.
"""

import copy
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from windlass.k8s import api_errors
from windlass.k8s import types as k8s_types
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.schemas import scalar_types
from windlass.localcluster.apiserver.schemas.scalar_types import Scalar

Defaults = Mapping[str, Mapping[str, Any]]
Object = dict[str, Any]

# These fields are schemas, but may also be a boolean or a list: their type in `windlass.k8s.types` is `any`.
_FIELD_OVERRIDES = {
    ("V1JSONSchemaProps", field): "?V1JSONSchemaProps" for field in ("items", "additionalProperties")
}
# Required by the published types, but may be empty: Go does not distinguish empty and absent strings.
_MAY_BE_EMPTY = frozenset({("V1HTTPHeader", "value"), ("V1Sysctl", "value")})
# Metadata is validated elsewhere, and absent fields of a status are zero.
_NOT_VALIDATED_AT_THE_ROOT = ("metadata", "status")


class TypedSchema:
    """A schema with Go types: a value of a wrong type cannot be decoded."""

    def __init__(self, type_name: str, defaults: Defaults) -> None:
        """`defaults` are the constant defaults of each type."""
        self._root = _TypeCache(defaults).struct(type_name)

    def check_types(self, obj: Object, kind: str, version: str) -> None:
        """Reject an object that Go cannot decode. The object may still contain unknown fields."""
        try:
            self._root.check(obj)
        except _TypeMismatchError as mismatch:
            message = f'{kind} in version "{version}" cannot be handled as a {kind}: {mismatch.message()}'
            raise api_errors.bad_request(message) from None

    def prune(self, obj: Object) -> list[str]:
        """Remove unknown fields in place, and return their paths.

        Fields that Go omits are also removed, but not reported: null fields, and optional lists and maps that are
        empty. A null in a list or map is replaced by the zero value of its type, if any.
        """
        return [path[1:] for path in self._root.prune(obj)]

    def default(self, obj: Object) -> None:
        """Set constant defaults in place."""
        self._root.fill(obj)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return errors for missing required fields. An empty string or list counts as missing.

        Types have been checked before.
        """
        validated = {key: value for key, value in obj.items() if key not in _NOT_VALIDATED_AT_THE_ROOT}
        missing = [path[1:] for path in self._root.missing(validated)]
        return [api_errors.required(path) for path in missing if path not in _NOT_VALIDATED_AT_THE_ROOT]


class _TypeMismatchError(Exception):
    """A value that Go cannot decode. Each enclosing struct adds its field to the path.

    If `go_type` is empty, `found` is the whole message.
    """

    def __init__(self, found: str, go_type: str) -> None:
        super().__init__(found, go_type)
        self.struct = ""
        self.path: list[str] = []

    def message(self) -> str:
        found, go_type = self.args
        if not go_type:
            return str(found)
        if not self.path:
            return f"json: cannot unmarshal {found} into Go value of type {go_type}"
        field_path = f"{self.struct}.{'.'.join(reversed(self.path))}"
        return f"json: cannot unmarshal {found} into Go struct field {field_path} of type {go_type}"


class _Node:
    """The type of a value. Paths are relative to the value: `.name`, `[0].name`."""

    go_type: str
    # Replaces null in a list or map.
    zero: Any = None

    def check(self, value: Any) -> None:
        """Raise _TypeMismatchError for a value that Go cannot decode."""
        raise NotImplementedError

    def prune(self, _value: Any) -> list[str]:
        return []

    def fill(self, _value: Any) -> None:
        """Set defaults."""

    def missing(self, _value: Any) -> list[str]:
        """Return the paths of missing required fields, for a list or map at most `MAX_ERRORS` of them."""
        return []


class _TypeCache:
    """The compiled structs, by name."""

    def __init__(self, defaults: Defaults) -> None:
        self.defaults = defaults
        self._structs: dict[str, _Struct] = {}

    def struct(self, name: str) -> "_Struct":
        if name not in self._structs:
            self._structs[name] = _Struct(name, self)
        return self._structs[name]

    def node(self, type_name: str, field: str) -> _Node:
        if type_name.startswith("[]"):
            return _Collection(self.node(type_name[2:], field), list)
        if type_name.startswith("{}"):
            return _Collection(self.node(type_name[2:], field), dict)
        if type_name.startswith("?"):
            return _StructBoolOrList(self.struct(type_name[1:]))
        if type_name in scalar_types.SCALARS:
            return _Leaf(scalar_types.SCALARS[type_name], field)
        return self.struct(type_name)


class _Leaf(_Node):
    """A scalar, or a value that is not validated further."""

    def __init__(self, scalar: Scalar, field: str) -> None:
        is_integer = scalar is scalar_types.SCALARS["integer"]
        self.go_type = scalar_types.go_integer_type(field) if is_integer else scalar.go_type
        self.zero = scalar.zero
        self._types = frozenset(scalar.types)
        self._scalar = scalar

    def check(self, value: Any) -> None:
        scalar = self._scalar
        if type(value) in self._types and (scalar.is_valid is None or scalar.is_valid(value)):
            if scalar.problem is not None and (problem := scalar.problem(value)):
                raise _TypeMismatchError(problem, "")
            return
        found = api_errors.json_type(value)
        if found == "number" and self.go_type.startswith("int"):
            found = f"number {value}"
        if scalar.has_own_decoder:
            raise _TypeMismatchError(
                f"json: cannot unmarshal {found} into Go value of type {self.go_type}", ""
            )
        raise _TypeMismatchError(found, self.go_type)


class _Collection(_Node):
    """A list or a map of elements."""

    def __init__(self, element: _Node, container: type[Any]) -> None:
        self._container = container
        self._element = element
        self._is_flat = isinstance(element, _Leaf)
        is_resources = self._is_flat and element.zero == "0"
        if container is list:
            self.go_type = f"[]{element.go_type}"
        else:
            self.go_type = "v1.ResourceList" if is_resources else f"map[string]{element.go_type}"

    def _entries(self, value: Any) -> Iterable[tuple[int | str, Any]]:
        return enumerate(value) if self._container is list else value.items()

    def _values(self, value: Any) -> Collection[Any]:
        values: Collection[Any] = value if self._container is list else value.values()
        return values

    def check(self, value: Any) -> None:
        if type(value) is not self._container:
            raise _TypeMismatchError(api_errors.json_type(value), self.go_type)
        for one in self._values(value):
            if one is not None:
                self._element.check(one)

    def prune(self, value: Any) -> list[str]:
        if type(value) is not self._container:
            return []
        if self._element.zero is not None and None in self._values(value):
            for key in [key for key, one in self._entries(value) if one is None]:
                value[key] = copy.copy(self._element.zero)
        if self._is_flat:
            return []
        step = "[{}]" if self._container is list else ".{}"
        entries = self._entries(value)
        return [step.format(key) + path for key, one in entries for path in self._element.prune(one)]

    def fill(self, value: Any) -> None:
        if not self._is_flat:
            for one in self._values(value):
                self._element.fill(one)

    def missing(self, value: Any) -> list[str]:
        if self._is_flat:
            return []
        paths = (f"[{key}]{path}" for key, one in self._entries(value) for path in self._element.missing(one))
        return list(itertools.islice(paths, api_errors.MAX_ERRORS))


class _StructBoolOrList(_Node):
    """A struct, or a boolean or list, which are not validated further."""

    def __init__(self, struct: "_Struct") -> None:
        self.go_type = struct.go_type
        self._struct = struct

    def check(self, value: Any) -> None:
        if type(value) is dict:
            self._struct.check(value)
        elif type(value) not in (bool, list):
            raise _TypeMismatchError(api_errors.json_type(value), self.go_type)

    def prune(self, value: Any) -> list[str]:
        return self._struct.prune(value)

    def fill(self, value: Any) -> None:
        if type(value) is dict:
            self._struct.fill(value)

    def missing(self, value: Any) -> list[str]:
        return self._struct.missing(value) if type(value) is dict else []


class _Struct(_Node):
    """A type with fields."""

    def __init__(self, name: str, types: _TypeCache) -> None:
        version, self._go_name = k8s_types.version_and_name(name)
        self.go_type = f"{version}.{self._go_name}"
        self.zero: Object = {}
        self._name = name
        self._types = types
        self._type = k8s_types.types()[name]

    @functools.cached_property
    def _fields(self) -> dict[str, _Node]:
        return {
            field: self._types.node(_FIELD_OVERRIDES.get((self._name, field), type_name), field)
            for field, type_name in self._type.fields.items()
        }

    @functools.cached_property
    def _nested(self) -> dict[str, _Node]:
        return {field: node for field, node in self._fields.items() if not isinstance(node, _Leaf)}

    @functools.cached_property
    def _omitted_when_empty(self) -> frozenset[str]:
        types = self._type.fields.items()
        collections = {field for field, type_name in types if type_name.startswith(("[]", "{}"))}
        return frozenset(collections - set(self._type.required))

    @functools.cached_property
    def _required(self) -> tuple[str, ...]:
        # An absent boolean is false.
        return tuple(
            field
            for field in self._type.required
            if self._type.fields[field] != "boolean" and (self._name, field) not in _MAY_BE_EMPTY
        )

    @functools.cached_property
    def _constants(self) -> tuple[tuple[str, Any, bool], ...]:
        """Each default: the field, the value, and whether the value is mutable and has to be copied."""
        constants = self._types.defaults.get(self._name, {})
        return tuple((field, value, isinstance(value, (dict, list))) for field, value in constants.items())

    def check(self, value: Any) -> None:
        if type(value) is not dict:
            raise _TypeMismatchError(api_errors.json_type(value), self.go_type)
        fields, field = self._fields, ""
        try:
            for field, one in value.items():
                node = fields.get(field)
                if node is not None and one is not None:
                    node.check(one)
        except _TypeMismatchError as mismatch:
            mismatch.struct = mismatch.struct or self._go_name
            mismatch.path.append(field)
            raise

    def prune(self, value: Any) -> list[str]:
        if type(value) is not dict:
            return []
        fields, nested, omitted_when_empty = self._fields, self._nested, self._omitted_when_empty
        removed, unknown_paths = [], []
        for field, one in value.items():
            if field not in fields:
                removed.append(field)
                unknown_paths.append(f".{field}")
            elif one is None or (not one and field in omitted_when_empty):
                removed.append(field)
            elif field in nested and (paths := nested[field].prune(one)):
                unknown_paths += [f".{field}{path}" for path in paths]
        for field in removed:
            del value[field]
        return unknown_paths

    def fill(self, value: Any) -> None:
        for field, constant, is_mutable in self._constants:
            if field not in value:
                value[field] = copy.deepcopy(constant) if is_mutable else constant
        nested = self._nested
        for field, one in value.items():
            if field in nested:
                nested[field].fill(one)

    def missing(self, value: Any) -> list[str]:
        nested, paths = self._nested, []
        for field in self._required:
            # Go does not distinguish empty and absent values.
            if value.get(field) in (None, "", []):
                below = nested[field].missing({}) if isinstance(nested.get(field), _Struct) else []
                paths += [f".{field}{path}" for path in below or [""]]
        for field, one in value.items():
            if field in nested and (found := nested[field].missing(one)):
                paths += [f".{field}{path}" for path in found]
        return paths
