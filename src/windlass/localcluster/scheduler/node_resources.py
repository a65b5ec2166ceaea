"""What a node has, and what the pods on it have asked for: CPU, memory, GPUs, host ports. Pure.

CPU is counted in thousandths and everything else in whole units, rounded up, as the scheduler of Kubernetes counts.
"""

import functools
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING
from typing import Any

import msgspec

from windlass.k8s import quantities
from windlass.localcluster.scheduler import gpus
from windlass.model.base import Json

Amounts = dict[str, int]

PODS = "pods"
# What a container that does not say is taken to need when nodes are compared, so that such pods are spread as well.
_PRESUMED = {"cpu": "100m", "memory": "200Mi"}
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 — compared with, not listened on


class HostPort(msgspec.Struct, frozen=True):
    address: str
    protocol: str
    number: int

    def conflicts_with(self, other: "HostPort") -> bool:
        is_same_port = (self.protocol, self.number) == (other.protocol, other.number)
        addresses = {self.address, other.address}
        return is_same_port and (len(addresses) == 1 or _EVERY_ADDRESS in addresses)


class Asked(msgspec.Struct, frozen=True):
    """What a pod takes of a node."""

    amounts: Amounts
    # The same with what containers are presumed to need: for comparing nodes, never for refusing one.
    presumed: Amounts
    ports: tuple[HostPort, ...]
    priority: int
    gpus: tuple[int, ...]


class Wanted(msgspec.Struct, frozen=True):
    """A pod that looks for a node: what it says of nodes, and what it will take."""

    spec: Json
    asked: Asked


class Account(msgspec.Struct, frozen=True):
    """One node: what it has, and what is given away."""

    node: Json
    allocatable: Amounts
    requested: Amounts
    presumed: Amounts
    pods: Mapping[str, Asked]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def room_for_pods(self) -> int:
        return self.allocatable.get(PODS, 0) - len(self.pods)

    def free(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def with_pod(self, key: str, asked: Asked) -> "Account":
        return msgspec.structs.replace(
            self,
            requested=_sum(self.requested, asked.amounts),
            presumed=_sum(self.presumed, asked.presumed),
            pods={**self.pods, key: asked},
        )

    def without_pod(self, key: str) -> "Account":
        asked = self.pods[key]
        return msgspec.structs.replace(
            self,
            requested=_sum(self.requested, _negative(asked.amounts)),
            presumed=_sum(self.presumed, _negative(asked.presumed)),
            pods={other: theirs for other, theirs in self.pods.items() if other != key},
        )

    def free_gpus(self, count: int) -> tuple[int, ...] | None:
        owned = gpus.of_node(self.node, self.allocatable.get(gpus.RESOURCE, 0))
        return gpus.choose(count, owned, (gpu for asked in self.pods.values() for gpu in asked.gpus))


def account_of(node: Json) -> Account:
    """A node on which there is nothing yet."""
    allocatable = _amounts((node.get("status") or {}).get("allocatable") or {})
    return Account(node, allocatable, {}, {}, {})


def asked_by(pod: Json) -> Asked:
    spec = pod["spec"]
    amounts = _total(spec, {})
    return Asked(
        amounts={name: amount for name, amount in amounts.items() if amount > 0},
        presumed={name: amount for name, amount in _total(spec, _PRESUMED).items() if name in _PRESUMED},
        ports=tuple(_host_ports(spec)),
        priority=spec.get("priority") or 0,
        gpus=gpus.of_pod(pod, amounts.get(gpus.RESOURCE, 0)),
    )


def wanted_by(pod: Json) -> Wanted:
    return Wanted(pod["spec"], asked_by(pod))


def has_ended(pod: Json) -> bool:
    """What has ended holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Is this init container one that goes on running beside the containers?"""
    return container.get("restartPolicy") == "Always"


def _total(spec: Json, presumed: Mapping[str, str]) -> Amounts:
    """What all containers need at once, or the greediest moment before they run, whichever is more."""
    running: Amounts = {}
    for container in spec.get("containers") or ():
        running = _sum(running, _requests(container, presumed))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container, presumed)
        if is_sidecar(container):
            running, sidecars = _sum(running, own), _sum(sidecars, own)
        # Each runs beside the sidecars that were started before it.
        starting = _greater(starting, sidecars if is_sidecar(container) else _sum(sidecars, own))
    # What the pod as a whole asks for stands in for what its containers add up to.
    total = {**_greater(running, starting), **_requests(spec, {})}
    return _sum(total, _amounts(spec.get("overhead") or {}))


def _requests(holder: Mapping[str, Any], presumed: Mapping[str, str]) -> Amounts:
    return _amounts({**presumed, **((holder.get("resources") or {}).get("requests") or {})})


def _amounts(written: Mapping[str, str]) -> Amounts:
    return {name: _amount(amount, name == "cpu") for name, amount in written.items()}


@functools.lru_cache(maxsize=4096)
def _amount(written: str, in_thousandths: bool) -> int:
    amount = quantities.parse(written)
    return int((amount.scaleb(3) if in_thousandths else amount).to_integral_value(ROUND_CEILING))


def _host_ports(spec: Json) -> Iterator[HostPort]:
    sidecars = filter(is_sidecar, spec.get("initContainers") or ())
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or _EVERY_ADDRESS
                yield HostPort(address, port.get("protocol") or "TCP", port["hostPort"])


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _greater(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _negative(amounts: Amounts) -> Amounts:
    return {name: -amount for name, amount in amounts.items()}
