"""The names of the domain and the addresses that have a name."""

import ipaddress
from collections.abc import Iterable

import dns.name
import dns.rdata
import dns.rdataclass
from dns.rdatatype import RdataType

from service_names import records
from service_names.records import Record

Found = dict[RdataType, tuple[dns.rdata.Rdata, ...]]
"""The records of one name by type. A name without records exists if longer names end in it."""


class Zone:
    def __init__(self, domain: str, address: str) -> None:
        """`address` is that of the DNS server."""
        self.origin = dns.name.from_text(domain)
        self._groups: dict[str, dict[str, Found]] = {}
        """Names and records by owner. Only an address may belong to several owners."""
        self.put(f"{domain}.", records.apex_records(domain, address))

    def put(self, owner: str, group: Iterable[Record]) -> None:
        """Replace all records of this owner, whose name exists even without records."""
        names: dict[str, Found] = {}
        self._add_with_those_above(names, owner)
        for record in group:
            found = self._add_with_those_above(names, record.name)
            _merge(found, _read(record))
        self._groups[_key(owner)] = names

    def remove(self, owner: str) -> None:
        self._groups.pop(_key(owner), None)

    def covers(self, name: dns.name.Name) -> bool:
        return name.is_subdomain(self.origin)

    def find(self, name: dns.name.Name) -> Found | None:
        """Return the records of a name; None if it does not exist."""
        key = _key(name.to_text())
        everywhere = [names[key] for names in self._groups.values() if key in names]
        if not everywhere:
            return self._pod(name)
        merged: Found = {}
        for found in everywhere:
            _merge(merged, found)
        return merged

    def _add_with_those_above(self, names: dict[str, Found], name: str) -> Found:
        at = dns.name.from_text(name)
        while at != self.origin and self.covers(at):
            names.setdefault(_key(at.to_text()), {})
            at = at.parent()
        return names.setdefault(_key(name), {})

    def _pod(self, name: dns.name.Name) -> Found | None:
        """Return the address in `198-18-0-7.<namespace>.pod`, whether or not the pod exists."""
        labels = name.relativize(self.origin).labels if self.covers(name) else ()
        if not labels or labels[-1].lower() != b"pod" or len(labels) > 3:
            return None
        if len(labels) < 3:
            return {}
        dashed = labels[0].decode("ascii", "replace")
        for separator in ".:":
            try:
                ip = ipaddress.ip_address(dashed.replace("-", separator))
            except ValueError:
                continue
            return _read(records.address_record(name.to_text(), str(ip)))
        return None


def _read(record: Record) -> Found:
    data = dns.rdata.from_text(dns.rdataclass.IN, record.type, record.data)
    return {data.rdtype: (data,)}


def _merge(found: Found, other: Found) -> None:
    for kind, data in other.items():
        found[kind] = found.get(kind, ()) + data


def _key(name: str) -> str:
    return name.lower()
