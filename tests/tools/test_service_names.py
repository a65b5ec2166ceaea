"""The names of a cluster: objects and records, queries and responses, as tables."""

import json
from typing import Any

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service_names import answers, records
from service_names.directory import Directory
from service_names.zone import Zone
from windlass.kubeapi.reflector import Changed, Deleted, Listed

DOMAIN = "cluster.local"


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def endpoints(*subsets: dict[str, Any], name: str = "web") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "subsets": list(subsets)}


def raw(obj: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(obj).encode())


HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
TWO_PODS = {
    "addresses": [{"ip": "198.18.0.4", "hostname": "web-0"}],
    "notReadyAddresses": [{"ip": "198.18.0.5", "hostname": "web-1"}],
    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
}
WEB = "web.shop.svc.cluster.local."
FIRST_POD = [
    f"web-0.{WEB} A 198.18.0.4",
    f"4.0.18.198.in-addr.arpa. PTR web-0.{WEB}",
]

RECORDS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[str]]] = {
    "a cluster IP": (
        service(clusterIP="198.19.0.9", ports=[HTTP, {"port": 53, "protocol": "UDP"}]),
        None,
        [
            f"{WEB} A 198.19.0.9",
            f"9.0.19.198.in-addr.arpa. PTR {WEB}",
            f"_http._tcp.{WEB} SRV 0 100 80 {WEB}",
        ],
    ),
    "both families": (
        service(clusterIP="198.19.0.9", clusterIPs=["198.19.0.9", "fd00::9"]),
        None,
        [
            f"{WEB} A 198.19.0.9",
            f"9.0.19.198.in-addr.arpa. PTR {WEB}",
            f"{WEB} AAAA fd00::9",
            f"9.{'0.' * 29}d.f.ip6.arpa. PTR {WEB}",
        ],
    ),
    "a cluster IP before pods with names": (
        service(clusterIP="198.19.0.9"),
        endpoints(TWO_PODS),
        [f"{WEB} A 198.19.0.9", f"9.0.19.198.in-addr.arpa. PTR {WEB}", *FIRST_POD],
    ),
    "headless": (
        service(clusterIP="None", ports=[HTTP]),
        endpoints(TWO_PODS),
        [*FIRST_POD, f"{WEB} A 198.18.0.4", f"_http._tcp.{WEB} SRV 0 100 8080 web-0.{WEB}"],
    ),
    "headless, with those that are not ready": (
        service(clusterIP="None", publishNotReadyAddresses=True),
        endpoints(TWO_PODS | {"ports": []}),
        [
            *FIRST_POD,
            f"{WEB} A 198.18.0.4",
            f"web-1.{WEB} A 198.18.0.5",
            f"5.0.18.198.in-addr.arpa. PTR web-1.{WEB}",
            f"{WEB} A 198.18.0.5",
        ],
    ),
    "headless, a pod without a name of its own": (
        service(clusterIP="None"),
        endpoints({"addresses": [{"ip": "198.18.0.7"}], "ports": [HTTP]}),
        [
            f"198-18-0-7.{WEB} A 198.18.0.7",
            f"{WEB} A 198.18.0.7",
            f"_http._tcp.{WEB} SRV 0 100 80 198-18-0-7.{WEB}",
        ],
    ),
    "an address with two sets of ports": (
        service(clusterIP="None"),
        endpoints(*({"addresses": [{"ip": "198.18.0.7"}], "ports": [{"port": n}]} for n in (1, 2))),
        [f"198-18-0-7.{WEB} A 198.18.0.7", f"{WEB} A 198.18.0.7"],
    ),
    "headless and empty": (service(clusterIP="None", ports=[HTTP]), endpoints(), []),
    "no address yet": (service(ports=[HTTP]), None, []),
    "an external name": (
        service(type="ExternalName", externalName="db.example.com", ports=[HTTP]),
        None,
        [f"{WEB} CNAME db.example.com."],
    ),
}


@pytest.mark.parametrize(
    ("given_service", "given_endpoints", "expected"), RECORDS.values(), ids=RECORDS.keys()
)
def test_records_of_services(
    given_service: dict[str, Any], given_endpoints: dict[str, Any] | None, expected: list[str]
) -> None:
    found = records.service_records(
        msgspec.convert(given_service, records.Service),
        msgspec.convert(given_endpoints, records.Endpoints) if given_endpoints else None,
        DOMAIN,
    )
    assert [f"{record.name} {record.type} {record.data}" for record in found] == expected


@pytest.fixture(scope="module")
def zone() -> Zone:
    zone = Zone(DOMAIN, "198.18.0.1")
    directory = Directory(zone, DOMAIN)
    many = {"addresses": [{"ip": f"198.18.1.{n}"} for n in range(1, 101)]}
    listed = [
        service("web", clusterIP="198.19.0.9", ports=[HTTP]),
        service("crew", clusterIP="None", ports=[HTTP]),
        service("twin", clusterIP="None"),
        service("empty", clusterIP="None"),
        service("many", clusterIP="None"),
        service("alias", type="ExternalName", externalName=WEB.rstrip(".")),
        service("nowhere", type="ExternalName", externalName="gone.shop.svc.cluster.local"),
        service("outside", type="ExternalName", externalName="db.example.com"),
        service("circle", type="ExternalName", externalName="circle.shop.svc.cluster.local"),
        service("no-name", type="ExternalName", externalName="a..b"),
    ]
    directory.on_services(Listed([*map(raw, listed), raw({"metadata": {}})], "1"))
    each = [endpoints(TWO_PODS, name="crew"), endpoints(TWO_PODS, name="twin"), endpoints(many, name="many")]
    directory.on_endpoints(Listed([raw(one) for one in each], "1"))
    return zone


def ask(zone: Zone, query: dns.message.Message, *, by_udp: bool = True) -> dns.message.Message:
    return dns.message.from_wire(answers.answer(query.to_wire(), zone, by_udp=by_udp))


SVC = "shop.svc.cluster.local."
ANSWERS: dict[tuple[str, str], tuple[str, list[str]]] = {
    (WEB, "A"): ("NOERROR", [f"{WEB} A 198.19.0.9"]),
    (WEB, "ANY"): ("NOERROR", [f"{WEB} A 198.19.0.9"]),
    (WEB.upper(), "A"): ("NOERROR", [f"{WEB.upper()} A 198.19.0.9"]),
    (WEB, "AAAA"): ("NOERROR", []),
    (SVC, "A"): ("NOERROR", []),
    ("svc.cluster.local.", "A"): ("NOERROR", []),
    (f"_tcp.{WEB}", "SRV"): ("NOERROR", []),
    (f"_http._tcp.{WEB}", "SRV"): ("NOERROR", [f"_http._tcp.{WEB} SRV 0 100 80 {WEB}"]),
    (f"_http._udp.{WEB}", "SRV"): ("NXDOMAIN", []),
    (f"nobody.{SVC}", "A"): ("NXDOMAIN", []),
    ("web.other.svc.cluster.local.", "A"): ("NXDOMAIN", []),
    ("www.example.com.cluster.local.", "A"): ("NXDOMAIN", []),
    (f"crew.{SVC}", "A"): ("NOERROR", [f"crew.{SVC} A 198.18.0.4"]),
    (f"web-0.crew.{SVC}", "A"): ("NOERROR", [f"web-0.crew.{SVC} A 198.18.0.4"]),
    (f"web-1.crew.{SVC}", "A"): ("NXDOMAIN", []),
    (f"empty.{SVC}", "A"): ("NOERROR", []),
    (f"alias.{SVC}", "A"): ("NOERROR", [f"alias.{SVC} CNAME {WEB}", f"{WEB} A 198.19.0.9"]),
    (f"alias.{SVC}", "CNAME"): ("NOERROR", [f"alias.{SVC} CNAME {WEB}"]),
    (f"nowhere.{SVC}", "A"): ("NXDOMAIN", [f"nowhere.{SVC} CNAME gone.{SVC}"]),
    (f"outside.{SVC}", "A"): ("NOERROR", [f"outside.{SVC} CNAME db.example.com."]),
    (f"circle.{SVC}", "A"): ("SERVFAIL", [f"circle.{SVC} CNAME circle.{SVC}"]),
    (f"no-name.{SVC}", "A"): ("NXDOMAIN", []),
    ("9.0.19.198.in-addr.arpa.", "PTR"): ("NOERROR", [f"9.0.19.198.in-addr.arpa. PTR {WEB}"]),
    ("4.0.18.198.in-addr.arpa.", "PTR"): (
        "NOERROR",
        [f"4.0.18.198.in-addr.arpa. PTR web-0.{each}.{SVC}" for each in ("crew", "twin")],
    ),
    ("9.0.19.198.in-addr.arpa.", "A"): ("NOERROR", []),
    ("dns-version.cluster.local.", "TXT"): ("NOERROR", ['dns-version.cluster.local. TXT "1.1.0"']),
    ("cluster.local.", "NS"): ("NOERROR", ["cluster.local. NS ns.dns.cluster.local."]),
    ("ns.dns.cluster.local.", "A"): ("NOERROR", ["ns.dns.cluster.local. A 198.18.0.1"]),
    ("1-2-3-4.any.pod.cluster.local.", "A"): ("NOERROR", ["1-2-3-4.any.pod.cluster.local. A 1.2.3.4"]),
    ("1-2-3-4.any.pod.cluster.local.", "AAAA"): ("NOERROR", []),
    ("fd00--7.any.pod.cluster.local.", "AAAA"): ("NOERROR", ["fd00--7.any.pod.cluster.local. AAAA fd00::7"]),
    ("1-2-3-400.any.pod.cluster.local.", "A"): ("NXDOMAIN", []),
    ("a.1-2-3-4.any.pod.cluster.local.", "A"): ("NXDOMAIN", []),
    ("any.pod.cluster.local.", "A"): ("NOERROR", []),
    ("pod.cluster.local.", "A"): ("NOERROR", []),
}


@pytest.mark.parametrize(("question", "expected"), ANSWERS.items(), ids=[" ".join(each) for each in ANSWERS])
def test_responses_for_names_of_the_zone(
    zone: Zone, question: tuple[str, str], expected: tuple[str, list[str]]
) -> None:
    response = ask(zone, dns.message.make_query(*question))
    told = [
        f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)} {data.to_text()}"
        for rrset in response.answer
        for data in rrset
    ]
    assert (dns.rcode.to_text(response.rcode()), sorted(told)) == (expected[0], sorted(expected[1]))
    assert response.flags & dns.flags.AA
    assert {rrset.ttl for rrset in response.answer} <= {5}
    has_authority = [rrset.rdtype for rrset in response.authority] == [dns.rdatatype.SOA]
    is_in_domain = question[0].lower().endswith("cluster.local.")
    assert has_authority == (is_in_domain and not expected[1])


@pytest.mark.parametrize("name", ["registry.example.com", "8.8.8.8.in-addr.arpa", "local", "."])
def test_other_names_do_not_exist(zone: Zone, name: str) -> None:
    response = ask(zone, dns.message.make_query(name, "A"))
    assert response.rcode() == dns.rcode.NXDOMAIN
    assert not response.flags & dns.flags.AA


def test_response_includes_the_addresses_of_its_targets(zone: Zone) -> None:
    response = ask(zone, dns.message.make_query(f"_http._tcp.crew.{SVC}", "SRV"))
    assert [rrset.to_text() for rrset in response.additional] == [f"web-0.crew.{SVC} 5 IN A 198.18.0.4"]


SIZES: dict[str, tuple[dict[str, Any], bool, int | None]] = {
    "UDP": ({}, True, 512),
    "UDP with less than is allowed": ({"use_edns": 0, "payload": 100}, True, 512),
    "UDP with more": ({"use_edns": 0, "payload": 1232}, True, 1232),
    "UDP with enough": ({"use_edns": 0, "payload": 4096}, True, None),
    "TCP": ({}, False, None),
}


@pytest.mark.parametrize(("options", "by_udp", "limit"), SIZES.values(), ids=SIZES.keys())
def test_response_is_truncated_to_the_accepted_size(
    zone: Zone, options: dict[str, Any], by_udp: bool, limit: int | None
) -> None:
    query = dns.message.make_query(f"many.{SVC}", "A", **options)
    wire = answers.answer(query.to_wire(), zone, by_udp=by_udp)
    response = dns.message.from_wire(wire)
    is_cut = bool(response.flags & dns.flags.TC)
    assert is_cut == (limit is not None)
    assert len(wire) <= limit if limit else sum(map(len, response.answer)) == 100


def question_of(**changes: Any) -> dns.message.Message:
    query = dns.message.make_query(WEB, "A", **changes)
    query.id = 7
    return query


def _two_questions() -> bytes:
    query = question_of()
    query.question *= 2
    return query.to_wire()


def _with_opcode(opcode: dns.opcode.Opcode) -> bytes:
    wire = bytearray(question_of().to_wire())
    wire[2] |= opcode << 3
    return bytes(wire)


REFUSED = {
    "half a question": (question_of().to_wire()[:20], dns.rcode.FORMERR),
    "two questions": (_two_questions(), dns.rcode.FORMERR),
    "no question": (question_of().to_wire()[:4] + bytes(8), dns.rcode.FORMERR),
    "something behind it": (question_of().to_wire() + b"!", dns.rcode.FORMERR),
    "a notification": (_with_opcode(dns.opcode.NOTIFY), dns.rcode.NOTIMP),
    "another class": (question_of(rdclass="CH").to_wire(), dns.rcode.REFUSED),
    "EDNS of the future": (question_of(use_edns=1).to_wire(), dns.rcode.BADVERS),
}


@pytest.mark.parametrize(("wire", "rcode"), REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_queries_are_rejected(zone: Zone, wire: bytes, rcode: dns.rcode.Rcode) -> None:
    response = dns.message.from_wire(answers.answer(wire, zone, by_udp=True))
    assert (response.id, response.rcode()) == (7, rcode)


@pytest.mark.parametrize(
    "wire",
    [b"", b"x" * 11, dns.message.make_response(question_of()).to_wire()],
    ids=["nothing", "no header", "an answer"],
)
def test_invalid_messages_get_no_response(zone: Zone, wire: bytes) -> None:
    assert answers.answer(wire, zone, by_udp=True) == b""


@settings(deadline=None)
@given(st.binary(min_size=0, max_size=80), st.integers(0, 60))
def test_no_input_raises_an_exception(zone: Zone, noise: bytes, place: int) -> None:
    whole = question_of(use_edns=0).to_wire()
    for wire in (noise, whole[:place] + noise + whole[place + len(noise) :]):
        told = answers.answer(wire, zone, by_udp=True)
        assert bool(told) == answers.is_query(wire)


def test_zone_follows_the_objects() -> None:
    zone = Zone(DOMAIN, "198.18.0.1")
    directory = Directory(zone, DOMAIN)

    def addresses(name: str) -> list[str] | None:
        response = ask(zone, dns.message.make_query(name, "A"))
        if response.rcode() == dns.rcode.NXDOMAIN:
            return None
        return [data.to_text() for rrset in response.answer for data in rrset]

    directory.on_endpoints(Listed([raw(endpoints(TWO_PODS))], "1"))
    assert addresses(WEB) is None
    directory.on_services(Changed(raw(service(clusterIP="None"))))
    assert addresses(WEB) == ["198.18.0.4"]
    directory.on_endpoints(Changed(raw(endpoints({"addresses": [{"ip": "198.18.0.8"}]}))))
    assert addresses(WEB) == ["198.18.0.8"]
    assert addresses(f"web-0.{WEB}") is None
    directory.on_endpoints(Deleted(raw(endpoints())))
    assert addresses(WEB) == []
    directory.on_services(Listed([raw(service("other", clusterIP="198.19.0.3"))], "2"))
    assert addresses(WEB) is None
    directory.on_services(Deleted(raw(service("other"))))
    assert addresses(SVC) is None
