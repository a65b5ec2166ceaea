"""Resources of the API server and their paths."""

from urllib.parse import quote

import msgspec

from windlass.model import names


class Resource(msgspec.Struct, frozen=True):
    group: str
    """Empty for the core group."""
    version: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object or its subresource. Without a name, it is the path of the collection; without a
        name and a namespace, that of the collection in all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.is_namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    @property
    def full_name(self) -> str:
        """Return e.g. `pods` or `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource("", "v1", "pods")
CONFIG_MAPS = Resource("", "v1", "configmaps")
EVENTS = Resource("", "v1", "events")
SECRETS = Resource("", "v1", "secrets")
SERVICES = Resource("", "v1", "services")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", is_namespaced=False)
NODES = Resource("", "v1", "nodes", is_namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", is_namespaced=False)
JOBS = Resource("batch", "v1", "jobs")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", is_namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", is_namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", is_namespaced=False
)
ATTEMPT_RECORDS = Resource(names.GANG_GROUP, names.VERSION, names.RECORD_PLURAL)
GANGS = Resource(names.GANG_GROUP, names.VERSION, names.GANG_PLURAL)


def frameworks(group: str) -> Resource:
    return Resource(group, names.VERSION, names.PLURAL)
