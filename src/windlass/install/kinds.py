"""The kinds of the objects of an installation, and how messages name the objects."""

from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from windlass.model.base import Json

_RBAC = "rbac.authorization.k8s.io"

POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
POD_MONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors")
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "servicemonitors")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
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
    "Service": SERVICES,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "PodMonitor": POD_MONITORS,
    "ServiceMonitor": SERVICE_MONITORS,
    "NetworkPolicy": NETWORK_POLICIES,
}

UNINSTALL_ORDER: tuple[Resource, ...] = (
    # The Deployment comes first, because the controller needs its permissions while it runs.
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    POD_MONITORS,
    SERVICE_MONITORS,
    NETWORK_POLICIES,
    SERVICES,
    CONFIG_MAPS,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    SERVICE_ACCOUNTS,
)
"""CustomResourceDefinitions and the namespace are not included: `uninstall` deletes them last, if at all."""


def resource_of(manifest: Json) -> Resource:
    return RESOURCES[manifest["kind"]]


def object_name(resource: Resource, name: str, namespace: str = "", kind: str = "") -> str:
    """Return the name as kubectl writes it, with the namespace: `deployment.apps/windlass-controller in team`.

    `kind` is only required if its plural does not simply end with an additional `s`, e.g. `NetworkPolicy`.
    """
    singular = kind.lower() or resource.plural.removesuffix("s")
    type_name = f"{singular}.{resource.group}" if resource.group else singular
    return f"{type_name}/{name} in {namespace}" if namespace else f"{type_name}/{name}"
