"""The configuration files of the components: users and settings."""

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

import kubernetes_api
from one_node import layout
from one_node.layout import Layout

FIRST_WITH_CGROUP_CHECK: Final = 31
"""First minor version whose kubelet has `failCgroupV1`; from 1.35 on it rejects cgroup v1 by default."""
FIRST_WITH_LOG_WORKERS: Final = 30
"""First minor version that lets several workers rotate logs: one falls behind if many containers run."""

LOG_ROTATION: Final = {"containerLogMaxWorkers": 4, "containerLogMonitorInterval": "3s"}

READING: Final = ("get", "list", "watch")
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # Deleting a namespace costs a hundred requests, and tests create many.
        {"level": "None", "users": ["system:serviceaccount:kube-system:namespace-controller"]},
        # Users whose requests are not audited, because they read all the time.
        {
            "level": "None",
            "verbs": READING,
            "userGroups": ["system:masters", "system:nodes", "system:serviceaccounts:kube-system"],
        },
        {"level": "None", "verbs": READING, "users": [user for user in layout.USERS if user != layout.ADMIN]},
        {"level": "Metadata"},
    ],
}


def write(place: Layout) -> None:
    for folder in (place.settings, place.secrets, place.logs, place.data / "var/lib", place.data / "var/log"):
        folder.mkdir(parents=True, exist_ok=True)
    place.data.chmod(0o755)
    place.secrets.chmod(0o700)
    _write(place.release, str(place.minor))
    _write(place.settings / "resolv.conf", f"nameserver {layout.ADDRESS}\n")
    _write(place.settings / "audit-policy.json", AUDIT_POLICY)
    _write(place.settings / "containerd.toml", _containerd(place))
    _write(place.settings / "cni" / "pods.conflist", _pod_network())
    _write(place.settings / "kubelet.json", _kubelet(place))
    _write(place.settings / "kube-proxy.json", _proxy(place))
    tokens = {user: secrets.token_hex(16) for user in layout.USERS}
    lines = [f'{token},{user},{user},"{layout.USERS[user]}"\n' for user, token in tokens.items()]
    _write(place.secrets / "tokens.csv", "".join(lines))
    for user, token in tokens.items():
        _write(place.secrets / f"{user}.token", token)
    _write(place.secrets / "service-accounts.key", kubernetes_api.signing_key())


def write_kubeconfigs(place: Layout) -> None:
    """Write them once the API server has generated its certificate."""
    certificate = place.certificate.read_text()
    for user in layout.USERS:
        config = kubernetes_api.kubeconfig(layout.URL, certificate, user, token(place, user))
        _write(place.kubeconfig(user), config)


def token(place: Layout, user: str = layout.ADMIN) -> str:
    return (place.secrets / f"{user}.token").read_text()


def _containerd(place: Layout) -> str:
    # Without restrict_oom_score_adj no sandbox starts on a machine that lacks CAP_SYS_RESOURCE.
    return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "windlass/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{place.runtime / "cni"}"
    conf_dir = "{place.settings / "cni"}"
"""


def _pod_network() -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": layout.BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": layout.PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    host_ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, host_ports]}


def _kubelet(place: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.ADDRESS,
        "healthzBindAddress": layout.ADDRESS,
        # Only this host and its pods can reach it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.CGROUP}",
        "clusterDNS": [layout.ADDRESS],
        "clusterDomain": layout.DOMAIN,
        "resolvConf": str(place.settings / "resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/plugins",
        "failSwapOn": False,
        **({"failCgroupV1": False} if place.minor >= FIRST_WITH_CGROUP_CHECK else {}),
        **(LOG_ROTATION if place.minor >= FIRST_WITH_LOG_WORKERS else {}),
        # The machine's disk may be fuller than a node's should be.
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        # Shorter intervals make tests faster.
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 20,
        "syncFrequency": "10s",
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    }


def _proxy(place: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": layout.NODE,
        "clusterCIDR": layout.PODS,
        "bindAddress": layout.ADDRESS,
        "healthzBindAddress": f"{layout.ADDRESS}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": str(place.kubeconfig("system:kube-proxy"))},
        # These kernel settings belong to the whole machine.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s"},
    }


def _write(path: Path, content: str | dict[str, Any]) -> None:
    """Write a private file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.rename(path)
