"""A question in, the answer out, both as bytes: what is told about the names of a zone, and about all others.

No sockets here. Whatever comes in, nothing is raised.
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
"""Seconds: a pod that comes back has another address."""
SMALLEST_LIMIT = 512
"""Bytes of an answer that everybody can take by UDP."""
LARGEST = 65535
OUR_LIMIT = 4096
"""Bytes of a question that we take by UDP."""
LONGEST_CHAIN = 8
"""Names that may lead from one to the next, before it is taken for a circle."""


def read(wire: bytes) -> dns.message.Message | None:
    """None: these bytes are no message, or none with one question."""
    try:
        message = dns.message.from_wire(wire)
    except (dns.exception.DNSException, ValueError):
        return None
    return message if message.opcode() != dns.opcode.QUERY or len(message.question) == 1 else None


def answer(wire: bytes, zone: Zone, *, by_udp: bool) -> bytes:
    """Empty: there is nobody to be answered. By UDP it may be cut, and says so."""
    if not is_query(wire):
        return b""
    query = read(wire)
    if query is None:
        return _refusal(wire, dns.rcode.FORMERR)
    return packed(query, _response(query, zone), by_udp=by_udp)


def failure(query: dns.message.Message) -> dns.message.Message:
    """To say that another server was asked in vain."""
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response


def belongs_elsewhere(query: dns.message.Message, zone: Zone) -> bool:
    """Whether it is about a name that another server may know, and we do not."""
    if query.opcode() != dns.opcode.QUERY:
        return False
    name = query.question[0].name
    return not zone.covers(name) and zone.find(name) is None


def packed(query: dns.message.Message, response: dns.message.Message, *, by_udp: bool) -> bytes:
    has_said_how_much = query.edns >= 0
    limit = max(SMALLEST_LIMIT, query.payload if has_said_how_much else 0) if by_udp else LARGEST
    return response.to_wire(max_size=limit, prefer_truncation=True)


def is_query(wire: bytes) -> bool:
    """A header, and not that of an answer: two servers would answer each other without end."""
    return len(wire) >= 12 and not wire[2] & 0x80


def _refusal(wire: bytes, rcode: dns.rcode.Rcode) -> bytes:
    """To a message of which the header alone can be read."""
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


def _resolve(response: dns.message.Message, zone: Zone, name: dns.name.Name, wanted: RdataType) -> None:
    """Follows a name that stands for another, as far as the zone goes."""
    for _ in range(LONGEST_CHAIN):
        found = zone.find(name)
        if found is None:
            is_told_by_others = bool(response.answer) and not zone.covers(name)
            response.set_rcode(dns.rcode.NOERROR if is_told_by_others else dns.rcode.NXDOMAIN)
            return
        here = _matching(name, found, wanted)
        response.answer += here
        if here or RdataType.CNAME not in found:
            return
        (alias,) = _matching(name, found, RdataType.CNAME)
        response.answer.append(alias)
        name = alias[0].target
    response.set_rcode(dns.rcode.SERVFAIL)


def _matching(name: dns.name.Name, found: Found, wanted: RdataType) -> list[dns.rrset.RRset]:
    return [
        dns.rrset.from_rdata_list(name, TTL, data)
        for kind, data in found.items()
        if wanted in (kind, RdataType.ANY)
    ]


def _authority(zone: Zone) -> dns.rrset.RRset:
    """Whoever is told that there is nothing learns from it how long that holds."""
    found = zone.find(zone.origin) or {}
    (authority,) = _matching(zone.origin, found, RdataType.SOA)
    return authority


def _add_targets(response: dns.message.Message, zone: Zone) -> None:
    """The addresses of the names that an SRV answer speaks of, which would be asked for next."""
    for rrset in response.answer:
        for target in dict.fromkeys(each.target for each in rrset if rrset.rdtype == RdataType.SRV):
            found = zone.find(target) or {}
            for kind in (RdataType.A, RdataType.AAAA):
                response.additional += _matching(target, found, kind)
