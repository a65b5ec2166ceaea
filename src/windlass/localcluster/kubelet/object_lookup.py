"""Look up, in the store, the objects that a pod refers to, and the Services and DNS names of its namespace."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from windlass.k8s.metadata import ObjectMeta, decode_name
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.containers.network_files import CLUSTER_DOMAIN, Entry
from windlass.localcluster.kubelet.volumes import service_account
from windlass.localcluster.store_types import Change, object_key
from windlass.model.base import Json

ApiServerAddress = Callable[[Json], tuple[str, int] | None]
"""Function from a pod to the address and port of the API server in the pod's network; None if it is not reachable."""

_PODS = "pods"
_SERVICES = "services"
_RESOURCES = {"ConfigMap": "configmaps", "Secret": "secrets"}
_HEADLESS = "None"


class ObjectLookup:
    def __init__(
        self, lifecycle: Lifecycle, api_server: ApiServerAddress, authority: Callable[[], str]
    ) -> None:
        """`authority` returns the CA certificate of the API server as PEM."""
        self._store = lifecycle.store
        self._api_server = api_server
        self._authority = authority
        # Namespace → cached entries of /etc/hosts, until one of them changes.
        self._entries: dict[str, tuple[Entry, ...]] = {}
        # Namespace → key → pod that has an address and has not ended. A namespace is read only once: it may be large.
        self._pods: dict[str, dict[str, _PodView]] = {}
        self._store.listen(self._on_change)

    def lookup(self, namespace: str) -> Lookup:
        return lambda kind, name: self._object(kind, namespace, name)

    def claim_lookup(self, namespace: str) -> Callable[[str], Json | None]:
        return lambda name: self._stored("persistentvolumeclaims", namespace, name)

    def services(self, pod: Json) -> tuple[Json, ...]:
        """Return the Services of the pod's namespace, and `kubernetes` if the pod can reach the API server."""
        found = map(bodies.decode_stored, self._store.all(_SERVICES, pod["metadata"]["namespace"]))
        others = (service for service in found if not _is_api_server(service))
        address = self._api_server(pod)
        return (*others, *(() if address is None else (_api_service(*address),)))

    def facts(self, pod: Json, pod_ips: tuple[str, ...], host_ips: tuple[str, ...]) -> PodFacts:
        node = self._stored("nodes", "", pod["spec"].get("nodeName", "")) or {}
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        return PodFacts(pod_ips, host_ips, allocatable, self.services(pod))

    def host_entries(self, pod: Json) -> tuple[Entry, ...]:
        """Return the entries of /etc/hosts that replace a cluster DNS: the API server and names in the pod's namespace.

        A pod that has a hostname, and the name of a headless Service as its subdomain, has a name as soon as it has an
        address. The name of a Service resolves to the addresses of its published pods, even if the Service has a
        ClusterIP, since this cluster does not route ClusterIPs. Therefore only a port that equals its targetPort is
        reachable by that name.
        """
        namespace = pod["metadata"]["namespace"]
        if namespace not in self._entries:
            services = [_service_view(body) for body in self._store.all(_SERVICES, namespace)]
            pods = self._pods_with_address(namespace)
            self._entries[namespace] = tuple(_namespace_entries(namespace, pods, services))
        address = self._api_server(pod)
        return (*(() if address is None else (_api_entry(address[0], namespace),)), *self._entries[namespace])

    def _on_change(self, change: Change) -> None:
        """Update the caches if the change affects them. Most changes of a pod's status do not affect them."""
        if change.resource not in _VIEWS:
            return
        before, after = (body and _VIEWS[change.resource](body) for body in (change.before, change.after))
        if before == after:
            return
        namespace = change.key.partition("/")[0]
        self._entries.pop(namespace, None)
        pods = self._pods.get(namespace)
        if change.resource == _PODS and pods is not None:
            pods.pop(change.key, None)
            if isinstance(after, _PodView):
                pods[change.key] = after

    def _pods_with_address(self, namespace: str) -> list["_PodView"]:
        """Return the pods that have an address and have not ended, in the order of their keys."""
        if namespace not in self._pods:
            found = ((_key_of(body), _pod_view(body)) for body in self._store.all(_PODS, namespace))
            self._pods[namespace] = {key: pod for key, pod in found if pod is not None}
        return [pod for _, pod in sorted(self._pods[namespace].items(), key=lambda item: item[0])]

    def _object(self, kind: str, namespace: str, name: str) -> Json | None:
        found = self._stored(_RESOURCES[kind], namespace, name)
        is_ca_config_map = (kind, name) == ("ConfigMap", service_account.CA_CONFIG_MAP)
        if found is None and is_ca_config_map:
            # In Kubernetes, a controller creates this ConfigMap in every namespace.
            return {"data": {service_account.CA_FILE: self._authority()}}
        return found

    def _stored(self, resource: str, namespace: str, name: str) -> Json | None:
        body = self._store.get(resource, object_key(namespace, name))
        return None if body is None else bodies.decode_stored(body)


def _is_api_server(service: Json) -> bool:
    meta = service["metadata"]
    return (meta["namespace"], meta["name"]) == ("default", "kubernetes")


def _api_service(host: str, port: int) -> Json:
    return {
        "metadata": {"namespace": "default", "name": "kubernetes"},
        "spec": {"clusterIP": host, "ports": [{"name": "https", "protocol": "TCP", "port": port}]},
    }


def _api_entry(host: str, namespace: str) -> Entry:
    names = _all_names("kubernetes", "default")
    return host, names if namespace == "default" else names[:-1]


# Names in a namespace


class _PodView(msgspec.Struct, frozen=True):
    """The fields of a pod that the entries of /etc/hosts depend on."""

    address: str
    hostname: str
    subdomain: str
    labels: Mapping[str, str]
    is_ready: bool


class _ServiceView(msgspec.Struct, frozen=True):
    name: str
    is_headless: bool
    selector: Mapping[str, str]
    publishes_not_ready: bool


def _namespace_entries(
    namespace: str, pods: Iterable[_PodView], services: Iterable[_ServiceView]
) -> Iterator[Entry]:
    headless = {service.name for service in services if service.is_headless}
    by_label: defaultdict[tuple[str, str], list[_PodView]] = defaultdict(list)
    for pod in pods:
        for label in pod.labels.items():
            by_label[label].append(pod)
        if pod.hostname and pod.subdomain in headless:
            yield pod.address, _all_names(f"{pod.hostname}.{pod.subdomain}", namespace)
    for service in services:
        for pod in _selected(service, by_label):
            yield pod.address, _all_names(service.name, namespace)


def _selected(
    service: _ServiceView, by_label: Mapping[tuple[str, str], list[_PodView]]
) -> Iterator[_PodView]:
    selector = service.selector.items()
    if not selector:
        return
    candidates = min((by_label.get(label, []) for label in selector), key=len)
    for pod in candidates:
        if selector <= pod.labels.items() and (pod.is_ready or service.publishes_not_ready):
            yield pod


def _all_names(name: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of a Service or pod, the longest first: a reverse lookup returns the first name."""
    long = f"{name}.{namespace}.svc"
    return f"{long}.{CLUSTER_DOMAIN}", long, f"{name}.{namespace}", name


# Partial decoding of objects


class _PodSpec(msgspec.Struct, frozen=True):
    hostname: str | None = None
    subdomain: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _PodStatus(msgspec.Struct, frozen=True, rename={"pod_ip": "podIP"}):
    phase: str | None = None
    pod_ip: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class _ServiceSpec(
    msgspec.Struct,
    frozen=True,
    rename={"cluster_ip": "clusterIP", "publishes_not_ready": "publishNotReadyAddresses"},
):
    cluster_ip: str | None = None
    selector: dict[str, str] | None = None
    publishes_not_ready: bool | None = None
    type: str | None = None


class _Service(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _ServiceSpec


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_service = msgspec.json.Decoder(_Service).decode


def _key_of(body: bytes) -> str:
    meta = decode_name(body).metadata
    return object_key(meta.namespace, meta.name)


def _pod_view(body: bytes) -> _PodView | None:
    """Return the view of a pod; None if the pod has no address or has ended."""
    pod = _decode_pod(body)
    if not pod.status.pod_ip or pod.status.phase in ("Succeeded", "Failed"):
        return None
    conditions = {condition.type: condition.status for condition in pod.status.conditions or ()}
    return _PodView(
        address=pod.status.pod_ip,
        hostname=pod.spec.hostname or "",
        subdomain=pod.spec.subdomain or "",
        labels=pod.metadata.labels,
        is_ready=conditions.get("Ready") == "True" and not pod.metadata.deletion_timestamp,
    )


def _service_view(body: bytes) -> _ServiceView:
    service = _decode_service(body)
    spec = service.spec
    return _ServiceView(
        name=service.metadata.name,
        is_headless=spec.cluster_ip == _HEADLESS,
        # A Service of the type ExternalName is an alias and has no pods.
        selector={} if spec.type == "ExternalName" else spec.selector or {},
        publishes_not_ready=bool(spec.publishes_not_ready),
    )


_VIEWS: dict[str, Callable[[bytes], object]] = {_PODS: _pod_view, _SERVICES: _service_view}
