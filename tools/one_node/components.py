"""The programs of the cluster: their arguments and readiness checks, as values."""

import dataclasses
import sys
from pathlib import Path
from typing import Final

import cluster_dns  # next to this package
import kubernetes_api  # next to this package
from one_node import layout
from one_node.layout import Layout

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
CONTAINERD: Final = "containerd"
KUBELET: Final = "kubelet"
PROXY: Final = "kube-proxy"
DNS: Final = "dns"

LAST_WITH_OTHER_RUNTIMES: Final = 23
"""Last minor version whose kubelet must be told to use a CRI runtime instead of Docker."""


@dataclasses.dataclass(frozen=True)
class Component:
    name: str
    program: list[str]
    arguments: list[str]
    health: str = ""
    """URL that returns 200 once it serves."""
    check: list[str] = dataclasses.field(default_factory=list)
    """Command that succeeds once it serves. Without both, a dependent component checks."""
    required: str = ""
    """Name of the component that must serve before this one starts. This one is started again if it exits early."""

    @property
    def argv(self) -> list[str]:
        return [*self.program, *self.arguments]

    def is_started_by(self, argv: list[str]) -> bool:
        """Return whether this command starts the component, whatever its arguments and checkout: a machine has one
        cluster."""
        return _names(argv[: len(self.program)]) == _names(self.program)


def _names(program: list[str]) -> list[str]:
    return [Path(word).name for word in program]


def table(place: Layout) -> dict[str, Component]:
    """Return the components by name, in start order."""
    components = (
        _etcd(place),
        _api_server(place),
        _containerd(place),
        _controller_manager(place),
        _scheduler(place),
        _kubelet(place),
        _proxy(place),
        _dns(place),
    )
    return {each.name: each for each in components}


def _etcd(place: Layout) -> Component:
    url = "http://127.0.0.1:2379"
    arguments = [
        "--data-dir=/var/lib/etcd",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--logger=zap",
    ]
    return Component(ETCD, [str(place.binaries / "etcd")], arguments)


def _api_server(place: Layout) -> Component:
    key = place.secrets / "service-accounts.key"
    arguments = [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--bind-address={layout.ADDRESS}",
        f"--advertise-address={layout.ADDRESS}",
        f"--secure-port={layout.API_PORT}",
        f"--cert-dir={place.certificate.parent}",
        f"--token-auth-file={place.secrets / 'tokens.csv'}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--service-cluster-ip-range={layout.SERVICES}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        f"--audit-policy-file={place.settings / 'audit-policy.json'}",
        f"--audit-log-path={place.audit_log}",
        "--audit-log-maxsize=10000",
    ]
    return Component(API_SERVER, [str(place.binaries / API_SERVER)], arguments, f"{layout.URL}/readyz")


def _controller_manager(place: Layout) -> Component:
    arguments = [
        f"--kubeconfig={place.kubeconfig('system:kube-controller-manager')}",
        "--use-service-account-credentials",
        f"--root-ca-file={place.certificate}",
        f"--service-account-private-key-file={place.secrets / 'service-accounts.key'}",
        # Time after which a silent node is lost.
        "--node-monitor-grace-period=20s",
        "--node-monitor-period=2s",
        *_serving(place, CONTROLLER_MANAGER),
    ]
    program = [str(place.binaries / CONTROLLER_MANAGER)]
    return Component(CONTROLLER_MANAGER, program, arguments, f"https://{layout.ADDRESS}:10257/healthz")


def _scheduler(place: Layout) -> Component:
    arguments = [
        f"--kubeconfig={place.kubeconfig('system:kube-scheduler')}",
        *_serving(place, SCHEDULER),
    ]
    program = [str(place.binaries / SCHEDULER)]
    return Component(SCHEDULER, program, arguments, f"https://{layout.ADDRESS}:10259/healthz")


def _serving(place: Layout, name: str) -> list[str]:
    return [
        "--leader-elect=false",
        f"--bind-address={layout.ADDRESS}",
        # The default rate limits would slow down every new namespace.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *kubernetes_api.flags_against_insecure_port(place.minor),
        f"--cert-dir={place.secrets / name}",
    ]


def _containerd(place: Layout) -> Component:
    programs = place.runtime / "bin"
    arguments = [f"--config={place.settings / 'containerd.toml'}"]
    return Component(
        CONTAINERD, [str(programs / CONTAINERD)], arguments, check=[str(programs / "ctr"), "version"]
    )


def _kubelet(place: Layout) -> Component:
    arguments = [
        f"--config={place.settings / 'kubelet.json'}",
        f"--kubeconfig={place.kubeconfig(f'system:node:{layout.NODE}')}",
        *(["--container-runtime=remote"] if place.minor <= LAST_WITH_OTHER_RUNTIMES else []),
        f"--container-runtime-endpoint=unix://{layout.CONTAINERD_SOCKET}",
        f"--hostname-override={layout.NODE}",
        f"--node-ip={layout.ADDRESS}",
        f"--cert-dir={place.secrets / KUBELET}",
    ]
    return Component(
        KUBELET,
        [str(place.binaries / KUBELET)],
        arguments,
        f"http://{layout.ADDRESS}:10248/healthz",
        required=CONTAINERD,  # a current kubelet exits if the container runtime does not respond
    )


def _proxy(place: Layout) -> Component:
    arguments = [f"--config={place.settings / 'kube-proxy.json'}"]
    return Component(
        PROXY, [str(place.binaries / PROXY)], arguments, f"http://{layout.ADDRESS}:10256/healthz"
    )


def _dns(place: Layout) -> Component:
    arguments = [
        f"--kubeconfig={place.kubeconfig('system:serviceaccount:kube-system:kube-dns')}",
        f"--address={layout.ADDRESS}",
        "--port=53",
        f"--domain={layout.DOMAIN}",
    ]
    return Component(DNS, [sys.executable, str(Path(cluster_dns.__file__))], arguments)
