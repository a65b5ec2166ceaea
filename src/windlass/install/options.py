"""The options of an installation, and the names and labels of its objects.

Several installations may share a cluster, each in its own namespace. The names of cluster-scoped objects contain
that namespace.
"""

from collections.abc import Mapping

import msgspec

from windlass.model.base import Json
from windlass.model.settings import IMAGE, Settings

DEFAULT_NAMESPACE = "windlass-system"
DEFAULT_IMAGE = IMAGE
CONTROLLER_NAME = "windlass-controller"
"""The name of the Deployment, the ServiceAccount, the PodDisruptionBudget and the PodMonitor."""
CONFIG_MAP_NAME = "windlass-configuration"
UI_NAME = "windlass-ui"
"""The name of the objects of the dashboard."""

PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
OWN_LABELS: dict[str, str] = {PART_OF: "windlass", MANAGED_BY: "windlass"}
"""The labels of all objects that `windlass install` creates, and of the controller's pods."""


class InstallOptions(msgspec.Struct, frozen=True):
    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE
    replicas: int = 2
    settings: Settings = Settings()
    """The settings of the controller, from its configuration file and from flags."""
    configuration: str = ""
    """The text of the configuration file; empty without one."""
    has_pod_monitor: bool = False
    priority_class: str = ""
    has_ui: bool = False
    """Whether to deploy the dashboard."""
    ui_token_header: str = ""
    """Header in which a proxy forwards the token of a viewer; empty: viewers log in with tokens."""
    ui_hosts: tuple[str, ...] = ()
    """Host names at which browsers reach the dashboard; empty: any."""

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": "windlass", INSTANCE: self.namespace, **OWN_LABELS}

    @property
    def pod_selector(self) -> dict[str, str]:
        """The selector of the Deployment, which is immutable."""
        return {
            "app.kubernetes.io/name": "windlass",
            "app.kubernetes.io/component": "controller",
            INSTANCE: self.namespace,
        }

    @property
    def pod_labels(self) -> dict[str, str]:
        return {**self.labels, **self.pod_selector}

    def qualified_name(self, suffix: str) -> str:
        """Return the name of an object that is cluster-scoped or may be in a namespace of other applications."""
        return f"windlass:{self.namespace}:{suffix}"

    def metadata(self, name: str, namespace: str | None = None) -> Json:
        """Return the metadata of an object. `namespace` is "" for a cluster-scoped one (default: self.namespace)."""
        namespace = self.namespace if namespace is None else namespace
        return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": self.labels}


def is_created_by_install(labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in OWN_LABELS.items())
