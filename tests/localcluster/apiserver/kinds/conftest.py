"""Runs the strategies of built-in kinds without a server."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.kinds import table
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.schemas.typed import TypedSchema

Object = dict[str, Any]
NOW = "2026-01-02T03:04:05Z"


class Cluster:
    """The cluster that a strategy sees, and the steps of create and update."""

    def __init__(self) -> None:
        self.stored: list[Object] = []

    def now(self) -> str:
        return NOW

    def objects(self, group: str, plural: str) -> Iterator[Object]:
        kind = next(kind for kind in table.KINDS if (kind.group, kind.plural) == (group, plural))
        return (obj for obj in self.stored if obj["kind"] == kind.kind)

    def create(self, given: Object) -> Object:
        """Return the object as it would be stored, or raise `ApiError`."""
        kind, new = _decode(given)
        meta = new["metadata"]
        meta |= {"uid": f"uid-{len(self.stored)}", "creationTimestamp": NOW}
        if kind.namespaced:
            meta.setdefault("namespace", "default")
        new.pop("status", None)
        kind.strategy.default(new)
        kind.strategy.prepare_create(new, self)
        _raise_if_invalid(
            kind,
            new,
            [*_metadata_errors(kind, new), *kind.strategy.validate_create(new), *kind.strategy.validate(new)],
        )
        self.stored.append(new)
        return new

    def update(self, old: Object, change: Callable[[Object], object]) -> Object:
        """Return the changed object as it would be stored, or raise `ApiError`."""
        before = copy.deepcopy(old)
        changed = copy.deepcopy(old)
        change(changed)
        kind, new = _decode(changed)
        metadata.carry_over(new, old)
        if "status" in old:
            new["status"] = old["status"]
        kind.strategy.default(new)
        kind.strategy.prepare_update(new, old, self)
        errors = [*metadata.validate_metadata_update(new, old), *_metadata_errors(kind, new)]
        errors += [*kind.strategy.validate(new), *kind.strategy.validate_update(new, old)]
        assert old == before, "a hook changed the old object"
        _raise_if_invalid(kind, new, errors)
        return new

    def create_errors(self, given: Object) -> list[str]:
        """Return the errors of creating an object."""
        return _field_errors(lambda: self.create(given))

    def update_errors(self, old: Object, change: Callable[[Object], object]) -> list[str]:
        return _field_errors(lambda: self.update(old, change))


def _decode(given: Object) -> tuple[Kind, Object]:
    new = copy.deepcopy(given)
    kind = next(k for k in table.KINDS if (k.api_version, k.kind) == (new["apiVersion"], new["kind"]))
    assert isinstance(kind.schema, TypedSchema)
    kind.schema.check_types(new, kind.kind, kind.version)
    kind.schema.prune(new)
    kind.schema.default(new)
    return kind, new


def _metadata_errors(kind: Kind, new: Object) -> list[api_errors.FieldError]:
    rule = metadata.name_rule(kind.resource)
    return [*metadata.validate_metadata(new, namespaced=kind.namespaced, name_rule=rule)]


def _raise_if_invalid(kind: Kind, new: Object, errors: list[api_errors.FieldError]) -> None:
    if errors:
        raise api_errors.invalid(kind.group, kind.kind, new["metadata"].get("name", ""), errors)


def _field_errors(act: Callable[[], object]) -> list[str]:
    """Return the field errors of an action; empty if it is allowed."""
    try:
        act()
    except api_errors.ApiError as error:
        rejection = error
    else:
        return []
    causes = (rejection.details or {}).get("causes") or []
    assert causes, rejection.message
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
