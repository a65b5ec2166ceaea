"""The controller's namespace, its Deployment and related objects. Pods meet the "restricted" Pod Security Standard."""

import hashlib

from windlass.install.options import CONFIGURATION, CONTROLLER, DEFAULT_IMAGE, InstallOptions
from windlass.model.base import Json

METRICS_PORT = 8080
USER = 65532
"""The user of the image."""

_CONFIGURATION_FOLDER = "/etc/windlass"
CONFIGURATION_FILE = "frameworkcontroller.yaml"
_CONFIGURATION_HASH = "windlass.dev/configuration"


def namespace(options: InstallOptions) -> list[Json]:
    """Return the Namespace, unless it is one of the cluster's own."""
    if options.namespace == "default" or options.namespace.startswith("kube-"):
        return []
    pod_security = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    metadata = options.metadata(options.namespace, "")
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {**metadata, "labels": {**options.labels, **pod_security}},
        }
    ]


def workload(options: InstallOptions) -> list[Json]:
    return [
        *([_configuration(options)] if options.configuration else []),
        _deployment(options),
        _disruption_budget(options),
        *([_pod_monitor(options)] if options.has_pod_monitor else []),
    ]


def _configuration(options: InstallOptions) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": options.metadata(CONFIGURATION),
        "data": {CONFIGURATION_FILE: options.configuration},
    }


def _deployment(options: InstallOptions) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": options.metadata(CONTROLLER),
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": options.pod_selector},
            # Only the leader acts, so an update needs no surplus replica.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": _pod_metadata(options), "spec": _pod(options)},
        },
    }


def _pod_metadata(options: InstallOptions) -> Json:
    if not options.configuration:
        return {"labels": options.pod_labels}
    # The controller reads its file at the start only: a change must replace the pods.
    digest = hashlib.sha256(options.configuration.encode()).hexdigest()
    return {"labels": options.pod_labels, "annotations": {_CONFIGURATION_HASH: digest}}


def _pod(options: InstallOptions) -> Json:
    pod = {
        "serviceAccountName": CONTROLLER,
        "automountServiceAccountToken": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": _anti_affinity(options),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(options)],
    }
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    if options.configuration:
        pod["volumes"] = [{"name": "configuration", "configMap": {"name": CONFIGURATION}}]
    return pod


def _anti_affinity(options: InstallOptions) -> Json:
    """Return a preference for different nodes."""
    term = {"labelSelector": {"matchLabels": options.pod_selector}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _container(options: InstallOptions) -> Json:
    container = {
        "name": "controller",
        "image": options.image,
        "args": _arguments(options),
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 20, "failureThreshold": 3},
        # A replica on standby is ready too.
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        # The limit is enough for a few Frameworks with 10,000 tasks.
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if options.configuration:
        mount = {"name": "configuration", "mountPath": _CONFIGURATION_FOLDER, "readOnly": True}
        container["volumeMounts"] = [mount]
    return container


def _arguments(options: InstallOptions) -> list[str]:
    """Return the flags, which override the file: the probes need the metrics address."""
    arguments = ["controller", f"--metrics-address=:{METRICS_PORT}"]
    if options.configuration:
        arguments.append(f"--config={_CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}")
    if options.settings.namespaces:
        arguments.append(f"--namespaces={','.join(options.settings.namespaces)}")
    if options.settings.barrier_image == DEFAULT_IMAGE != options.image:
        arguments.append(f"--barrier-image={options.image}")
    if options.settings.manage_crds:
        arguments.append("--manage-crds")
    return arguments


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}


def _disruption_budget(options: InstallOptions) -> Json:
    """Return a budget by maxUnavailable: with one replica, minAvailable would block draining its node."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": options.metadata(CONTROLLER),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": options.pod_selector}},
    }


def _pod_monitor(options: InstallOptions) -> Json:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": options.metadata(CONTROLLER),
        "spec": {
            "selector": {"matchLabels": options.pod_selector},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
        },
    }
