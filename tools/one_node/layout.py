"""The addresses, ports and folders of the cluster."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import kubernetes_binaries
import workshops

NODE: Final = "one-node"
DOMAIN: Final = "cluster.local"

# A range reserved for network tests.
NETWORK: Final = "198.18.0.0/15"
PODS: Final = "198.18.0.0/24"
SERVICES: Final = "198.19.0.0/16"
BRIDGE: Final = "pods"
ADDRESS: Final = "198.18.0.1"
"""Address of the bridge, on which everything listens that pods or the host use."""
UPLINK: Final = "windlass-node"
"""The host's end of the link to the node."""
HOST_END: Final = "198.18.255.1/30"
NODE_END: Final = "198.18.255.2/30"

API_PORT: Final = 6443
URL: Final = f"https://{ADDRESS}:{API_PORT}"
CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
CGROUP: Final = "windlass-one-node"

ADMIN: Final = "admin"
USERS: Final = {
    # With its official name each user has the role that Kubernetes defines for it.
    ADMIN: "system:masters",
    f"system:node:{NODE}": "system:nodes",
    "system:kube-proxy": "",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
    "system:serviceaccount:kube-system:kube-dns": "",
}


@dataclasses.dataclass(frozen=True)
class Layout:
    data: Path
    """Folder of all files of the cluster, deleted with it."""
    binaries: Path
    """Folder of etcd, Kubernetes and kubectl."""
    runtime: Path
    """Folder of containerd, runc and the network plugins."""
    minor: int = 0
    """Minor version of the Kubernetes in `binaries`."""

    @property
    def secrets(self) -> Path:
        return self.data / "secrets"

    @property
    def settings(self) -> Path:
        return self.data / "settings"

    @property
    def logs(self) -> Path:
        """Output of the components."""
        return self.data / "logs"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.jsonl"

    @property
    def release(self) -> Path:
        """File with the minor version of the cluster that was started here."""
        return self.data / "release"

    @property
    def certificate(self) -> Path:
        """Certificate of the API server, which generates it."""
        return self.secrets / "api" / "apiserver.crt"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        return self.secrets / f"{user.replace(':', '-')}.kubeconfig"

    @property
    def kubectls(self) -> tuple[Path, ...]:
        return kubernetes_binaries.kubectls(self.binaries)


def data_folder(environment: Mapping[str, str]) -> Path:
    return workshops.cache_root(environment) / "one-node"
