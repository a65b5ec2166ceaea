"""A config with imports and resources: the format used in 2016 for a TensorFlow cluster with a notebook.

Its fields keep their original spelling, with underscores. `render.cluster_config` converts it to objects.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model.base import Json
from windlass.model.companions import ServiceType
from windlass.model.framework import MAX_TASK_NUMBER
from windlass.model.job import DnsLabel, RoleName
from windlass.model.resources import Port


class ResourceType(StrEnum):
    """Built-in types that need no template."""

    TENSORFLOW_CLUSTER = "tensorflow-cluster"
    JUPYTER_SERVICE = "jupyter-service"


class _ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that omits fields with their default. Its fields have the same names in the file."""


class Import(_ConfigStruct, frozen=True):
    """A template: a file in the folder of the config, or the file name of a built-in type."""

    path: str
    """Path relative to the config."""
    name: str = ""
    """Type name for resources. Default: the file name without .jinja and .yaml."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which resources can refer to this template."""
        file = self.path.rpartition("/")[2]
        stem = file.removesuffix(".jinja").removesuffix(".yaml")
        return (self.name, self.path) if self.name else (stem, self.path)


class TaskGroup(_ConfigStruct, frozen=True):
    """A group of identical tasks, which TensorFlow calls a job."""

    name: RoleName
    num_tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)]
    port: Port = 8080


class TensorFlowCluster(_ConfigStruct, frozen=True):
    """Idle TensorFlow servers for a client to use."""

    jobs: tuple[TaskGroup, ...]
    image: str = "tensorflow/tensorflow:2.21.0"
    namespace: str = ""


class JupyterService(_ConfigStruct, frozen=True):
    """A notebook server with a password."""

    image: str = "quay.io/jupyter/tensorflow-notebook:2026-10-05"
    password: str = ""
    """Password. Default: one is generated and shown once."""
    namespace: str = ""
    port: Port = 8888
    service_type: ServiceType = ServiceType.LOAD_BALANCER


class Resource(_ConfigStruct, frozen=True):
    """Objects created from a template, or by a built-in type."""

    type: str
    name: DnsLabel = ""
    """Name for the created objects. Default: the type of the resource."""
    properties: Json = {}


class ClusterConfig(_ConfigStruct, frozen=True):
    imports: tuple[Import, ...] = ()
    resources: tuple[Resource, ...] = ()
