"""The downward API: values of `fieldRef` and `resourceFieldRef`."""

from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, Decimal

from windlass.k8s import api_errors, quantities
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import PodFacts
from windlass.model.base import Json

_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def field(pod: Json, path: str, facts: PodFacts) -> str:
    metadata, spec = pod["metadata"], pod["spec"]
    values: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: metadata["name"],
        "metadata.namespace": lambda: metadata["namespace"],
        "metadata.uid": lambda: metadata["uid"],
        "metadata.labels": lambda: _lines(metadata.get("labels") or {}),
        "metadata.annotations": lambda: _lines(metadata.get("annotations") or {}),
        "spec.nodeName": lambda: spec.get("nodeName", ""),
        "spec.serviceAccountName": lambda: spec.get("serviceAccountName", ""),
        "status.podIP": lambda: _first(facts.pod_ips),
        "status.podIPs": lambda: ",".join(facts.pod_ips),
        "status.hostIP": lambda: _first(facts.host_ips),
        "status.hostIPs": lambda: ",".join(facts.host_ips),
    }
    if path in values:
        return values[path]()
    name, opening, key = path.removesuffix("']").partition("['")
    if opening and name in ("metadata.labels", "metadata.annotations"):
        value: str = (metadata.get(name.removeprefix("metadata.")) or {}).get(key, "")
        return value
    raise SetupError(f"unsupported fieldPath: {path}")


def resource(pod: Json, referencing_container: Json | None, reference: Json, facts: PodFacts) -> str:
    """Return the referenced limit or request in units of the divisor, rounded up.

    An absent limit counts as the allocatable amount of the node. `referencing_container` is None for a volume.
    """
    target = reference.get("containerName", "")
    container = (
        referencing_container if referencing_container is not None and not target else _container(pod, target)
    )
    limits_or_requests, _, name = reference["resource"].partition(".")
    if limits_or_requests not in ("limits", "requests") or name not in _RESOURCES:
        raise SetupError(f"unsupported container resource : {reference['resource']}")
    amount = _amount(container, limits_or_requests, name)
    if limits_or_requests == "limits" and not amount:
        amount = quantities.parse(facts.allocatable.get(name, "0"))
    divisor = quantities.parse(reference.get("divisor") or "0") or Decimal(1)
    # CPU is measured in thousandths, everything else in whole units.
    unit = quantities.MILLI if name == "cpu" else Decimal(1)
    return str(-(-_units(amount, unit) // _units(divisor, unit)))


def _amount(container: Json, limits_or_requests: str, name: str) -> Decimal:
    return quantities.parse(((container.get("resources") or {}).get(limits_or_requests) or {}).get(name, "0"))


def _units(amount: Decimal, unit: Decimal) -> int:
    return int((amount / unit).to_integral_value(ROUND_CEILING))


def _container(pod: Json, name: str) -> Json:
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        if container["name"] == name:
            found: Json = container
            return found
    raise SetupError(f"container {name} not found")


def _first(addresses: Iterable[str]) -> str:
    return next(iter(addresses), "")


def _lines(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={api_errors.quoted(entries[key])}" for key in sorted(entries))
