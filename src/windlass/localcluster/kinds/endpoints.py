"""Endpoints: addresses that somebody else can reach, and ports with names where there are several."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.localcluster import failures, formats
from windlass.localcluster.failures import Fault
from windlass.localcluster.kinds import checks
from windlass.localcluster.kinds.strategy import Object, Strategy


class EndpointsStrategy(Strategy):
    def validate(self, new: Object) -> Iterator[Fault]:
        for subset, at in checks.indexed(new.get("subsets"), "subsets"):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield failures.required(at, "must specify `addresses` or `notReadyAddresses`")
            for key in ("addresses", "notReadyAddresses"):
                for address, address_at in checks.indexed(subset.get(key), f"{at}.{key}"):
                    yield from _address_faults(address, address_at)
            several = len(subset.get("ports") or ()) > 1
            for port, port_at in checks.indexed(subset.get("ports"), f"{at}.ports"):
                yield from _port_faults(port, several, port_at)


def special_address_faults(address: str, field: str) -> Iterator[Fault]:
    """Addresses that mean something else to each machine."""
    if not formats.is_ip_address(address):
        yield failures.invalid_value(field, address, "must be a valid IP address")
        return
    parsed = ipaddress.ip_address(address)
    if parsed.is_unspecified:
        yield failures.invalid_value(field, address, "may not be unspecified (0.0.0.0)")
    if parsed.is_loopback:
        yield failures.invalid_value(field, address, "may not be in the loopback range (127.0.0.0/8)")
    if parsed.is_link_local:
        yield failures.invalid_value(field, address, "may not be in the link-local range (169.254.0.0/16)")
    if parsed in ipaddress.ip_network("224.0.0.0/24") or parsed in ipaddress.ip_network("ff02::/16"):
        problem = "may not be in the link-local multicast range (224.0.0.0/24)"
        yield failures.invalid_value(field, address, problem)


def _address_faults(address: Mapping[str, Any], path: str) -> Iterator[Fault]:
    ip = address.get("ip", "")
    yield from checks.each(f"{path}.ip", ip, formats.ip_address(ip))
    yield from checks.optionally_named(f"{path}.hostname", address.get("hostname"), formats.dns_label)
    yield from checks.optionally_named(f"{path}.nodeName", address.get("nodeName"), formats.dns_subdomain)
    yield from special_address_faults(ip, f"{path}.ip")


def _port_faults(port: Mapping[str, Any], several: bool, path: str) -> Iterator[Fault]:
    if several and not port.get("name"):
        yield failures.required(f"{path}.name")
    yield from checks.optionally_named(f"{path}.name", port.get("name"), formats.dns_label)
    number = port.get("port", 0)
    yield from checks.each(f"{path}.port", number, formats.port_number(number))
    yield from checks.one_of(f"{path}.protocol", port.get("protocol"), checks.PROTOCOLS)
