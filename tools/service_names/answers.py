"""Compute the DNS response to a query, both as bytes, for names of the zone and for others.

No sockets here, and no input raises an exception.
"""

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from dns.rdatatype import RdataType

from service_names.zone import Found, Zone

TTL = 5
"""Seconds: a restarted pod has another address."""
SMALLEST_LIMIT = 512
"""Bytes of a response that every client accepts over UDP."""
LARGEST = 65535
OUR_LIMIT = 4096
"""Bytes of a query that we accept over UDP."""
LONGEST_CHAIN = 8
"""Maximum length of a chain of aliases."""


def read(wire: bytes) -> dns.message.Message | None:
    """Parse a query; None if it is not a message with one question."""
    try:
        message = dns.message.from_wire(wire)
    except (dns.exception.DNSException, ValueError):
        return None
    return message if message.opcode() != dns.opcode.QUERY or len(message.question) == 1 else None


def answer(wire: bytes, zone: Zone, *, by_udp: bool) -> bytes:
    """Return the response; empty if there is none to send. Over UDP it may be truncated."""
    if not is_query(wire):
        return b""
    query = read(wire)
    if query is None:
        return _error_response(wire, dns.rcode.FORMERR)
    return packed(query, _response(query, zone), by_udp=by_udp)


def failure(query: dns.message.Message) -> dns.message.Message:
    """Return a response for a failed upstream query."""
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response


def belongs_elsewhere(query: dns.message.Message, zone: Zone) -> bool:
    """Return whether the query is for a name that another server may know."""
    if query.opcode() != dns.opcode.QUERY:
        return False
    name = query.question[0].name
    return not zone.covers(name) and zone.find(name) is None


def packed(query: dns.message.Message, response: dns.message.Message, *, by_udp: bool) -> bytes:
    has_said_how_much = query.edns >= 0
    limit = max(SMALLEST_LIMIT, query.payload if has_said_how_much else 0) if by_udp else LARGEST
    return response.to_wire(max_size=limit, prefer_truncation=True)


def is_query(wire: bytes) -> bool:
    """Return whether it has the header of a query: two servers would otherwise answer each other forever."""
    return len(wire) >= 12 and not wire[2] & 0x80


def _error_response(wire: bytes, rcode: dns.rcode.Rcode) -> bytes:
    """Return an error to a message whose header is the only readable part."""
    response = dns.message.Message(id=int.from_bytes(wire[:2], "big"))
    response.flags = dns.flags.QR
    response.set_rcode(rcode)
    return response.to_wire()


def _response(query: dns.message.Message, zone: Zone) -> dns.message.Message:
    response = dns.message.make_response(query, our_payload=OUR_LIMIT)
    if query.opcode() != dns.opcode.QUERY:
        response.set_rcode(dns.rcode.NOTIMP)
        return response
    if query.edns > 0:
        response.set_rcode(dns.rcode.BADVERS)
        return response
    question = query.question[0]
    if question.rdclass != dns.rdataclass.IN:
        response.set_rcode(dns.rcode.REFUSED)
        return response
    _resolve(response, zone, question.name, question.rdtype)
    if not belongs_elsewhere(query, zone):
        response.flags |= dns.flags.AA
    if not response.answer and zone.covers(question.name):
        response.authority.append(_authority(zone))
    _add_targets(response, zone)
    return response


def _resolve(response: dns.message.Message, zone: Zone, name: dns.name.Name, record_type: RdataType) -> None:
    """Follow aliases within the zone."""
    for _ in range(LONGEST_CHAIN):
        found = zone.find(name)
        if found is None:
            is_told_by_others = bool(response.answer) and not zone.covers(name)
            response.set_rcode(dns.rcode.NOERROR if is_told_by_others else dns.rcode.NXDOMAIN)
            return
        here = _matching(name, found, record_type)
        response.answer += here
        if here or RdataType.CNAME not in found:
            return
        (alias,) = _matching(name, found, RdataType.CNAME)
        response.answer.append(alias)
        name = alias[0].target
    response.set_rcode(dns.rcode.SERVFAIL)


def _matching(name: dns.name.Name, found: Found, record_type: RdataType) -> list[dns.rrset.RRset]:
    return [
        dns.rrset.from_rdata_list(name, TTL, data)
        for kind, data in found.items()
        if record_type in (kind, RdataType.ANY)
    ]


def _authority(zone: Zone) -> dns.rrset.RRset:
    """Return the SOA record, which tells for how long a missing name may be cached."""
    found = zone.find(zone.origin) or {}
    (authority,) = _matching(zone.origin, found, RdataType.SOA)
    return authority


def _add_targets(response: dns.message.Message, zone: Zone) -> None:
    """Return the addresses of the targets of an SRV response."""
    for rrset in response.answer:
        for target in dict.fromkeys(each.target for each in rrset if rrset.rdtype == RdataType.SRV):
            found = zone.find(target) or {}
            for kind in (RdataType.A, RdataType.AAAA):
                response.additional += _matching(target, found, kind)
