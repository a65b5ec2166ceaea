"""API versions that Kubernetes has removed, by kind, and what replaces them."""

from collections.abc import Mapping

import msgspec

_WORKLOADS = ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_REVIEWS = (
    "LocalSubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
)
_STORAGE = ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment")
_FLOW_CONTROL = ("FlowSchema", "PriorityLevelConfiguration")
_RBAC, _SCHEDULING = "rbac.authorization.k8s.io", "scheduling.k8s.io"
_ADMISSION, _FLOW = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
_NO_POLICIES = "the label pod-security.kubernetes.io/enforce of the namespace"


class Removal(msgspec.Struct, frozen=True):
    release: str
    """First release of Kubernetes without the API version, or a later one."""
    replacement: str
    """Current API version, or a description of what to use instead."""


_TABLE: tuple[tuple[tuple[str, ...], tuple[str, ...], str, str], ...] = (
    # API versions, kinds, release, replacement
    (("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"), _WORKLOADS, "1.16", "apps/v1"),
    (("extensions/v1beta1",), ("NetworkPolicy",), "1.16", "networking.k8s.io/v1"),
    (("extensions/v1beta1",), ("Job",), "1.16", "batch/v1"),
    (("extensions/v1beta1",), ("HorizontalPodAutoscaler",), "1.16", "autoscaling/v2"),
    (("extensions/v1beta1", "networking.k8s.io/v1beta1"), ("Ingress", "IngressClass"), "1.22", "networking.k8s.io/v1"),
    (("extensions/v1beta1", "policy/v1beta1"), ("PodSecurityPolicy",), "1.25", _NO_POLICIES),
    (("extensions/v1beta1",), ("ThirdPartyResource",), "1.8", "a CustomResourceDefinition of apiextensions.k8s.io/v1"),
    (("apps/v1alpha1",), ("PetSet",), "1.5", "a StatefulSet of apps/v1"),
    (("batch/v2alpha1",), ("ScheduledJob",), "1.21", "a CronJob of batch/v1"),
    (("batch/v2alpha1",), ("CronJob",), "1.21", "batch/v1"),
    (("batch/v1beta1",), ("CronJob",), "1.25", "batch/v1"),
    (("autoscaling/v2beta1",), ("HorizontalPodAutoscaler",), "1.25", "autoscaling/v2"),
    (("autoscaling/v2beta2",), ("HorizontalPodAutoscaler",), "1.26", "autoscaling/v2"),
    (("policy/v1beta1",), ("PodDisruptionBudget",), "1.25", "policy/v1"),
    ((f"{_RBAC}/v1alpha1", f"{_RBAC}/v1beta1"), _ROLES, "1.22", f"{_RBAC}/v1"),
    ((f"{_SCHEDULING}/v1alpha1", f"{_SCHEDULING}/v1beta1"), ("PriorityClass",), "1.22", f"{_SCHEDULING}/v1"),
    ((f"{_ADMISSION}/v1beta1",), _WEBHOOKS, "1.22", f"{_ADMISSION}/v1"),
    (("apiextensions.k8s.io/v1beta1",), ("CustomResourceDefinition",), "1.22", "apiextensions.k8s.io/v1"),
    (("apiregistration.k8s.io/v1beta1",), ("APIService",), "1.22", "apiregistration.k8s.io/v1"),
    (("authentication.k8s.io/v1beta1",), ("TokenReview",), "1.22", "authentication.k8s.io/v1"),
    (("authorization.k8s.io/v1beta1",), _REVIEWS, "1.22", "authorization.k8s.io/v1"),
    (("certificates.k8s.io/v1beta1",), ("CertificateSigningRequest",), "1.22", "certificates.k8s.io/v1"),
    (("coordination.k8s.io/v1beta1",), ("Lease",), "1.22", "coordination.k8s.io/v1"),
    (("storage.k8s.io/v1beta1",), _STORAGE, "1.22", "storage.k8s.io/v1"),
    (("storage.k8s.io/v1beta1",), ("CSIStorageCapacity",), "1.27", "storage.k8s.io/v1"),
    (("discovery.k8s.io/v1beta1",), ("EndpointSlice",), "1.25", "discovery.k8s.io/v1"),
    (("events.k8s.io/v1beta1",), ("Event",), "1.25", "events.k8s.io/v1"),
    (("node.k8s.io/v1alpha1", "node.k8s.io/v1beta1"), ("RuntimeClass",), "1.25", "node.k8s.io/v1"),
    ((f"{_FLOW}/v1alpha1", f"{_FLOW}/v1beta1"), _FLOW_CONTROL, "1.26", f"{_FLOW}/v1"),
    ((f"{_FLOW}/v1beta2",), _FLOW_CONTROL, "1.29", f"{_FLOW}/v1"),
    ((f"{_FLOW}/v1beta3",), _FLOW_CONTROL, "1.32", f"{_FLOW}/v1"),
)  # fmt: skip

_REMOVALS: Mapping[tuple[str, str], Removal] = {
    (version, kind): Removal(release, replacement)
    for versions, kinds, release, replacement in _TABLE
    for version in versions
    for kind in kinds
}


def removal_of(api_version: str, kind: str) -> Removal | None:
    """Return how Kubernetes replaced the API version of a kind; None if it still has it, or never had it."""
    return _REMOVALS.get((api_version, kind))
