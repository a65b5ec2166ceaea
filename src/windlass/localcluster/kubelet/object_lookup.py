"""What the store knows of a pod's surroundings: the objects that it refers to, its services, the names of its peers.

Reads only. What is written into a pod's folder from it is decided elsewhere.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.kubelet.containers.facts import Facts, Lookup
from windlass.localcluster.kubelet.containers.network_files import CLUSTER_DOMAIN, Entry
from windlass.localcluster.kubelet.volumes import service_account
from windlass.localcluster.store_types import Change, object_key
from windlass.model.base import Json

ApiServer = Callable[[Json], tuple[str, int] | None]
"""A pod → where it finds the API server: a pod on the machine's network goes another way than one on its own."""

_PODS = "pods"
_SERVICES = "services"
_RESOURCES = {"ConfigMap": "configmaps", "Secret": "secrets"}
_HEADLESS = "None"


class ObjectLookup:
    def __init__(self, lifecycle: Lifecycle, api_server: ApiServer, authority: Callable[[], str]) -> None:
        """`authority` is the text of the certificate that the API server's own is checked with."""
        self._store = lifecycle.store
        self._api_server = api_server
        self._authority = authority
        # Namespace → the names in it, until one of them changes.
        self._entries: dict[str, tuple[Entry, ...]] = {}
        self._store.listen(self._on_change)

    def lookup(self, namespace: str) -> Lookup:
        return lambda kind, name: self._object(kind, namespace, name)

    def claim(self, namespace: str) -> Callable[[str], Json | None]:
        return lambda name: self._stored("persistentvolumeclaims", namespace, name)

    def services(self, pod: Json) -> tuple[Json, ...]:
        """Those of the pod's namespace, and the API server as the Service by which pods know it."""
        found = map(bodies.decode_stored, self._store.all(_SERVICES, pod["metadata"]["namespace"]))
        others = (service for service in found if not _is_api_server(service))
        address = self._api_server(pod)
        return (*others, *(() if address is None else (_api_service(*address),)))

    def facts(self, pod: Json, pod_ips: tuple[str, ...], host_ips: tuple[str, ...]) -> Facts:
        node = self._stored("nodes", "", pod["spec"].get("nodeName", "")) or {}
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        return Facts(pod_ips, host_ips, allocatable, self.services(pod))

    def host_entries(self, pod: Json) -> tuple[Entry, ...]:
        """What a name server of the cluster would know, for the pod's /etc/hosts.

        Pods that have a hostname and a subdomain are known by them as soon as they have an address. The name of a
        Service leads to the pods behind it, and with a ClusterIP too, for nothing here routes such an address: a port
        that is not also the targetPort cannot be reached by that name. Only names of the pod's own namespace are known.
        """
        namespace = pod["metadata"]["namespace"]
        if namespace not in self._entries:
            pods = (_pod_view(body) for body in self._store.all(_PODS, namespace))
            services = [_service_view(body) for body in self._store.all(_SERVICES, namespace)]
            self._entries[namespace] = tuple(_names(namespace, filter(None, pods), services))
        address = self._api_server(pod)
        return (*(() if address is None else (_api_entry(address[0], namespace),)), *self._entries[namespace])

    def _on_change(self, change: Change) -> None:
        """Most changes of a pod's status say nothing new about its name."""
        if change.resource not in _VIEWS:
            return
        before, after = (body and _VIEWS[change.resource](body) for body in (change.before, change.after))
        if before != after:
            self._entries.pop(change.key.partition("/")[0], None)

    def _object(self, kind: str, namespace: str, name: str) -> Json | None:
        found = self._stored(_RESOURCES[kind], namespace, name)
        is_authority = (kind, name) == ("ConfigMap", service_account.CA_CONFIG_MAP)
        if found is None and is_authority:
            # In a cluster of Kubernetes, a controller puts it into every namespace.
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


# The names of a namespace


class _PodView(msgspec.Struct, frozen=True):
    """What of a pod matters to those who look for it by name."""

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


def _names(namespace: str, pods: Iterable[_PodView], services: Iterable[_ServiceView]) -> Iterator[Entry]:
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
    wanted = service.selector.items()
    if not wanted:
        return
    fewest = min((by_label.get(label, []) for label in wanted), key=len)
    for pod in fewest:
        if wanted <= pod.labels.items() and (pod.is_ready or service.publishes_not_ready):
            yield pod


def _all_names(name: str, namespace: str) -> tuple[str, ...]:
    """The longest first: that is what an address is called when it is looked up the other way round."""
    long = f"{name}.{namespace}.svc"
    return f"{long}.{CLUSTER_DOMAIN}", long, f"{name}.{namespace}", name


# Reading no more of an object than is needed


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
    msgspec.Struct, frozen=True, rename={"cluster_ip": "clusterIP", "publishes": "publishNotReadyAddresses"}
):
    cluster_ip: str | None = None
    selector: dict[str, str] | None = None
    publishes: bool | None = None
    type: str | None = None


class _Service(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _ServiceSpec


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_service = msgspec.json.Decoder(_Service).decode


def _pod_view(body: bytes) -> _PodView | None:
    """None for a pod that has no address yet, or has ended and has it no more."""
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
        # Such a Service is another name for something outside.
        selector={} if spec.type == "ExternalName" else spec.selector or {},
        publishes_not_ready=bool(spec.publishes),
    )


_VIEWS: dict[str, Callable[[bytes], object]] = {_PODS: _pod_view, _SERVICES: _service_view}
