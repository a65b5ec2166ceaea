"""The Deployment of the dashboard and its Service. Its pod has no token: every request has the token of a viewer."""

from windlass.install.deployment import CONTAINER_SECURITY, POD_SECURITY, ingress_only
from windlass.install.options import UI_NAME, InstallOptions
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.wire.yaml import dump as yaml_dump

PORT = 8080
SERVICE_PORT = 80
KUBECONFIG = "kubeconfig"
_AUTHORITY = "ca.crt"
_FOLDER = "/etc/windlass"
_CLUSTER = "cluster"
_ROOT_AUTHORITY = "kube-root-ca.crt"
"""The ConfigMap with the authority of the API server, which Kubernetes creates in every namespace."""


def objects(options: InstallOptions) -> list[Json]:
    """Return the objects of the dashboard; none unless it is to be installed."""
    if not options.has_ui:
        return []
    metadata = options.metadata(UI_NAME)
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": "http", "protocol": "TCP"}]
    objects = [
        manifest("v1", "ServiceAccount", metadata, automountServiceAccountToken=False),
        manifest("v1", "ConfigMap", metadata, data={KUBECONFIG: _kubeconfig()}),
        manifest("apps/v1", "Deployment", metadata, spec=_deployment(options)),
        manifest("v1", "Service", metadata, spec={"selector": _selector(options), "ports": ports}),
    ]
    if options.has_network_policy:
        spec = ingress_only(_selector(options), "http", options.ui_peers)
        objects.append(manifest("networking.k8s.io/v1", "NetworkPolicy", metadata, spec=spec))
    return objects


def _kubeconfig() -> str:
    """Return a kubeconfig without credentials."""
    cluster = {"server": "https://kubernetes.default.svc", "certificate-authority": _AUTHORITY}
    context = {"cluster": _CLUSTER, "namespace": names.DEFAULT_NAMESPACE}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CLUSTER, "cluster": cluster}],
        "contexts": [{"name": _CLUSTER, "context": context}],
        "current-context": _CLUSTER,
    }
    return yaml_dump.dump(body).decode()


def _selector(options: InstallOptions) -> dict[str, str]:
    return {**options.pod_selector, "app.kubernetes.io/component": "ui"}


def _deployment(options: InstallOptions) -> Json:
    selector = _selector(options)
    return {
        # Sessions are in the memory of one pod.
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector},
        "template": {"metadata": {"labels": {**options.labels, **selector}}, "spec": _pod(options)},
    }


def _pod(options: InstallOptions) -> Json:
    sources = [{"configMap": {"name": UI_NAME}}, {"configMap": {"name": _ROOT_AUTHORITY}}]
    return {
        "serviceAccountName": UI_NAME,
        "automountServiceAccountToken": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": POD_SECURITY,
        "containers": [_container(options)],
        "volumes": [{"name": "configuration", "projected": {"sources": sources}}],
        **options.pod_fields,
    }


def _container(options: InstallOptions) -> Json:
    header = options.ui_token_header
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "timeoutSeconds": 5}
    return {
        "name": "ui",
        "image": options.image,
        **options.container_fields,
        "args": [
            "ui",
            f"--listen=:{PORT}",
            f"--kubeconfig={_FOLDER}/{KUBECONFIG}",
            f"--token-header={header}" if header else "--token-login",
            *(f"--host={host}" for host in options.ui_hosts),
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": {**probe, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**probe, "periodSeconds": 5},
        "resources": options.ui_resources,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "configuration", "mountPath": _FOLDER, "readOnly": True}],
    }
