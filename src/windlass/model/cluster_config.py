"""A config with imports and resources: what people wrote in 2016 for a TensorFlow cluster and a notebook beside it.

Its fields are spelt as they were then, with underscores. How it becomes objects is in `render.cluster_config`.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from windlass.model.base import Json
from windlass.model.companions import ServiceType
from windlass.model.framework import MAX_TASK_NUMBER
from windlass.model.job import Label, RoleName
from windlass.model.resources import Port


class ResourceType(StrEnum):
    """Those that need no template of one's own."""

    TENSORFLOW_CLUSTER = "tensorflow-cluster"
    JUPYTER_SERVICE = "jupyter-service"


class _ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that leaves out what has its default, with its fields spelt as they are here."""


class Import(_ConfigStruct, frozen=True):
    """A template: one that lies beside the config, or a built-in type under the name of its file."""

    path: str
    """Relative to the config."""
    name: str = ""
    """By which resources ask for it. Without it: what the file is called, without .jinja."""

    @property
    def names(self) -> tuple[str, ...]:
        """What a resource may have for its type to be made of this."""
        file = self.path.rpartition("/")[2]
        stem = file.removesuffix(".jinja").removesuffix(".yaml")
        return (self.name, self.path) if self.name else (stem, self.path)


class TaskGroup(_ConfigStruct, frozen=True):
    """What TensorFlow calls a job: tasks that do the same."""

    name: RoleName
    num_tasks: Annotated[int, msgspec.Meta(ge=0, le=MAX_TASK_NUMBER)]
    port: Port = 8080


class TensorFlowCluster(_ConfigStruct, frozen=True):
    """Servers of TensorFlow that wait for somebody to drive them."""

    jobs: tuple[TaskGroup, ...]
    image: str = ""
    namespace: str = ""


class JupyterService(_ConfigStruct, frozen=True):
    """A notebook server behind a password."""

    image: str
    password: str = ""
    """Without it: one is made up, and shown once."""
    namespace: str = ""
    port: Port = 8888
    service_type: ServiceType = ServiceType.LOAD_BALANCER


class Resource(_ConfigStruct, frozen=True):
    """Something that is made from a template, or that Windlass makes itself."""

    type: str
    name: Label = ""
    """Of what is made. Without it: its type."""
    properties: Json = {}


class ClusterConfig(_ConfigStruct, frozen=True):
    imports: tuple[Import, ...] = ()
    resources: tuple[Resource, ...] = ()
