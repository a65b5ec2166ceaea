"""The DNS records of a Service: the Kubernetes DNS specification, schema version 1.1.0.

Objects and records are values; a record is written as in a zone file.
"""

import ipaddress
from collections.abc import Iterator

import msgspec

SCHEMA_VERSION = "1.1.0"


class Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class Port(msgspec.Struct, frozen=True):
    port: int
    name: str = ""
    protocol: str = "TCP"


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    cluster_ips: tuple[str, ...] = msgspec.field(name="clusterIPs", default=())
    """One address per family; servers before 1.20 lack the field."""
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    ports: tuple[Port, ...] = ()

    @property
    def is_headless(self) -> bool:
        return self.cluster_ip == "None"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the cluster IPs of the service."""
        if self.is_headless or not self.cluster_ip:
            return ()
        return self.cluster_ips or (self.cluster_ip,)


class Service(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


class Address(msgspec.Struct, frozen=True):
    ip: str
    hostname: str = ""


class Subset(msgspec.Struct, frozen=True, rename="camel"):
    addresses: tuple[Address, ...] = ()
    not_ready_addresses: tuple[Address, ...] = ()
    ports: tuple[Port, ...] = ()


class Endpoints(msgspec.Struct, frozen=True):
    """The Endpoints of a Service. A server truncates them at a thousand addresses."""

    metadata: Metadata
    subsets: tuple[Subset, ...] = ()


class Record(msgspec.Struct, frozen=True):
    name: str
    """Full name with the final dot."""
    type: str
    data: str


def service_name(metadata: Metadata, domain: str) -> str:
    return f"{metadata.name}.{metadata.namespace}.svc.{domain}."


def service_records(service: Service, endpoints: Endpoints | None, domain: str) -> tuple[Record, ...]:
    name, spec = service_name(service.metadata, domain), service.spec
    if spec.type == "ExternalName":
        return (Record(name, "CNAME", f"{spec.external_name.rstrip('.')}."),)
    # An address occurs once for each set of its ports.
    return tuple(dict.fromkeys([*_of_service(name, spec), *_of_endpoints(name, spec, endpoints)]))


def apex_records(domain: str, address: str) -> tuple[Record, ...]:
    """Return the records of the domain itself."""
    server = f"ns.dns.{domain}."
    timers = "7200 1800 86400 5"  # the last number is the TTL of missing names
    return (
        Record(f"{domain}.", "SOA", f"{server} hostmaster.{domain}. 1 {timers}"),
        Record(f"{domain}.", "NS", server),
        address_record(server, address),
        Record(f"dns-version.{domain}.", "TXT", f'"{SCHEMA_VERSION}"'),
    )


def address_record(name: str, address: str) -> Record:
    return Record(name, "A" if ipaddress.ip_address(address).version == 4 else "AAAA", address)


def _of_service(name: str, spec: ServiceSpec) -> Iterator[Record]:
    for ip in spec.addresses:
        yield address_record(name, ip)
        yield _pointer(ip, name)
    if spec.addresses:
        yield from _locations(name, spec.ports, name)


def _of_endpoints(name: str, spec: ServiceSpec, endpoints: Endpoints | None) -> Iterator[Record]:
    for subset in endpoints.subsets if endpoints else ():
        others = subset.not_ready_addresses if spec.publish_not_ready_addresses else ()
        for address in (*subset.addresses, *others):
            own_name = f"{address.hostname or _dashed(address.ip)}.{name}"
            yield address_record(own_name, address.ip)
            if address.hostname:
                yield _pointer(address.ip, own_name)
            if spec.is_headless:
                yield address_record(name, address.ip)
                yield from _locations(name, subset.ports, own_name)


def _locations(name: str, ports: tuple[Port, ...], target: str) -> Iterator[Record]:
    """Yield the SRV records of named ports."""
    for port in ports:
        if port.name:
            owner = f"_{port.name}._{port.protocol.lower()}.{name}"
            yield Record(owner, "SRV", f"0 100 {port.port} {target}")


def _pointer(ip: str, name: str) -> Record:
    return Record(f"{ipaddress.ip_address(ip).reverse_pointer}.", "PTR", name)


def _dashed(ip: str) -> str:
    return ip.replace(".", "-").replace(":", "-")
