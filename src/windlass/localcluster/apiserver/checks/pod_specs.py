"""Every fault of a pod's spec, in a pod and in a template, under the path at which the spec stands."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics, resources, scheduling, security
from windlass.localcluster.apiserver.checks import containers as check_containers
from windlass.localcluster.apiserver.checks import volumes as check_volumes

Spec = Mapping[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MOST_NAMESERVERS = 3
# Current releases allow 32 search paths of 2048 characters together.
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_LARGEST_INT32 = 2**31 - 1


def faults(spec: Spec, path: str) -> Iterator[FieldError]:
    volumes = spec.get("volumes") or []
    containers, init_containers = spec.get("containers") or [], spec.get("initContainers") or []
    usable = check_volumes.usable(volumes)
    yield from check_volumes.faults(volumes, f"{path}.volumes")
    yield from check_containers.faults(containers, usable, f"{path}.containers")
    yield from check_containers.init_faults(init_containers, containers, usable, f"{path}.initContainers")
    yield from basics.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES)
    yield from basics.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    yield from metadata.label_faults(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from security.of_pod(spec, path)
    yield from scheduling.affinity_faults(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns_faults(spec, f"{path}.dnsConfig")
    for gate, at in basics.indexed(spec.get("readinessGates"), f"{path}.readinessGates"):
        condition = gate.get("conditionType", "")
        yield from basics.each(f"{at}.conditionType", condition, formats.qualified_name(condition))
    yield from _scheduling_gate_faults(spec, f"{path}.schedulingGates")
    spreading = f"{path}.topologySpreadConstraints"
    yield from scheduling.spread_faults(spec.get("topologySpreadConstraints"), spreading)
    yield from _name_faults(spec, path)
    yield from _deadline_faults(spec, path)
    yield from scheduling.toleration_faults(spec.get("tolerations"), f"{path}.tolerations")
    yield from _host_alias_faults(spec, f"{path}.hostAliases")
    if spec.get("preemptionPolicy") is not None:
        yield from basics.one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION_POLICIES)
    yield from resources.faults({"limits": spec.get("overhead")}, f"{path}.overhead")


def template_faults(template: Spec, path: str) -> Iterator[FieldError]:
    labels = (template.get("metadata") or {}).get("labels")
    annotations = (template.get("metadata") or {}).get("annotations")
    spec = template.get("spec") or {}
    yield from metadata.label_faults(labels, f"{path}.labels")
    yield from metadata.annotation_faults(annotations, f"{path}.annotations")
    yield from faults(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        problem = "ephemeral containers not allowed in pod template"
        yield api_errors.forbidden_field(f"{path}.spec.ephemeralContainers", problem)


def _name_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    for key, rule in (
        ("serviceAccountName", formats.dns_subdomain),
        ("nodeName", formats.dns_subdomain),
        ("hostname", formats.dns_label),
        ("subdomain", formats.dns_label),
        ("priorityClassName", formats.dns_subdomain),
        ("runtimeClassName", formats.dns_subdomain),
    ):
        yield from basics.optionally_named(f"{path}.{key}", spec.get(key), rule)


def _deadline_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        problems = formats.between(deadline, 1, _LARGEST_INT32)
        yield from basics.each(f"{path}.activeDeadlineSeconds", deadline, problems)


def _scheduling_gate_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for gate, at in basics.indexed(spec.get("schedulingGates"), path):
        name = gate.get("name", "")
        yield from basics.each(at, name, formats.qualified_name(name))
        if name in seen:
            yield api_errors.duplicate(at, name)
        seen.add(name)


def _dns_faults(spec: Spec, path: str) -> Iterator[FieldError]:
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
    if len(nameservers) > _MOST_NAMESERVERS:
        problem = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        yield api_errors.invalid_value(f"{path}.nameservers", nameservers, problem)
    for server, at in basics.indexed(nameservers, f"{path}.nameservers"):
        yield from basics.each(at, server, formats.ip_address(server))
    yield from _search_faults(searches, f"{path}.searches")
    for option, at in basics.indexed(config.get("options"), f"{path}.options"):
        if not option.get("name"):
            yield api_errors.required(at, "must not be empty")


def _search_faults(searches: list[str], path: str) -> Iterator[FieldError]:
    if len(searches) > _MOST_SEARCHES:
        problem = f"must not have more than {_MOST_SEARCHES} search paths"
        yield api_errors.invalid_value(path, searches, problem)
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        problem = (
            f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        )
        yield api_errors.invalid_value(path, searches, problem)
    for search, at in basics.indexed(searches, path):
        yield from basics.each(at, search, formats.search_domain(search.removesuffix(".")))


def _host_alias_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    for alias, at in basics.indexed(spec.get("hostAliases"), path):
        address = alias.get("ip", "")
        yield from basics.each(f"{at}.ip", address, formats.ip_address(address))
        for name, name_at in basics.indexed(alias.get("hostnames"), f"{at}.hostnames"):
            yield from basics.each(name_at, name, formats.dns_subdomain(name))
