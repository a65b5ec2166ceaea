"""The table of built-in kinds, one row each."""

from windlass.localcluster.apiserver.kinds import (
    claims,
    definitions,
    jobs,
    namespaces,
    nodes,
    pods,
    rbac,
    services,
    simple_kinds,
    workloads,
)
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.schemas.defaults import DEFAULTS
from windlass.localcluster.apiserver.strategy import Strategy

_EXTENSIONS = "apiextensions.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_CLUSTER_SCOPED = ("Namespace", "Node", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")
_CATEGORIES = {
    **dict.fromkeys(("Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "Job"), ("all",)),
    "CustomResourceDefinition": ("api-extensions",),
}
_POD_SUBRESOURCES = "attach binding eviction exec log portforward status"
_SELECTABLE_FIELDS = {
    "Event": (
        *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
        *("involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath"),
        *("reason", "source", "type", "reportingComponent"),
    ),
    "Job": ("status.successful",),
    "Namespace": ("status.phase",),
    "Node": ("spec.unschedulable",),
    "Pod": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
    ),
    "ReplicaSet": ("status.replicas",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP", "spec.type"),
}


def _row(
    api_version: str, kind: str, strategy: Strategy, short_names: str = "", subresources: str = ""
) -> Kind:
    """Return a kind. Short names and subresources are separated by spaces."""
    group, _, version = api_version.rpartition("/")
    singular = kind.lower()
    type_name = "CoreV1Event" if kind == "Event" else f"V1{kind}"
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=singular if kind == "Endpoints" else f"{singular}s",
        singular=singular,
        namespaced=kind not in _CLUSTER_SCOPED,
        list_kind=f"{kind}List",
        short_names=tuple(short_names.split()),
        categories=_CATEGORIES.get(kind, ()),
        subresources=tuple(subresources.split()),
        type_name=type_name,
        schema=typed.TypedSchema(type_name, DEFAULTS),
        selectable_fields=_SELECTABLE_FIELDS.get(kind, ()),
        strategy=strategy,
    )


KINDS: tuple[Kind, ...] = (
    _row("v1", "ConfigMap", simple_kinds.ConfigMapStrategy(), "cm"),
    _row("v1", "Endpoints", simple_kinds.EndpointsStrategy(), "ep"),
    _row("v1", "Event", simple_kinds.EventStrategy(), "ev"),
    _row("v1", "Namespace", namespaces.NamespaceStrategy(), "ns", "finalize status"),
    _row("v1", "Node", nodes.NodeStrategy(), "no", "status"),
    _row("v1", "PersistentVolumeClaim", claims.ClaimStrategy(), "pvc", "status"),
    _row("v1", "Pod", pods.PodStrategy(), "po", _POD_SUBRESOURCES),
    _row("v1", "Secret", simple_kinds.SecretStrategy()),
    _row("v1", "Service", services.ServiceStrategy(), "svc", "status"),
    _row("v1", "ServiceAccount", simple_kinds.ServiceAccountStrategy(), "sa", "token"),
    _row(_EXTENSIONS, "CustomResourceDefinition", definitions.DefinitionStrategy(), "crd crds", "status"),
    _row("apps/v1", "Deployment", workloads.DeploymentStrategy(), "deploy", "scale status"),
    _row("apps/v1", "ReplicaSet", workloads.ReplicaSetStrategy(), "rs", "scale status"),
    _row("apps/v1", "StatefulSet", workloads.StatefulSetStrategy(), "sts", "scale status"),
    _row("batch/v1", "Job", jobs.JobStrategy(), "", "status"),
    _row("coordination.k8s.io/v1", "Lease", simple_kinds.LeaseStrategy()),
    _row(_RBAC, "ClusterRole", rbac.RoleStrategy()),
    _row(_RBAC, "ClusterRoleBinding", rbac.BindingStrategy()),
    _row(_RBAC, "Role", rbac.RoleStrategy()),
    _row(_RBAC, "RoleBinding", rbac.BindingStrategy()),
)
