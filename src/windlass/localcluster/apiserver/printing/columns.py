"""What `kubectl get` shows of each built-in kind: the columns, and how an object becomes its cells.

Always with the columns of `-o wide`, which their priority tells a client to hide. A kind that is not in the table at
the end shows its name and when it was created. Custom kinds name their columns themselves: see `tables`.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from windlass.localcluster.apiserver.printing import accessors, pod_columns
from windlass.localcluster.apiserver.printing.accessors import Object

_MOST_ENDPOINTS = 3
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ROLE_LABEL = "kubernetes.io/role"
_ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"


class Header(msgspec.Struct, frozen=True):
    """One column. A `priority` above 0 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(msgspec.Struct, frozen=True):
    headers: tuple[Header, ...]
    cells: Callable[[Object, datetime], list[Any]]


NAME = Header("Name", format="name", description="Name of the object")


def _node(node: Object, now: datetime) -> list[Any]:
    ready = {"": "Unknown", "True": "Ready"}.get(accessors.condition(node, "Ready"), "NotReady")
    cordoned = ",SchedulingDisabled" if accessors.at(node, "spec", "unschedulable") else ""
    return [
        accessors.name_of(node),
        ready + cordoned,
        ",".join(sorted(_node_roles(node))) or "<none>",
        accessors.age_of(node, now),
        accessors.text(node, "status", "nodeInfo", "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        accessors.text(node, "status", "nodeInfo", "osImage", absent="<unknown>"),
        accessors.text(node, "status", "nodeInfo", "kernelVersion", absent="<unknown>"),
        accessors.text(node, "status", "nodeInfo", "containerRuntimeVersion", absent="<unknown>"),
    ]


def _node_roles(node: Object) -> set[str]:
    labels = node["metadata"].get("labels") or {}
    named = {key.removeprefix(_ROLE_LABEL_PREFIX) for key in labels if key.startswith(_ROLE_LABEL_PREFIX)}
    return {role for role in (*named, labels.get(_ROLE_LABEL)) if role}


def _address(node: Object, wanted: str) -> str:
    addresses = accessors.entries(node, "status", "addresses")
    return next((each["address"] for each in addresses if each.get("type") == wanted), "<none>")


def _service(service: Object, now: datetime) -> list[Any]:
    addresses = accessors.entries(service, "spec", "clusterIPs") or [
        accessors.at(service, "spec", "clusterIP")
    ]
    return [
        accessors.name_of(service),
        accessors.text(service, "spec", "type"),
        addresses[0] or "<none>",
        _external_address(service),
        ",".join(map(_port, accessors.entries(service, "spec", "ports"))) or "<none>",
        accessors.age_of(service, now),
        _labels(accessors.at(service, "spec", "selector")),
    ]


def _external_address(service: Object) -> str:
    given = accessors.entries(service, "spec", "externalIPs")
    match accessors.text(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or "<none>"
        case "LoadBalancer":
            ingress = accessors.entries(service, "status", "loadBalancer", "ingress")
            balancers = {each.get("ip") or each.get("hostname") for each in ingress} - {None, ""}
            return ",".join([*sorted(balancers), *given]) or "<pending>"
        case "ExternalName":
            return accessors.text(service, "spec", "externalName")
    return "<unknown>"


def _port(port: Object) -> str:
    number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else port["port"]
    return f"{number}/{port.get('protocol', 'TCP')}"


def _labels(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def _selector(selector: Object | None) -> str:
    """A label selector, as it would be written in a query; nothing where it asks for nothing."""
    labels = accessors.at(selector, "matchLabels") or {}
    wanted = [(key, f"{key}={value}") for key, value in labels.items()]
    wanted += [(each["key"], _requirement(each)) for each in accessors.at(selector, "matchExpressions") or []]
    return ",".join(text for _, text in sorted(wanted, key=lambda pair: pair[0]))


def _requirement(requirement: Object) -> str:
    key, values = requirement["key"], ",".join(sorted(requirement.get("values") or []))
    match requirement["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
    return str(key)


def _endpoints(endpoints: Object, now: datetime) -> list[Any]:
    subsets = accessors.entries(endpoints, "subsets")
    addresses = [address for subset in subsets for address in _subset_addresses(subset)]
    more = len(addresses) - _MOST_ENDPOINTS
    shown = ",".join(addresses[:_MOST_ENDPOINTS]) + (f" + {more} more..." if more > 0 else "")
    return [accessors.name_of(endpoints), shown if subsets else "<none>", accessors.age_of(endpoints, now)]


def _subset_addresses(subset: Object) -> list[str]:
    addresses = [address["ip"] for address in accessors.entries(subset, "addresses")]
    ports = [port["port"] for port in accessors.entries(subset, "ports")]
    hosts = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"{host}:{port}" for port in ports for host in hosts] if ports else addresses


def _event(event: Object, now: datetime) -> list[Any]:
    series, involved = accessors.at(event, "series"), event.get("involvedObject") or {}
    first = accessors.age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = accessors.age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    # The event before a series began is not counted in it.
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


def _claim(claim: Object, now: datetime) -> list[Any]:
    volume = accessors.text(claim, "spec", "volumeName")
    annotations = claim["metadata"].get("annotations") or {}
    modes = accessors.entries(claim, "status", "accessModes")
    return [
        accessors.name_of(claim),
        "Terminating"
        if claim["metadata"].get("deletionTimestamp")
        else accessors.text(claim, "status", "phase"),
        volume,
        accessors.text(claim, "status", "capacity", "storage", absent="0") if volume else "",
        ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes) if volume else "",
        annotations.get(_STORAGE_CLASS_ANNOTATION, accessors.text(claim, "spec", "storageClassName")),
        accessors.age_of(claim, now),
        accessors.text(claim, "spec", "volumeMode", absent="<unset>"),
    ]


_JOB_ENDINGS = ("Complete", "Failed")


def _job_status(job: Object) -> str:
    is_going = bool(job["metadata"].get("deletionTimestamp"))
    shown = _JOB_ENDINGS if is_going else (*_JOB_ENDINGS, "Suspended", "FailureTarget", "SuccessCriteriaMet")
    found = (name for name in shown if accessors.condition(job, name) == "True")
    return next(found, "Terminating" if is_going else "Running")


def _job(job: Object, now: datetime) -> list[Any]:
    succeeded, wanted = accessors.number(job, "status", "succeeded"), accessors.at(job, "spec", "completions")
    parallelism = accessors.number(job, "spec", "parallelism")
    of_many = f" of {parallelism}" if wanted is None and parallelism > 1 else ""
    started, completed = (
        accessors.at(job, "status", "startTime"),
        accessors.at(job, "status", "completionTime"),
    )
    ended = accessors.moment(completed or "") or now
    return [
        accessors.name_of(job),
        _job_status(job),
        f"{succeeded}/{1 if wanted is None else wanted}{of_many}",
        accessors.age(started, ended) if started else "",
        accessors.age_of(job, now),
        *_containers(job),
        _selector(accessors.at(job, "spec", "selector")) or "<none>",
    ]


def _containers(workload: Object) -> list[str]:
    """Names and images of what a template runs."""
    containers = accessors.entries(workload, "spec", "template", "spec", "containers")
    return [",".join(accessors.text(each, key) for each in containers) for key in ("name", "image")]


def _ready_replicas(workload: Object) -> str:
    return f"{accessors.number(workload, 'status', 'readyReplicas')}/{accessors.number(workload, 'spec', 'replicas')}"


def _deployment(deployment: Object, now: datetime) -> list[Any]:
    return [
        accessors.name_of(deployment),
        _ready_replicas(deployment),
        accessors.number(deployment, "status", "updatedReplicas"),
        accessors.number(deployment, "status", "availableReplicas"),
        accessors.age_of(deployment, now),
        *_containers(deployment),
        _selector(accessors.at(deployment, "spec", "selector")),
    ]


def _replica_set(replica_set: Object, now: datetime) -> list[Any]:
    return [
        accessors.name_of(replica_set),
        accessors.number(replica_set, "spec", "replicas"),
        accessors.number(replica_set, "status", "replicas"),
        accessors.number(replica_set, "status", "readyReplicas"),
        accessors.age_of(replica_set, now),
        *_containers(replica_set),
        _selector(accessors.at(replica_set, "spec", "selector")),
    ]


def _binding(binding: Object, now: datetime) -> list[Any]:
    subjects = accessors.entries(binding, "subjects")
    accounts = (
        f"{accessors.text(each, 'namespace')}/{each['name']}" for each in _of_kind(subjects, "ServiceAccount")
    )
    return [
        accessors.name_of(binding),
        f"{accessors.text(binding, 'roleRef', 'kind')}/{accessors.text(binding, 'roleRef', 'name')}",
        accessors.age_of(binding, now),
        ", ".join(each["name"] for each in _of_kind(subjects, "User")),
        ", ".join(each["name"] for each in _of_kind(subjects, "Group")),
        ", ".join(accounts),
    ]


def _of_kind(subjects: list[Object], kind: str) -> Iterable[Object]:
    return (subject for subject in subjects if subject["kind"] == kind)


def _definition(definition: Object, _: datetime) -> list[Any]:
    versions = (
        version for version in accessors.entries(definition, "spec", "versions") if version.get("served")
    )
    shown = sorted(f"{one.get('name', '')}{'(storage)' if one.get('storage') else ''}" for one in versions)
    return [
        accessors.name_of(definition),
        accessors.text(definition, "spec", "scope"),
        ",".join(shown),
        definition["metadata"].get("creationTimestamp"),
        accessors.text(definition, "spec", "group"),
        accessors.text(definition, "spec", "names", "kind"),
        ",".join(accessors.entries(definition, "spec", "names", "shortNames")),
        accessors.condition(definition, "Established") == "True",
    ]


def _printer(
    cells: Callable[[Object, datetime], list[Any]], *shown: str | Header, wide: tuple[str | Header, ...] = ()
) -> Printer:
    headers = [NAME, *(each if isinstance(each, Header) else Header(each) for each in shown)]
    headers += [Header(each, priority=1) if isinstance(each, str) else each for each in wide]
    return Printer(tuple(headers), cells)


DEFAULT = _printer(
    lambda obj, _: [accessors.name_of(obj), obj["metadata"].get("creationTimestamp")],
    Header("Created At", "date"),
)

_BINDINGS = _printer(_binding, "Role", "Age", wide=("Users", "Groups", "ServiceAccounts"))
_WORKLOAD = ("Containers", "Images", "Selector")

PRINTERS: dict[str, Printer] = {
    "configmaps": _printer(
        lambda obj, now: [
            accessors.name_of(obj),
            len(accessors.entries(obj, "data")) + len(accessors.entries(obj, "binaryData")),
            accessors.age_of(obj, now),
        ],
        "Data",
        "Age",
    ),
    "endpoints": _printer(_endpoints, "Endpoints", "Age"),
    "events": Printer(
        (
            *(Header(name) for name in ("Last Seen", "Type", "Reason", "Object")),
            *(Header(name, priority=1) for name in ("Subobject", "Source")),
            Header("Message"),
            *(Header(name, priority=1) for name in ("First Seen", "Count")),
            msgspec.structs.replace(NAME, priority=1),
        ),
        _event,
    ),
    "namespaces": _printer(
        lambda obj, now: [
            accessors.name_of(obj),
            accessors.text(obj, "status", "phase"),
            accessors.age_of(obj, now),
        ],
        "Status",
        "Age",
    ),
    "nodes": _printer(
        _node,
        *("Status", "Roles", "Age", "Version"),
        wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    "persistentvolumeclaims": _printer(
        _claim,
        *("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"),
        wide=("VolumeMode",),
    ),
    "pods": _printer(
        pod_columns.cells,
        *("Ready", "Status", "Restarts", "Age"),
        wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
    ),
    "secrets": _printer(
        lambda obj, now: [
            accessors.name_of(obj),
            accessors.text(obj, "type"),
            len(accessors.entries(obj, "data")),
            accessors.age_of(obj, now),
        ],
        *("Type", "Data", "Age"),
    ),
    "serviceaccounts": _printer(
        lambda obj, now: [accessors.name_of(obj), accessors.age_of(obj, now)],
        "Age",
    ),
    "services": _printer(_service, "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)),
    "deployments.apps": _printer(_deployment, "Ready", "Up-to-date", "Available", "Age", wide=_WORKLOAD),
    "replicasets.apps": _printer(
        _replica_set,
        *(Header(name, "integer") for name in ("Desired", "Current", "Ready")),
        "Age",
        wide=_WORKLOAD,
    ),
    "statefulsets.apps": _printer(
        lambda obj, now: [
            accessors.name_of(obj),
            _ready_replicas(obj),
            accessors.age_of(obj, now),
            *_containers(obj),
        ],
        *("Ready", "Age"),
        wide=("Containers", "Images"),
    ),
    "jobs.batch": _printer(_job, "Status", "Completions", "Duration", "Age", wide=_WORKLOAD),
    "leases.coordination.k8s.io": _printer(
        lambda obj, now: [
            accessors.name_of(obj),
            accessors.text(obj, "spec", "holderIdentity"),
            accessors.age_of(obj, now),
        ],
        "Holder",
        "Age",
    ),
    "customresourcedefinitions.apiextensions.k8s.io": _printer(
        _definition,
        *("Scope", "Versions", Header("Created At", "date")),
        wide=("Group", "Kind", "ShortNames", Header("Established", "boolean", priority=1)),
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
}
