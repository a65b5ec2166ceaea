"""API versions that Kubernetes has removed."""

import pytest

from windlass.k8s import removed_versions
from windlass.k8s.removed_versions import Removal

TABLE = [
    ("extensions/v1beta1", "Deployment", "1.16", "apps/v1"),
    ("extensions/v1beta1", "DaemonSet", "1.16", "apps/v1"),
    ("extensions/v1beta1", "ReplicaSet", "1.16", "apps/v1"),
    ("extensions/v1beta1", "NetworkPolicy", "1.16", "networking.k8s.io/v1"),
    ("extensions/v1beta1", "Ingress", "1.22", "networking.k8s.io/v1"),
    ("extensions/v1beta1", "Job", "1.16", "batch/v1"),
    ("apps/v1beta1", "StatefulSet", "1.16", "apps/v1"),
    ("apps/v1beta2", "Deployment", "1.16", "apps/v1"),
    ("apps/v1alpha1", "PetSet", "1.5", "a StatefulSet of apps/v1"),
    ("batch/v2alpha1", "CronJob", "1.21", "batch/v1"),
    ("batch/v1beta1", "CronJob", "1.25", "batch/v1"),
    ("rbac.authorization.k8s.io/v1beta1", "RoleBinding", "1.22", "rbac.authorization.k8s.io/v1"),
    ("policy/v1beta1", "PodDisruptionBudget", "1.25", "policy/v1"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26", "autoscaling/v2"),
    ("storage.k8s.io/v1beta1", "StorageClass", "1.22", "storage.k8s.io/v1"),
]


@pytest.mark.parametrize(("version", "kind", "release", "replacement"), TABLE)
def test_removed_version_has_a_replacement(version: str, kind: str, release: str, replacement: str) -> None:
    assert removed_versions.removal_of(version, kind) == Removal(release, replacement)
    assert removed_versions.removal_of(replacement, kind) is None


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "ReplicationController"),
        ("apps/v1", "Deployment"),
        ("storage.k8s.io/v1beta1", "VolumeAttributesClass"),
        ("example.com/v1beta1", "Deployment"),
        ("", ""),
    ],
)
def test_other_versions_are_not_removed(version: str, kind: str) -> None:
    assert removed_versions.removal_of(version, kind) is None
