"""The parts of pod templates that conversions read and change."""

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.convert.job_spec import Metadata
from windlass.model.base import Json, Sparse


class Container(Sparse, frozen=True):
    name: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Json, ...] | None = None
    env_from: tuple[Json, ...] | None = None
    ports: tuple[Json, ...] | None = None
    volume_mounts: tuple[Json, ...] | None = None
    resources: Json | None = None


class PodSpec(Sparse, frozen=True):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    volumes: tuple[Json, ...] | None = None
    hostname: str | None = None
    subdomain: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    restart_policy: str | None = None


class PodTemplate(Sparse, frozen=True):
    metadata: Metadata | None = None
    spec: PodSpec | None = None


def upserted(items: Any, new: Sequence[Json], key: str) -> list[Json]:
    """Return the items with new ones; an item with the same key is replaced in its place."""
    found = {each.get(key): each for each in items or ()}
    return list({**found, **{each[key]: each for each in new}}.values())


def set_variables(container: Json, variables: Sequence[Json]) -> None:
    """Add variables to a container, in place; variables with the same name are replaced."""
    if variables:
        container["env"] = upserted(container.get("env"), variables, "name")


def set_values(container: Json, values: Mapping[str, Any]) -> None:
    """Add variables with these values to a container, in place; a mapping is the source of a value."""
    set_variables(
        container,
        [
            {"name": name, "valueFrom": value} if isinstance(value, dict) else {"name": name, "value": value}
            for name, value in values.items()
        ],
    )
