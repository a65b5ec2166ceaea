"""The controller's namespace, its Deployment, and what goes with that. Fits Pod Security's level "restricted"."""

import hashlib

from windlass.install import plan
from windlass.install.plan import Plan
from windlass.model.base import Json

METRICS_PORT = 8080
USER = 65532
"""Nobody's in particular. The image's user is the same one."""

_CONFIGURATION_FOLDER = "/etc/windlass"
CONFIGURATION_FILE = "frameworkcontroller.yaml"
_CONFIGURATION_HASH = "windlass.dev/configuration"


def namespace(wanted: Plan) -> list[Json]:
    """None if it is one of the cluster's own: those are there already, and not ours to label."""
    if wanted.namespace == "default" or wanted.namespace.startswith("kube-"):
        return []
    pod_security = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    metadata = wanted.metadata(wanted.namespace, "")
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {**metadata, "labels": {**wanted.labels, **pod_security}},
        }
    ]


def workload(wanted: Plan) -> list[Json]:
    return [
        *([_configuration(wanted)] if wanted.configuration else []),
        _deployment(wanted),
        _disruption_budget(wanted),
        *([_pod_monitor(wanted)] if wanted.has_pod_monitor else []),
    ]


def _configuration(wanted: Plan) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": wanted.metadata(plan.CONFIGURATION),
        "data": {CONFIGURATION_FILE: wanted.configuration},
    }


def _deployment(wanted: Plan) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": wanted.metadata(plan.CONTROLLER),
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": wanted.pod_selector},
            # One replica acts at a time, so that a new one needs no room beside the old ones.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": _pod_metadata(wanted), "spec": _pod(wanted)},
        },
    }


def _pod_metadata(wanted: Plan) -> Json:
    if not wanted.configuration:
        return {"labels": wanted.pod_labels}
    # The controller reads its file once: another text has to make other pods.
    digest = hashlib.sha256(wanted.configuration.encode()).hexdigest()
    return {"labels": wanted.pod_labels, "annotations": {_CONFIGURATION_HASH: digest}}


def _pod(wanted: Plan) -> Json:
    pod = {
        "serviceAccountName": plan.CONTROLLER,
        "automountServiceAccountToken": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": _apart(wanted),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(wanted)],
    }
    if wanted.priority_class:
        pod["priorityClassName"] = wanted.priority_class
    if wanted.configuration:
        pod["volumes"] = [{"name": "configuration", "configMap": {"name": plan.CONFIGURATION}}]
    return pod


def _apart(wanted: Plan) -> Json:
    """On different nodes, if there are several."""
    term = {"labelSelector": {"matchLabels": wanted.pod_selector}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _container(wanted: Plan) -> Json:
    container = {
        "name": "controller",
        "image": wanted.image,
        "args": _arguments(wanted),
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 20, "failureThreshold": 3},
        # A replica that waits for its turn is ready too.
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        # The limit leaves room for a few Frameworks of ten thousand tasks.
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if wanted.configuration:
        mount = {"name": "configuration", "mountPath": _CONFIGURATION_FOLDER, "readOnly": True}
        container["volumeMounts"] = [mount]
    return container


def _arguments(wanted: Plan) -> list[str]:
    """Flags come before the file: where the probes ask is not left to it."""
    arguments = ["controller", f"--metrics-address=:{METRICS_PORT}"]
    if wanted.configuration:
        arguments.append(f"--config={_CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}")
    if wanted.settings.namespaces:
        arguments.append(f"--namespaces={','.join(wanted.settings.namespaces)}")
    if wanted.settings.barrier_image == plan.DEFAULT_IMAGE != wanted.image:
        arguments.append(f"--barrier-image={wanted.image}")
    if wanted.settings.manage_crds:
        arguments.append("--manage-crds")
    return arguments


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}


def _disruption_budget(wanted: Plan) -> Json:
    """At most one at a time goes. A minimum would keep a node from being drained where there is one replica."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": wanted.metadata(plan.CONTROLLER),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": wanted.pod_selector}},
    }


def _pod_monitor(wanted: Plan) -> Json:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": wanted.metadata(plan.CONTROLLER),
        "spec": {
            "selector": {"matchLabels": wanted.pod_selector},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
        },
    }
