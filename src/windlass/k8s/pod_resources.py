"""The resources that a pod requests and a node offers, without I/O.

CPU is counted in millicores and everything else in whole units, rounded up, as in kube-scheduler.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING
from typing import Any

import msgspec

from windlass.k8s import quantities

Amounts = dict[str, int]

_BYTES = frozenset({"memory", "ephemeral-storage"})


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether an init container keeps running next to the containers."""
    return container.get("restartPolicy") == "Always"


def total(spec: Mapping[str, Any], defaults: Mapping[str, str]) -> Amounts:
    """Return the requests of a pod while its containers run or, if greater, during initialization, plus overhead."""
    running: Amounts = {}
    for container in spec.get("containers") or ():
        running = added(running, _requests(container, defaults))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container, defaults)
        if is_sidecar(container):
            running, sidecars = added(running, own), added(sidecars, own)
        # Each init container runs next to the sidecars started before it.
        starting = _greater(starting, sidecars if is_sidecar(container) else added(sidecars, own))
    # Pod-level requests replace the sum of the containers' requests.
    requested = {**_greater(running, starting), **_requests(spec, {})}
    return added(requested, amounts_of(spec.get("overhead") or {}))


def _requests(holder: Mapping[str, Any], defaults: Mapping[str, str]) -> Amounts:
    return amounts_of({**defaults, **((holder.get("resources") or {}).get("requests") or {})})


def amounts_of(quantities_by_name: Mapping[str, str]) -> Amounts:
    return {name: _amount(quantity, name == "cpu") for name, quantity in quantities_by_name.items()}


@functools.lru_cache(maxsize=4096)
def _amount(quantity: str, in_thousandths: bool) -> int:
    amount = quantities.parse(quantity)
    return int((amount.scaleb(3) if in_thousandths else amount).to_integral_value(ROUND_CEILING))


def added(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _greater(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


# What does not fit


def with_default_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod spec whose containers request their limits, unless they set requests, as Kubernetes does."""

    def defaulted(container: Mapping[str, Any]) -> dict[str, Any]:
        resources = container.get("resources") or {}
        requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        return {**container, "resources": {**resources, "requests": requests}}

    lists = {
        name: [defaulted(each) for each in spec.get(name) or ()] for name in ("containers", "initContainers")
    }
    return {**spec, **lists}


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which a pod requests more than any node has."""

    resource: str
    needed: int
    offered: int
    """The amount of the node that has most."""

    @property
    def needed_text(self) -> str:
        """The request in words, e.g. `64 CPUs` or `2 GiB of memory`."""
        if self.resource == "cpu":
            return _counted(self.needed / 1000, "CPU")
        if self.resource in _BYTES:
            return f"{_size(self.needed)} of {self.resource}"
        if self.resource.endswith("/gpu"):
            return _counted(self.needed, "GPU")
        return f"{self.needed} {self.resource}"

    @property
    def offered_text(self) -> str:
        if self.resource in _BYTES:
            return _size(self.offered)
        return f"{self.offered / 1000 if self.resource == 'cpu' else self.offered:g}"


def shortages(needed: Amounts, offered: Iterable[Amounts]) -> Iterator[Shortage]:
    """Yield the resources of which no node offers enough."""
    nodes = list(offered)
    for name, amount in needed.items():
        largest = max((node.get(name, 0) for node in nodes), default=0)
        if amount > largest:
            yield Shortage(name, amount, largest)


def _counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}" if number == 1 else f"{number:g} {noun}s"


def _size(amount: int) -> str:
    size = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
