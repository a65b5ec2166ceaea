"""Which address a pod gets. Pure: nothing is configured here, and nothing is asked of the machine.

An address belongs to a pod's name, so that a task that is tried again comes back where its peers look for it. It is
found by hash, so that a restarted daemon gives the same.
"""

import hashlib
import os
import sys
from ipaddress import IPv4Interface, IPv4Network
from pathlib import PurePath
from typing import Self

LOOPBACK = "127.0.0.1"
# The network itself, and the gateway of the pods.
_RESERVED = 2
# People and programs take these endings for a network and for all of its members.
_AVOIDED_ENDINGS = (0, 255)


class NetworkFullError(Exception):
    """Every address is a pod's."""


class Addresses:
    """Of one network. A pod is known by its UID once it has an address."""

    def __init__(self, network: str) -> None:
        self._network = IPv4Network(network)
        self._of_pod: dict[str, str] = {}
        # Only of names whose address is not the one that their hash leads to.
        self._displaced: dict[tuple[str, str], str] = {}

    @classmethod
    def isolated(cls, gateway: str, prefix_length: int) -> Self:
        """For pods with a network of their own, in which the gateway has the first address."""
        return cls(str(IPv4Interface(f"{gateway}/{prefix_length}").network))

    @classmethod
    def shared(cls, data: PurePath, platform: str = sys.platform) -> Self:
        """For pods on the machine's network: loopback addresses, unlike those of a cluster with another folder.

        Where 127.0.0.1 alone is the machine's own (macOS), every pod has that.
        """
        return cls(loopback_network(data) if platform == "linux" else f"{LOOPBACK}/32")

    def take(self, namespace: str, name: str, uid: str) -> str:
        """That of the pod, if it has one; else that of its name if it is free, else the next free one."""
        if self._network.num_addresses == 1:
            return str(self._network.network_address)
        if uid in self._of_pod:
            return self._of_pod[uid]
        taken = set(self._of_pod.values())
        before = self._displaced.pop((namespace, name), None)
        home = self._home(namespace, name)
        address = before if before is not None and before not in taken else self._free_from(home, taken)
        if address != self._at(home):
            self._displaced[namespace, name] = address
        self._of_pod[uid] = address
        return address

    def adopt(self, uid: str, address: str) -> None:
        """A pod that lives on from an earlier daemon, perhaps of another network."""
        self._of_pod[uid] = address

    def give_back(self, uid: str) -> None:
        self._of_pod.pop(uid, None)

    def _home(self, namespace: str, name: str) -> int:
        digest = hashlib.blake2b(f"{namespace}/{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % self._count()

    def _count(self) -> int:
        # Without the last one, which is for all members.
        return max(1, self._network.num_addresses - _RESERVED - 1)

    def _at(self, position: int) -> str:
        return str(self._network.network_address + _RESERVED + position % self._count())

    def _free_from(self, home: int, taken: set[str]) -> str:
        for position in range(home, home + self._count()):
            address = self._at(position)
            has_good_ending = int(address.rpartition(".")[2]) not in _AVOIDED_ENDINGS
            if has_good_ending and address not in taken:
                return address
        raise NetworkFullError(
            f"no address is free in the pods' network {self._network}: end some pods, or start the cluster with a "
            "larger network"
        )


def loopback_network(data: PurePath) -> str:
    """Of 127.0.0.0/8, a part that holds four thousand pods. What others use of it begins with 127.0."""
    digest = hashlib.blake2b(os.fsencode(data), digest_size=2).digest()
    return f"127.{1 + digest[0] % 254}.{digest[1] & 0xF0}.0/20"
