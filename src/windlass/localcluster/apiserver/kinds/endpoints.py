"""Endpoints: addresses that somebody else can reach, and ports with names where there are several."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.strategy import Object, Strategy


class EndpointsStrategy(Strategy):
    creates_on_update = True

    def validate(self, new: Object) -> Iterator[Fault]:
        for subset, at in basics.indexed(new.get("subsets"), "subsets"):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield api_errors.required(at, "must specify `addresses` or `notReadyAddresses`")
            for key in ("addresses", "notReadyAddresses"):
                for address, address_at in basics.indexed(subset.get(key), f"{at}.{key}"):
                    yield from _address_faults(address, address_at)
            several = len(subset.get("ports") or ()) > 1
            for port, port_at in basics.indexed(subset.get("ports"), f"{at}.ports"):
                yield from _port_faults(port, several, port_at)


def _address_faults(address: Mapping[str, Any], path: str) -> Iterator[Fault]:
    ip = address.get("ip", "")
    yield from basics.each(f"{path}.ip", ip, formats.ip_address(ip))
    yield from basics.optionally_named(f"{path}.hostname", address.get("hostname"), formats.dns_label)
    yield from basics.optionally_named(f"{path}.nodeName", address.get("nodeName"), formats.dns_subdomain)
    yield from basics.reachable(f"{path}.ip", ip)


def _port_faults(port: Mapping[str, Any], several: bool, path: str) -> Iterator[Fault]:
    if several and not port.get("name"):
        yield api_errors.required(f"{path}.name")
    yield from basics.optionally_named(f"{path}.name", port.get("name"), formats.dns_label)
    number = port.get("port", 0)
    yield from basics.each(f"{path}.port", number, formats.port_number(number))
    yield from basics.one_of(f"{path}.protocol", port.get("protocol"), basics.PROTOCOLS)
