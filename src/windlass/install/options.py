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
"""The name of the Deployment and the other objects of the controller in its namespace."""
CONFIG_MAP_NAME = "windlass-configuration"
UI_NAME = "windlass-ui"
"""The name of the objects of the dashboard."""

PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "app.kubernetes.io/instance"
OWN_LABELS: dict[str, str] = {PART_OF: "windlass", MANAGED_BY: "windlass"}
"""The labels of all objects that `windlass install` creates, and of the controller's pods."""


def _resources() -> Json:
    """Return the default for the controller and the dashboard, enough for a few Frameworks with 10,000 tasks."""
    return {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


class InstallOptions(msgspec.Struct, frozen=True):
    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE
    replicas: int = 2
    settings: Settings = Settings()
    """The settings of the controller, from its configuration file and from flags."""
    configuration: str = ""
    """The text of the configuration file; empty without one."""
    has_pod_monitor: bool = False
    has_service_monitor: bool = False
    """Whether to create a Service for the metrics, and a ServiceMonitor."""
    has_network_policy: bool = False
    """Whether to reject connections to other ports than those of the metrics and of the dashboard."""
    has_disruption_budget: bool = True
    priority_class: str = ""
    resources: Json = msgspec.field(default_factory=_resources)
    """Requests and limits of the controller."""
    ui_resources: Json = msgspec.field(default_factory=_resources)
    pod_fields: Json = {}
    """Additional fields of the pods' specs, e.g. tolerations."""
    container_fields: Json = {}
    """Additional fields of the containers, e.g. the pull policy."""
    monitoring_peers: list[Json] = []
    """With the network policy: who may read the metrics; empty: everyone."""
    ui_peers: list[Json] = []
    """With the network policy: who may reach the dashboard; empty: everyone."""
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
