"""Keys that identify Frameworks. They contain the API group: each group may have a Framework of the same name."""

from typing import NamedTuple

from windlass.model.framework import Framework


class FrameworkKey(NamedTuple):
    group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.group})"


def key_of(framework: Framework) -> FrameworkKey:
    return FrameworkKey(framework.group, framework.namespace, framework.name)
