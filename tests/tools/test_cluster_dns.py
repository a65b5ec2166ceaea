"""The DNS server on real sockets with the embedded API server."""

import asyncio
import functools
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rcode
import pytest

import cluster_dns
from conformance.waiting import wait_for
from server_process import RunningServer, serving
from service_names.zone import Zone

SCRIPT = Path(cluster_dns.__file__)
SECONDS = 60.0
"""Timeout."""
OURS = Zone("cluster.local", "198.18.0.1")


def test_other_names_are_resolved_upstream() -> None:
    upstream_zone = Zone("example.com", "192.0.2.1")

    async def asked(name: str) -> dns.message.Message:
        udp, tcp = cluster_dns.bind("127.0.0.1", 0)
        with udp, tcp:
            upstream = cluster_dns.Upstream(*udp.getsockname())
            knowing = functools.partial(cluster_dns.reply, upstream_zone, None)
            serving = asyncio.create_task(cluster_dns.answer_datagrams(knowing, udp))
            query = dns.message.make_query(name, "A").to_wire()
            told = await cluster_dns.reply(OURS, upstream, query, True)
            serving.cancel()
            await asyncio.wait([serving])
        return dns.message.from_wire(told)

    def told(name: str) -> str:
        response = asyncio.run(asked(name))
        return " ".join(rrset.to_text() for rrset in response.answer) or dns.rcode.to_text(response.rcode())

    assert told("ns.dns.example.com.") == "ns.dns.example.com. 5 IN A 192.0.2.1"
    assert told("ns.dns.cluster.local.") == "ns.dns.cluster.local. 5 IN A 198.18.0.1"
    assert told("nobody.example.com.") == "NXDOMAIN"


def test_silent_upstream_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_dns, "UPSTREAM_SECONDS", 0.05)
    udp, tcp = cluster_dns.bind("127.0.0.1", 0)
    with udp, tcp:
        upstream = cluster_dns.Upstream(*udp.getsockname())
        query = dns.message.make_query("example.com", "A").to_wire()
        told = asyncio.run(cluster_dns.reply(OURS, upstream, query, True))
    assert dns.message.from_wire(told).rcode() == dns.rcode.SERVFAIL


def command(kubeconfig: Path, port: int) -> list[str]:
    options = ["--kubeconfig", str(kubeconfig), "--address", "127.0.0.1", "--port", str(port)]
    return [sys.executable, str(SCRIPT), *options]


def test_unavailable_address_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(  # noqa: S603
            command(tmp_path / "nowhere", port), capture_output=True, text=True, timeout=SECONDS
        )
    message = f"cannot serve DNS at 127.0.0.1 port {port}: Address already in use\n"
    assert (ended.returncode, ended.stderr) == (1, message)


@contextmanager
def answering(kubeconfig: Path) -> Iterator[int]:
    """Return the port on which it listens."""
    process = subprocess.Popen(  # noqa: S603
        command(kubeconfig, 0), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("serving cluster.local at 127.0.0.1 port ")
        yield int(line.split()[-1])
        process.terminate()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def create_service(served: RunningServer, name: str) -> None:
    _create(served, "services", name, spec={"clusterIP": "None"})


def create_endpoints(served: RunningServer, name: str) -> None:
    _create(served, "endpoints", name, subsets=[{"addresses": [{"ip": "198.18.0.4", "hostname": "web-0"}]}])


def _create(served: RunningServer, plural: str, name: str, **fields: Any) -> None:
    body = {"metadata": {"name": name}, **fields}
    answer = served.ask("POST", f"/api/v1/namespaces/default/{plural}", body)
    assert answer.code == 201, answer


def test_process_serves_names_without_the_api_server(tmp_path: Path) -> None:
    crew = "crew.default.svc.cluster.local."

    def addresses(port: int, name: str, *, by_tcp: bool = False) -> list[str]:
        send = dns.query.tcp if by_tcp else dns.query.udp
        response = send(dns.message.make_query(name, "A"), "127.0.0.1", timeout=SECONDS, port=port)
        return [data.to_text() for rrset in response.answer for data in rrset]

    with serving(tmp_path / "data") as served:
        create_service(served, "crew")
        with answering(tmp_path / "data" / "kubeconfig") as port:
            assert addresses(port, crew) == []
            create_endpoints(served, "crew")
            wait_for("the endpoints", lambda: addresses(port, crew) == ["198.18.0.4"])
            assert addresses(port, f"web-0.{crew}", by_tcp=True) == ["198.18.0.4"]
            _send_rubbish(port)

            served.process.kill()
            served.process.wait()
            assert addresses(port, crew) == ["198.18.0.4"]
            with serving(tmp_path / "data", "--port", str(served.port)) as again:
                create_endpoints(again, "late")
                create_service(again, "late")
                wait_for(
                    "the news", lambda: addresses(port, "late.default.svc.cluster.local") == ["198.18.0.4"]
                )
                assert addresses(port, crew) == ["198.18.0.4"]


def _send_rubbish(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for rubbish in (b"", b"?", bytes(range(256)) * 8):
            udp.sendto(rubbish, ("127.0.0.1", port))
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as tcp:
        tcp.sendall(b"\x00\x05short")
        tcp.shutdown(socket.SHUT_WR)
        assert tcp.recv(1) == b""
