"""The columns that `kubectl get` shows for each built-in kind (kube-apiserver: `pkg/printers/internalversion`).

The columns of `-o wide` are always included; clients hide them because of their priority. For a built-in kind without
an entry in `PRINTERS`, the columns are the name and the creation time. The columns of custom resources come from their
definition: see `tables`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from windlass.k8s import label_selectors
from windlass.localcluster.apiserver.printing import accessors, pod_columns
from windlass.localcluster.apiserver.printing.accessors import Object

_MAX_ENDPOINTS = 3
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ROLE_LABEL = "kubernetes.io/role"
_ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"
# In order of precedence. Only the first two are shown for a terminating job.
_JOB_CONDITIONS = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")

Cell = Callable[[Object], Any]


class Header(msgspec.Struct, frozen=True):
    """The header of a column. A column with a `priority` above 0 is shown only by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(msgspec.Struct, frozen=True):
    headers: tuple[Header, ...]
    cells: Callable[[Object, datetime], list[Any]]


Column = tuple[Header, Callable[[Object, datetime], Any]]
_NAME = Header("Name", format="name", description="Name of the object")


def printer(*columns: Column) -> Printer:
    """Return a printer with the name as the first column."""
    headers = (_NAME, *(header for header, _ in columns))
    return Printer(
        headers, lambda obj, now: [accessors.name_of(obj), *(cell(obj, now) for _, cell in columns)]
    )


def _column(name: str, cell: Cell, type_name: str = "string", *, priority: int = 0) -> Column:
    return Header(name, type_name, priority=priority), lambda obj, _: cell(obj)


def _wide(name: str, cell: Cell, type_name: str = "string") -> Column:
    return _column(name, cell, type_name, priority=1)


def _text(path: str, absent: str = "") -> Cell:
    keys = path.split(".")
    return lambda obj: accessors.text(obj, *keys, absent=absent)


def _number(path: str) -> Cell:
    keys = path.split(".")
    return lambda obj: accessors.number(obj, *keys)


def _headers(*names: str, priority: int = 0) -> tuple[Header, ...]:
    return tuple(Header(name, priority=priority) for name in names)


_AGE: Column = (Header("Age"), accessors.age_of)
_CREATED_AT = _column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), "date")


def _node_status(node: Object) -> str:
    ready = {"": "Unknown", "True": "Ready"}.get(accessors.condition_status(node, "Ready"), "NotReady")
    return ready + (",SchedulingDisabled" if accessors.at(node, "spec", "unschedulable") else "")


def _node_roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_LABEL_PREFIX) for key in labels if key.startswith(_ROLE_LABEL_PREFIX)}
    return ",".join(sorted(filter(None, {*roles, labels.get(_ROLE_LABEL)}))) or "<none>"


def _node_address(type_name: str) -> Cell:
    def cell(node: Object) -> str:
        addresses = accessors.entries(node, "status", "addresses")
        found = (each.get("address", "") for each in addresses if each.get("type") == type_name)
        return next(found, "<none>")

    return cell


def _cluster_ip(service: Object) -> str:
    first, *_ = accessors.entries(service, "spec", "clusterIPs") or [None]
    return first or accessors.text(service, "spec", "clusterIP", absent="<none>")


def _external_address(service: Object) -> str:
    external_ips = accessors.entries(service, "spec", "externalIPs")
    match accessors.text(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external_ips) or "<none>"
        case "LoadBalancer":
            ingress = accessors.entries(service, "status", "loadBalancer", "ingress")
            balancers = {each.get("ip") or each.get("hostname") for each in ingress} - {None, ""}
            return ",".join([*sorted(balancers), *external_ips]) or "<pending>"
        case "ExternalName":
            return accessors.text(service, "spec", "externalName")
    return "<unknown>"


def _port(port: Object) -> str:
    number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else port["port"]
    return f"{number}/{port.get('protocol', 'TCP')}"


def _service_ports(service: Object) -> str:
    return ",".join(map(_port, accessors.entries(service, "spec", "ports"))) or "<none>"


def _service_selector(service: Object) -> str:
    labels = accessors.at(service, "spec", "selector")
    return label_selectors.format_object({"matchLabels": labels}) or "<none>"


def _selector(workload: Object) -> str:
    return label_selectors.format_object(accessors.at(workload, "spec", "selector") or {})


def _endpoint_addresses(endpoints: Object) -> str:
    subsets = accessors.entries(endpoints, "subsets")
    addresses = [address for subset in subsets for address in _subset_addresses(subset)]
    more = len(addresses) - _MAX_ENDPOINTS
    shown = ",".join(addresses[:_MAX_ENDPOINTS]) + (f" + {more} more..." if more > 0 else "")
    return shown if subsets else "<none>"


def _subset_addresses(subset: Object) -> list[str]:
    addresses = [address["ip"] for address in accessors.entries(subset, "addresses")]
    ports = [port["port"] for port in accessors.entries(subset, "ports")]
    hosts = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"{host}:{port}" for port in ports for host in hosts] if ports else addresses


def _event_cells(event: Object, now: datetime) -> list[Any]:
    series, involved = accessors.at(event, "series"), event.get("involvedObject") or {}
    first = accessors.age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = accessors.age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    # The count of a series does not include the first event.
    count = accessors.number(series, "count") + 1 if series else accessors.number(event, "count") or 1
    return [
        accessors.age(series.get("lastObservedTime"), now) if series else last,
        accessors.text(event, "type"),
        accessors.text(event, "reason"),
        "/".join(part for part in (involved.get("kind", "").lower(), involved.get("name", "")) if part),
        involved.get("fieldPath", ""),
        _event_source(event),
        accessors.text(event, "message").strip(),
        first,
        count,
        accessors.name_of(event),
    ]


def _event_source(event: Object) -> str:
    component = accessors.text(event, "source", "component") or accessors.text(event, "reportingComponent")
    host = accessors.text(event, "source", "host") or accessors.text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def _claim_status(claim: Object) -> str:
    is_terminating = bool(claim["metadata"].get("deletionTimestamp"))
    return "Terminating" if is_terminating else accessors.text(claim, "status", "phase")


def _if_bound(cell: Cell) -> Cell:
    return lambda claim: cell(claim) if accessors.text(claim, "spec", "volumeName") else ""


def _access_modes(claim: Object) -> str:
    modes = accessors.entries(claim, "status", "accessModes")
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _storage_class(claim: Object) -> str:
    annotations: dict[str, str] = claim["metadata"].get("annotations") or {}
    return annotations.get(_STORAGE_CLASS_ANNOTATION, accessors.text(claim, "spec", "storageClassName"))


def _job_status(job: Object) -> str:
    is_terminating = bool(job["metadata"].get("deletionTimestamp"))
    shown = _JOB_CONDITIONS[:2] if is_terminating else _JOB_CONDITIONS
    found = (name for name in shown if accessors.condition_status(job, name) == "True")
    return next(found, "Terminating" if is_terminating else "Running")


def _job_completions(job: Object) -> str:
    succeeded = accessors.number(job, "status", "succeeded")
    completions, parallelism = (
        accessors.at(job, "spec", "completions"),
        accessors.number(job, "spec", "parallelism"),
    )
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    started = accessors.at(job, "status", "startTime")
    ended = accessors.parse_time(accessors.text(job, "status", "completionTime")) or now
    return accessors.age(started, ended) if started else ""


def _container_field(key: str) -> Cell:
    """Return a cell with one field of each container of the pod template."""

    def cell(workload: Object) -> str:
        containers = accessors.entries(workload, "spec", "template", "spec", "containers")
        return ",".join(accessors.text(each, key) for each in containers)

    return cell


def _ready_replicas(workload: Object) -> str:
    ready = accessors.number(workload, "status", "readyReplicas")
    return f"{ready}/{accessors.number(workload, 'spec', 'replicas')}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Object) -> str:
        subjects = [each for each in accessors.entries(binding, "subjects") if each["kind"] == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{accessors.text(each, 'namespace')}/{each['name']}" for each in subjects)
        return ", ".join(each["name"] for each in subjects)

    return cell


def _role(binding: Object) -> str:
    return f"{accessors.text(binding, 'roleRef', 'kind')}/{accessors.text(binding, 'roleRef', 'name')}"


def _served_versions(definition: Object) -> str:
    versions = (each for each in accessors.entries(definition, "spec", "versions") if each.get("served"))
    return ",".join(
        sorted(f"{each.get('name', '')}{'(storage)' if each.get('storage') else ''}" for each in versions)
    )


DEFAULT = printer(_CREATED_AT)

_CONTAINERS = (_wide("Containers", _container_field("name")), _wide("Images", _container_field("image")))
_BINDINGS = printer(
    _column("Role", _role),
    _AGE,
    _wide("Users", _subjects("User")),
    _wide("Groups", _subjects("Group")),
    _wide("ServiceAccounts", _subjects("ServiceAccount")),
)

PRINTERS: dict[str, Printer] = {
    "configmaps": printer(
        _column("Data", lambda obj: sum(len(accessors.entries(obj, key)) for key in ("data", "binaryData"))),
        _AGE,
    ),
    "endpoints": printer(_column("Endpoints", _endpoint_addresses), _AGE),
    "events": Printer(
        (
            *_headers("Last Seen", "Type", "Reason", "Object"),
            *_headers("Subobject", "Source", priority=1),
            Header("Message"),
            *_headers("First Seen", "Count", priority=1),
            msgspec.structs.replace(_NAME, priority=1),
        ),
        _event_cells,
    ),
    "namespaces": printer(_column("Status", _text("status.phase")), _AGE),
    "nodes": printer(
        _column("Status", _node_status),
        _column("Roles", _node_roles),
        _AGE,
        _column("Version", _text("status.nodeInfo.kubeletVersion")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", _text("status.nodeInfo.osImage", "<unknown>")),
        _wide("Kernel-Version", _text("status.nodeInfo.kernelVersion", "<unknown>")),
        _wide("Container-Runtime", _text("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ),
    "persistentvolumeclaims": printer(
        _column("Status", _claim_status),
        _column("Volume", _text("spec.volumeName")),
        _column("Capacity", _if_bound(_text("status.capacity.storage", "0"))),
        _column("Access Modes", _if_bound(_access_modes)),
        _column("StorageClass", _storage_class),
        _AGE,
        _wide("VolumeMode", _text("spec.volumeMode", "<unset>")),
    ),
    "pods": Printer(
        (
            _NAME,
            *_headers("Ready", "Status", "Restarts", "Age"),
            *_headers("IP", "Node", "Nominated Node", "Readiness Gates", priority=1),
        ),
        pod_columns.cells,
    ),
    "secrets": printer(
        _column("Type", _text("type")), _column("Data", lambda obj: len(accessors.entries(obj, "data"))), _AGE
    ),
    "serviceaccounts": printer(_AGE),
    "services": printer(
        _column("Type", _text("spec.type")),
        _column("Cluster-IP", _cluster_ip),
        _column("External-IP", _external_address),
        _column("Port(s)", _service_ports),
        _AGE,
        _wide("Selector", _service_selector),
    ),
    "deployments.apps": printer(
        _column("Ready", _ready_replicas),
        _column("Up-to-date", _number("status.updatedReplicas")),
        _column("Available", _number("status.availableReplicas")),
        _AGE,
        *_CONTAINERS,
        _wide("Selector", _selector),
    ),
    "replicasets.apps": printer(
        _column("Desired", _number("spec.replicas"), "integer"),
        _column("Current", _number("status.replicas"), "integer"),
        _column("Ready", _number("status.readyReplicas"), "integer"),
        _AGE,
        *_CONTAINERS,
        _wide("Selector", _selector),
    ),
    "statefulsets.apps": printer(_column("Ready", _ready_replicas), _AGE, *_CONTAINERS),
    "jobs.batch": printer(
        _column("Status", _job_status),
        _column("Completions", _job_completions),
        (Header("Duration"), _job_duration),
        _AGE,
        *_CONTAINERS,
        _wide("Selector", lambda job: _selector(job) or "<none>"),
    ),
    "leases.coordination.k8s.io": printer(_column("Holder", _text("spec.holderIdentity")), _AGE),
    "customresourcedefinitions.apiextensions.k8s.io": printer(
        _column("Scope", _text("spec.scope")),
        _column("Versions", _served_versions),
        _CREATED_AT,
        _wide("Group", _text("spec.group")),
        _wide("Kind", _text("spec.names.kind")),
        _wide("ShortNames", lambda obj: ",".join(accessors.entries(obj, "spec", "names", "shortNames"))),
        _wide("Established", lambda obj: accessors.condition_status(obj, "Established") == "True", "boolean"),
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
}
