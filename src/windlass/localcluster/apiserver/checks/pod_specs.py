"""Validation of pod specs, in pods and in templates."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics, resources, scheduling
from windlass.localcluster.apiserver.checks import containers as check_containers
from windlass.localcluster.apiserver.checks import volumes as check_volumes

Spec = Mapping[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_FS_GROUP_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_NAME_RULES = {
    "serviceAccountName": formats.dns_subdomain,
    "nodeName": formats.dns_subdomain,
    "hostname": formats.dns_label,
    "subdomain": formats.dns_label,
    "priorityClassName": formats.dns_subdomain,
    "runtimeClassName": formats.dns_subdomain,
}
_MAX_INT32 = 2**31 - 1
_MAX_NAMESERVERS = 3
# Kubernetes has no such limits. Here the kubelet shares one process with the API server, which must stay responsive.
MAX_CONTAINERS = 500
MAX_VOLUMES = 1_000
# Limits of current Kubernetes releases.
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048


def errors(spec: Spec, path: str) -> Iterator[FieldError]:
    volumes = spec.get("volumes") or []
    containers, init_containers = spec.get("containers") or [], spec.get("initContainers") or []
    if len(containers) + len(init_containers) > MAX_CONTAINERS:
        count = len(containers) + len(init_containers)
        yield api_errors.too_many(f"{path}.containers", count, MAX_CONTAINERS)
    if len(volumes) > MAX_VOLUMES:
        yield api_errors.too_many(f"{path}.volumes", len(volumes), MAX_VOLUMES)
    valid_volumes = check_volumes.valid_volumes(volumes)
    yield from check_volumes.errors(volumes, f"{path}.volumes")
    yield from check_containers.errors(containers, valid_volumes, f"{path}.containers")
    yield from check_containers.init_errors(
        init_containers, containers, valid_volumes, f"{path}.initContainers"
    )
    yield from basics.required_choice(spec, path, "restartPolicy", RESTART_POLICIES)
    yield from basics.required_choice(spec, path, "dnsPolicy", _DNS_POLICIES)
    yield from metadata.label_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _security_errors(spec, path)
    yield from scheduling.affinity_errors(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns_errors(spec, f"{path}.dnsConfig")
    for gate, at in basics.indexed(spec.get("readinessGates"), f"{path}.readinessGates"):
        yield from basics.format_errors(gate, at, "conditionType", formats.qualified_name)
    yield from _scheduling_gate_errors(spec, f"{path}.schedulingGates")
    constraints = spec.get("topologySpreadConstraints")
    yield from scheduling.spread_errors(constraints, f"{path}.topologySpreadConstraints")
    for key, rule in _NAME_RULES.items():
        yield from basics.optional_name(spec, path, key, rule)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        problems = formats.between(deadline, 1, _MAX_INT32)
        yield from basics.invalid_values(f"{path}.activeDeadlineSeconds", deadline, problems)
    yield from scheduling.toleration_errors(spec.get("tolerations"), f"{path}.tolerations")
    yield from _host_alias_errors(spec, f"{path}.hostAliases")
    if spec.get("preemptionPolicy") is not None:
        yield from basics.required_choice(spec, path, "preemptionPolicy", _PREEMPTION_POLICIES)
    yield from resources.errors({"limits": spec.get("overhead")}, f"{path}.overhead")


def template_errors(template: Spec, path: str) -> Iterator[FieldError]:
    labels = (template.get("metadata") or {}).get("labels")
    annotations = (template.get("metadata") or {}).get("annotations")
    spec = template.get("spec") or {}
    yield from metadata.label_errors(labels, f"{path}.labels")
    yield from metadata.annotation_errors(annotations, f"{path}.annotations")
    yield from errors(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        problem = "ephemeral containers not allowed in pod template"
        yield api_errors.forbidden_field(f"{path}.spec.ephemeralContainers", problem)


def _security_errors(spec: Spec, path: str) -> Iterator[FieldError]:
    context, at = spec.get("securityContext") or {}, f"{path}.securityContext"
    if spec.get("hostNetwork"):
        yield from _host_network_port_errors(spec.get("containers") or [], f"{path}.containers")
    yield from basics.ids_in_range(context, at, "fsGroup", "runAsUser", "runAsGroup")
    for group, field in basics.indexed(context.get("supplementalGroups"), f"{at}.supplementalGroups"):
        yield from basics.invalid_values(field, group, formats.between(group, 0, basics.MAX_ID))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        problem = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield api_errors.invalid_value(f"{path}.shareProcessNamespace", True, problem)
    yield from basics.optional_choice(context, at, "fsGroupChangePolicy", _FS_GROUP_CHANGE_POLICIES)


def _host_network_port_errors(containers: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    for container, at in basics.indexed(containers, path):
        for port, port_at in basics.indexed(container.get("ports"), f"{at}.ports"):
            if port.get("hostPort", 0) != port.get("containerPort", 0):
                problem = "must match `containerPort` when `hostNetwork` is true"
                yield api_errors.invalid_value(f"{port_at}.hostPort", port.get("hostPort", 0), problem)


def _scheduling_gate_errors(spec: Spec, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for gate, at in basics.indexed(spec.get("schedulingGates"), path):
        name = gate.get("name", "")
        yield from basics.invalid_values(at, name, formats.qualified_name(name))
        yield from basics.unique(at, name, seen)


def _dns_errors(spec: Spec, path: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield api_errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            problem = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield api_errors.required(f"{path}.nameservers", problem)
    if not config:
        return
    nameservers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(nameservers) > _MAX_NAMESERVERS:
        problem = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield api_errors.invalid_value(f"{path}.nameservers", nameservers, problem)
    for server, at in basics.indexed(nameservers, f"{path}.nameservers"):
        yield from basics.invalid_values(at, server, formats.ip_address(server))
    yield from _search_errors(searches, f"{path}.searches")
    for option, at in basics.indexed(config.get("options"), f"{path}.options"):
        if not option.get("name"):
            yield api_errors.required(at, "must not be empty")


def _search_errors(searches: list[str], path: str) -> Iterator[FieldError]:
    if len(searches) > _MAX_SEARCHES:
        problem = f"must not have more than {_MAX_SEARCHES} search paths"
        yield api_errors.invalid_value(path, searches, problem)
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        problem = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield api_errors.invalid_value(path, searches, problem)
    for search, at in basics.indexed(searches, path):
        yield from basics.invalid_values(at, search, formats.search_domain(search.removesuffix(".")))


def _host_alias_errors(spec: Spec, path: str) -> Iterator[FieldError]:
    for alias, at in basics.indexed(spec.get("hostAliases"), path):
        yield from basics.format_errors(alias, at, "ip", formats.ip_address)
        for name, name_at in basics.indexed(alias.get("hostnames"), f"{at}.hostnames"):
            yield from basics.invalid_values(name_at, name, formats.dns_subdomain(name))
