"""The kinds that an installation consists of: where they live in the API, and how their objects are called."""

from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Resource,
)
from windlass.model.base import Json

_RBAC = "rbac.authorization.k8s.io"

POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
POD_MONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors")
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", is_namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", is_namespaced=False)

RESOURCES: dict[str, Resource] = {
    "CustomResourceDefinition": CUSTOM_RESOURCE_DEFINITIONS,
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "ConfigMap": CONFIG_MAPS,
    "Deployment": DEPLOYMENTS,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "PodMonitor": POD_MONITORS,
}

REMOVED_IN_ORDER: tuple[Resource, ...] = (
    # The controller ends before it loses its rights.
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    POD_MONITORS,
    CONFIG_MAPS,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    SERVICE_ACCOUNTS,
)
"""What goes with an installation. Definitions and the namespace go by rules of their own."""


def resource_of(manifest: Json) -> Resource:
    return RESOURCES[manifest["kind"]]


def called(resource: Resource, name: str, namespace: str = "") -> str:
    """As kubectl calls it: `deployment.apps/windlass-controller`, and where it is."""
    singular = resource.plural.removesuffix("s")
    kind = f"{singular}.{resource.group}" if resource.group else singular
    return f"{kind}/{name} in {namespace}" if namespace else f"{kind}/{name}"
