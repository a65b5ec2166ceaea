"""What was asked for, and the names and labels that everything of one installation carries.

Two installations may share a cluster, each in a namespace of its own: what is in no namespace has theirs in its name.
"""

from collections.abc import Mapping

import msgspec

from windlass.model.base import Json
from windlass.model.settings import IMAGE, Settings

DEFAULT_NAMESPACE = "windlass-system"
DEFAULT_IMAGE = IMAGE
CONTROLLER = "windlass-controller"
"""The name of everything that an installation has one of in its namespace."""
CONFIGURATION = "windlass-configuration"

PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
OURS: dict[str, str] = {PART_OF: "windlass", MANAGED_BY: "windlass"}
"""On everything that `windlass install` makes, and on nothing else."""


class Plan(msgspec.Struct, frozen=True):
    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE
    replicas: int = 2
    settings: Settings = Settings()
    """Of the controller, from its configuration file and from what was asked for besides."""
    configuration: str = ""
    """The text of that file; empty: there is none."""
    has_pod_monitor: bool = False
    priority_class: str = ""

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": "windlass", INSTANCE: self.namespace, **OURS}

    @property
    def pod_selector(self) -> dict[str, str]:
        """It can never be changed in a Deployment that is there."""
        return {
            "app.kubernetes.io/name": "windlass",
            "app.kubernetes.io/component": "controller",
            INSTANCE: self.namespace,
        }

    @property
    def pod_labels(self) -> dict[str, str]:
        return {**self.labels, **self.pod_selector}

    def name_elsewhere(self, what: str) -> str:
        """For what is in no namespace, or maybe in that of somebody else."""
        return f"windlass:{self.namespace}:{what}"

    def metadata(self, name: str, namespace: str | None = None) -> Json:
        """Of an object in that namespace; none said: in our own; empty: in none."""
        place = self.namespace if namespace is None else namespace
        return {"name": name, **({"namespace": place} if place else {}), "labels": self.labels}


def is_ours(labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in OURS.items())
