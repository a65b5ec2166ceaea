"""IP addresses of pods.

An address belongs to the namespace and name of a pod, so that a retried task has the address that its peers already
know. It is derived from a hash of both, so that a restarted daemon assigns the same address unless it is in use.
"""

import hashlib
import os
import sys
from ipaddress import IPv4Interface, IPv4Network
from pathlib import PurePath
from typing import NamedTuple, Self

from windlass.localcluster.sandbox.messages import Link, Ready
from windlass.model.base import Json

LOOPBACK = "127.0.0.1"
# Number of reserved addresses at the start of the network: the network address and the gateway of the pods.
_RESERVED = 2
# Last bytes of addresses that people and programs often mistake for network or broadcast addresses.
_AVOIDED_ENDINGS = (0, 255)


class NetworkFullError(Exception):
    """No address of the network is available."""


class PodAddresses(NamedTuple):
    pod: tuple[str, ...] = ()
    host: tuple[str, ...] = ()


class PodNetwork:
    """The addresses of the pods, in a network of their own or in the network of the machine."""

    def __init__(self, ready: Ready, host_address: str, data: PurePath) -> None:
        self.nameservers = ready.nameservers
        self._gateway = ready.gateway
        self._prefix_length = ready.prefix_length
        self._host_address = host_address
        self._allocator = (
            AddressAllocator.isolated(ready.gateway, ready.prefix_length)
            if ready.gateway
            else AddressAllocator.shared(data)
        )

    def allocate(self, pod: Json) -> PodAddresses:
        """Return the addresses of a pod. A later pod of the same name gets the same ones if they are free."""
        meta, host = pod["metadata"], self._host_address
        is_on_host = pod["spec"].get("hostNetwork")
        pod_address = (
            host if is_on_host else self._allocator.take(meta["namespace"], meta["name"], meta["uid"])
        )
        return PodAddresses((pod_address,), (host,))

    def adopt(self, pod: Json, addresses: PodAddresses) -> None:
        """Reserve the addresses of a pod that was started by an earlier daemon."""
        if addresses.pod and not pod["spec"].get("hostNetwork"):
            self._allocator.adopt(pod["metadata"]["uid"], addresses.pod[0])

    def release(self, uid: str) -> None:
        self._allocator.release(uid)

    def is_isolated(self, pod: Json) -> bool:
        """Return whether the pod has a network of its own."""
        return bool(self._gateway) and not pod["spec"].get("hostNetwork")

    def link(self, pod: Json, addresses: PodAddresses) -> Link | None:
        """Return the pod's connection to the network of the pods; None if it shares the network of the machine."""
        if not self.is_isolated(pod):
            return None
        return Link(addresses.pod[0], self._prefix_length, self._gateway)


class AddressAllocator:
    """The addresses of one network. A pod that has an address is identified by its UID."""

    def __init__(self, network: str) -> None:
        self._network = IPv4Network(network)
        self._address_by_uid: dict[str, str] = {}
        # The addresses that differ from the one that the hash of the pod's namespace and name yields.
        self._displaced: dict[tuple[str, str], str] = {}

    @classmethod
    def isolated(cls, gateway: str, prefix_length: int) -> Self:
        """Return the allocator for pods with a network of their own; the gateway has the first address."""
        return cls(str(IPv4Interface(f"{gateway}/{prefix_length}").network))

    @classmethod
    def shared(cls, data: PurePath, platform: str = sys.platform) -> Self:
        """Return the allocator for pods on the machine's network: loopback addresses that depend on the data directory.

        Where 127.0.0.1 is the only loopback address (macOS), every pod has that address.
        """
        return cls(loopback_network(data) if platform == "linux" else f"{LOOPBACK}/32")

    def take(self, namespace: str, name: str, uid: str) -> str:
        """Return the pod's address: its current one, else the one of its name if free, else the next free one."""
        if self._network.num_addresses == 1:
            return str(self._network.network_address)
        if uid in self._address_by_uid:
            return self._address_by_uid[uid]
        taken = set(self._address_by_uid.values())
        former = self._displaced.pop((namespace, name), None)
        preferred_position = self._preferred_position(namespace, name)
        address = (
            former
            if former is not None and former not in taken
            else self._free_from(preferred_position, taken)
        )
        if address != self._address_at(preferred_position):
            self._displaced[namespace, name] = address
        self._address_by_uid[uid] = address
        return address

    def adopt(self, uid: str, address: str) -> None:
        """Reserve the address of a pod of an earlier daemon. The address may belong to another network."""
        self._address_by_uid[uid] = address

    def release(self, uid: str) -> None:
        self._address_by_uid.pop(uid, None)

    def _preferred_position(self, namespace: str, name: str) -> int:
        digest = hashlib.blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % self._capacity()

    def _capacity(self) -> int:
        # The last address is the broadcast address.
        return max(1, self._network.num_addresses - _RESERVED - 1)

    def _address_at(self, position: int) -> str:
        return str(self._network.network_address + _RESERVED + position % self._capacity())

    def _free_from(self, preferred_position: int, taken: set[str]) -> str:
        for position in range(preferred_position, preferred_position + self._capacity()):
            address = self._address_at(position)
            has_good_ending = int(address.rpartition(".")[2]) not in _AVOIDED_ENDINGS
            if has_good_ending and address not in taken:
                return address
        raise NetworkFullError(f"no free address in the pod network {self._network}. Delete some pods.")


def loopback_network(data: PurePath) -> str:
    """Return a part of 127.0.0.0/8 with room for 4,000 pods. It is not in 127.0.0.0/16, which other programs use."""
    digest = hashlib.blake2b(os.fsencode(data), digest_size=2).digest()
    return f"127.{1 + digest[0] % 254}.{digest[1] & 0xF0}.0/20"
