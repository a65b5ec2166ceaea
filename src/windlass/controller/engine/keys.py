"""Keys that identify Frameworks. They contain the API group: each group may have a Framework of the same name."""

from datetime import datetime
from typing import NamedTuple

from windlass.model.framework import Framework


class FrameworkKey(NamedTuple):
    group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.group})"


class Finished(NamedTuple):
    """A completed Framework for which nothing is left to do until it expires."""

    resource_version: str
    expires_at: datetime
    tasks: int


def key_of(framework: Framework) -> FrameworkKey:
    return FrameworkKey(framework.group, framework.namespace, framework.name)
