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

_ALL = ("all",)
_RBAC = "rbac.authorization.k8s.io"


def _row(
    api_version: str,
    kind: str,
    strategy: Strategy,
    *,
    plural: str = "",
    type_name: str = "",
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    subresources: tuple[str, ...] = (),
    selectable_fields: tuple[str, ...] = (),
) -> Kind:
    group, _, version = api_version.rpartition("/")
    singular = kind.lower()
    type_name = type_name or f"V1{kind}"
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{singular}s",
        singular=singular,
        namespaced=namespaced,
        list_kind=f"{kind}List",
        short_names=short_names,
        categories=categories,
        subresources=subresources,
        type_name=type_name,
        schema=typed.compile_type(type_name, DEFAULTS),
        selectable_fields=selectable_fields,
        strategy=strategy,
    )


KINDS: tuple[Kind, ...] = (
    _row("v1", "ConfigMap", simple_kinds.ConfigMapStrategy(), short_names=("cm",)),
    _row("v1", "Endpoints", simple_kinds.EndpointsStrategy(), plural="endpoints", short_names=("ep",)),
    _row(
        "v1",
        "Event",
        simple_kinds.EventStrategy(),
        type_name="CoreV1Event",
        short_names=("ev",),
        selectable_fields=(
            *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
            *("involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath"),
            *("reason", "source", "type", "reportingComponent"),
        ),
    ),
    _row(
        "v1",
        "Namespace",
        namespaces.NamespaceStrategy(),
        namespaced=False,
        short_names=("ns",),
        subresources=("finalize", "status"),
        selectable_fields=("status.phase",),
    ),
    _row(
        "v1",
        "Node",
        nodes.NodeStrategy(),
        namespaced=False,
        short_names=("no",),
        subresources=("status",),
        selectable_fields=("spec.unschedulable",),
    ),
    _row(
        "v1",
        "PersistentVolumeClaim",
        claims.ClaimStrategy(),
        short_names=("pvc",),
        subresources=("status",),
    ),
    _row(
        "v1",
        "Pod",
        pods.PodStrategy(),
        short_names=("po",),
        categories=_ALL,
        subresources=("attach", "binding", "eviction", "exec", "log", "portforward", "status"),
        selectable_fields=(
            *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
            *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
        ),
    ),
    _row("v1", "Secret", simple_kinds.SecretStrategy(), selectable_fields=("type",)),
    _row(
        "v1",
        "Service",
        services.ServiceStrategy(),
        short_names=("svc",),
        categories=_ALL,
        subresources=("status",),
        selectable_fields=("spec.clusterIP", "spec.type"),
    ),
    _row("v1", "ServiceAccount", simple_kinds.ServiceAccountStrategy(), short_names=("sa",)),
    _row(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        definitions.DefinitionStrategy(),
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
    ),
    _row(
        "apps/v1",
        "Deployment",
        workloads.DeploymentStrategy(),
        short_names=("deploy",),
        categories=_ALL,
        subresources=("scale", "status"),
    ),
    _row(
        "apps/v1",
        "ReplicaSet",
        workloads.ReplicaSetStrategy(),
        short_names=("rs",),
        categories=_ALL,
        subresources=("scale", "status"),
        selectable_fields=("status.replicas",),
    ),
    _row(
        "apps/v1",
        "StatefulSet",
        workloads.StatefulSetStrategy(),
        short_names=("sts",),
        categories=_ALL,
        subresources=("scale", "status"),
    ),
    _row(
        "batch/v1",
        "Job",
        jobs.JobStrategy(),
        categories=_ALL,
        subresources=("status",),
        selectable_fields=("status.successful",),
    ),
    _row("coordination.k8s.io/v1", "Lease", simple_kinds.LeaseStrategy()),
    _row(f"{_RBAC}/v1", "ClusterRole", rbac.RoleStrategy(), namespaced=False),
    _row(f"{_RBAC}/v1", "ClusterRoleBinding", rbac.BindingStrategy(), namespaced=False),
    _row(f"{_RBAC}/v1", "Role", rbac.RoleStrategy()),
    _row(f"{_RBAC}/v1", "RoleBinding", rbac.BindingStrategy()),
)
