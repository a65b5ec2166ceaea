"""The controller's namespace, its Deployment and related objects. Pods meet the "restricted" Pod Security Standard."""

import hashlib

from windlass.install.options import CONFIG_MAP_NAME, CONTROLLER_NAME, DEFAULT_IMAGE, InstallOptions
from windlass.model import names
from windlass.model.base import Json, manifest

METRICS_PORT = 8080
USER = 65532
"""The ID of the user and of the group that the controller runs as."""

_CONFIGURATION_FOLDER = "/etc/windlass"
CONFIGURATION_FILE = "frameworkcontroller.yaml"
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def namespace(options: InstallOptions) -> list[Json]:
    """Return the Namespace, unless it is one of the cluster's own."""
    if options.namespace == "default" or options.namespace.startswith("kube-"):
        return []
    pod_security = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    metadata = options.metadata(options.namespace, "")
    return [manifest("v1", "Namespace", {**metadata, "labels": {**options.labels, **pod_security}})]


def workload(options: InstallOptions) -> list[Json]:
    metadata, selector = options.metadata(CONTROLLER_NAME), {"matchLabels": options.pod_selector}
    manifests = [manifest("apps/v1", "Deployment", metadata, spec=_deployment_spec(options))]
    if options.configuration:
        data = {CONFIGURATION_FILE: options.configuration}
        manifests.insert(0, manifest("v1", "ConfigMap", options.metadata(CONFIG_MAP_NAME), data=data))
    if options.has_disruption_budget:
        # Use maxUnavailable: with one replica, minAvailable would block draining its node.
        spec = {"maxUnavailable": 1, "selector": selector}
        manifests.append(manifest("policy/v1", "PodDisruptionBudget", metadata, spec=spec))
    if options.has_network_policy:
        spec = ingress_only(options.pod_selector, "metrics", options.monitoring_peers)
        manifests.append(manifest("networking.k8s.io/v1", "NetworkPolicy", metadata, spec=spec))
    return [*manifests, *_monitors(options)]


def ingress_only(selector: Json, port: str, peers: list[Json]) -> Json:
    """Return the spec of a NetworkPolicy that allows connections to one port. The kubelet always has access."""
    rule: Json = {"ports": [{"port": port, "protocol": "TCP"}], **({"from": peers} if peers else {})}
    return {"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": [rule]}


def _monitors(options: InstallOptions) -> list[Json]:
    """Return the objects by which the Prometheus operator finds the metrics."""
    metadata, selector = options.metadata(CONTROLLER_NAME), {"matchLabels": options.pod_selector}
    endpoints, manifests = [{"port": "metrics", "path": "/metrics"}], []
    if options.has_pod_monitor:
        spec: Json = {"selector": selector, "podMetricsEndpoints": endpoints}
        manifests.append(manifest("monitoring.coreos.com/v1", "PodMonitor", metadata, spec=spec))
    if options.has_service_monitor:
        component = {"app.kubernetes.io/component": options.pod_selector["app.kubernetes.io/component"]}
        labelled = {**metadata, "labels": {**metadata["labels"], **component}}
        ports = [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}]
        # Without a cluster IP: Prometheus reads each replica.
        spec = {"clusterIP": "None", "selector": options.pod_selector, "ports": ports}
        manifests.append(manifest("v1", "Service", labelled, spec=spec))
        spec = {"selector": selector, "endpoints": endpoints}
        manifests.append(manifest("monitoring.coreos.com/v1", "ServiceMonitor", metadata, spec=spec))
    return manifests


def _deployment_spec(options: InstallOptions) -> Json:
    return {
        "replicas": options.replicas,
        "selector": {"matchLabels": options.pod_selector},
        # Only the leader acts, so an update needs no surplus replica.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": {"metadata": _pod_metadata(options), "spec": _pod(options)},
    }


def _pod_metadata(options: InstallOptions) -> Json:
    if not options.configuration:
        return {"labels": options.pod_labels}
    # The controller reads its file at the start only: a change must replace the pods.
    digest = hashlib.sha256(options.configuration.encode()).hexdigest()
    return {"labels": options.pod_labels, "annotations": {names.CONFIGURATION_ANNOTATION: digest}}


def _pod(options: InstallOptions) -> Json:
    pod = {
        "serviceAccountName": CONTROLLER_NAME,
        "automountServiceAccountToken": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": _anti_affinity(options),
        "securityContext": POD_SECURITY,
        "containers": [_container(options)],
        **options.pod_fields,
    }
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    if options.configuration:
        pod["volumes"] = [{"name": "configuration", "configMap": {"name": CONFIG_MAP_NAME}}]
    return pod


def _anti_affinity(options: InstallOptions) -> Json:
    """Return the preference that replicas run on different nodes."""
    term = {"labelSelector": {"matchLabels": options.pod_selector}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _container(options: InstallOptions) -> Json:
    container = {
        "name": "controller",
        "image": options.image,
        **options.container_fields,
        "args": _arguments(options),
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 20, "failureThreshold": 3},
        # A replica on standby is ready too.
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        "resources": options.resources,
        "securityContext": CONTAINER_SECURITY,
    }
    if options.configuration:
        mount = {"name": "configuration", "mountPath": _CONFIGURATION_FOLDER, "readOnly": True}
        container["volumeMounts"] = [mount]
    return container


def _arguments(options: InstallOptions) -> list[str]:
    """Return the arguments. They override the configuration file, so the probes always find the metrics port."""
    arguments = ["controller", f"--metrics-address=:{METRICS_PORT}"]
    if options.configuration:
        arguments.append(f"--config={_CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}")
    if options.settings.namespaces:
        arguments.append(f"--namespaces={','.join(options.settings.namespaces)}")
    if options.settings.barrier_image == DEFAULT_IMAGE != options.image:
        arguments.append(f"--barrier-image={options.image}")
    if options.settings.manage_crds:
        arguments.append("--manage-crds")
    if options.settings.history.enabled:
        arguments.append("--history-enabled")
        if options.settings.history.read_logs:
            arguments.append("--history-read-logs")
    return arguments


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}
