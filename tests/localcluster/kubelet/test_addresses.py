"""The address of a pod belongs to its name."""

import ipaddress
from pathlib import PurePath

import pytest

from windlass.localcluster.kubelet import addresses

POD_NETWORK = "10.86.0.0/16"


def test_same_name_gets_same_address_even_from_another_daemon() -> None:
    ours = addresses.AddressAllocator(POD_NETWORK)
    first = ours.take("default", "digits-ps-0", "uid-1")
    assert ours.take("default", "digits-ps-0", "uid-1") == first
    ours.release("uid-1")
    assert ours.take("default", "digits-ps-0", "uid-2") == first
    assert addresses.AddressAllocator(POD_NETWORK).take("default", "digits-ps-0", "uid-3") == first
    assert addresses.AddressAllocator(POD_NETWORK).take("other", "digits-ps-0", "uid-4") != first


def test_adopted_address_is_not_assigned_again() -> None:
    address = addresses.AddressAllocator(POD_NETWORK).take("default", "a", "old")
    ours = addresses.AddressAllocator(POD_NETWORK)
    ours.adopt("old", address)
    assert ours.take("default", "a", "new") != address
    assert ours.take("default", "a", "old") == address


def test_displaced_name_keeps_its_other_address() -> None:
    ours = addresses.AddressAllocator(POD_NETWORK)
    home = ours.take("default", "a", "1")
    elsewhere = ours.take("default", "a", "2")
    ours.release("1")
    ours.release("2")
    assert elsewhere != home
    assert ours.take("default", "a", "3") == elsewhere
    ours.release("3")
    ours.adopt("another", elsewhere)
    assert ours.take("default", "a", "4") == home


@pytest.mark.parametrize(
    ("network", "first", "last", "count"),
    [
        ("10.86.0.0/29", "10.86.0.2", "10.86.0.6", 5),
        ("10.86.0.0/24", "10.86.0.2", "10.86.0.254", 253),
        ("10.86.0.0/22", "10.86.0.2", "10.86.3.254", 253 + 3 * 254),
        ("127.9.16.0/24", "127.9.16.2", "127.9.16.254", 253),
    ],
)
def test_full_network_raises_after_all_usable_addresses(
    network: str, first: str, last: str, count: int
) -> None:
    ours = addresses.AddressAllocator(network)
    given = sorted((ours.take("default", f"pod-{each}", str(each)) for each in range(count)), key=_number)
    assert len(set(given)) == count
    assert (given[0], given[-1]) == (first, last)
    with pytest.raises(addresses.NetworkFullError, match=f"no free address in the pod network {network}"):
        ours.take("default", "one-more", "one-more")
    ours.release("0")
    assert ours.take("default", "one-more", "one-more") in given


def test_gateway_has_the_first_address_of_the_pod_network() -> None:
    ours = addresses.AddressAllocator.isolated("10.99.0.1", 29)
    given = {ours.take("default", f"pod-{each}", str(each)) for each in range(5)}
    assert given == {f"10.99.0.{each}" for each in range(2, 7)}


def test_data_directories_get_different_loopback_networks() -> None:
    folders = [PurePath(f"/home/somebody/cluster-{each}") for each in range(50)]
    networks = [ipaddress.IPv4Network(addresses.loopback_network(each)) for each in folders]
    assert len(set(networks)) >= 45
    assert not any(network.overlaps(ipaddress.IPv4Network("127.0.0.0/16")) for network in networks)
    assert all(network.subnet_of(ipaddress.IPv4Network("127.0.0.0/8")) for network in networks)


@pytest.mark.parametrize(("platform", "is_one_for_all"), [("linux", False), ("darwin", True)])
def test_only_linux_has_more_than_one_loopback_address(platform: str, is_one_for_all: bool) -> None:
    ours = addresses.AddressAllocator.shared(PurePath("/data"), platform)
    first, second = ours.take("default", "a", "1"), ours.take("default", "b", "2")
    assert (first == second == "127.0.0.1") is is_one_for_all
    ours.release("1")
    assert ours.take("default", "a", "3") == first


def _number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))
