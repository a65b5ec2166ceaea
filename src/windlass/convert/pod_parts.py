"""The parts of pod templates and objects that conversions read and change, to check their types first."""

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
