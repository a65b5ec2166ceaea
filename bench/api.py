"""Compare the embedded API server with an aiohttp handler that does nothing.

Both servers run in their own processes, and the same client sends requests over the same transport. The rounds
alternate, so that noise affects both alike; the median of each ratio is reported.
"""

import asyncio
import json
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from figures import Sheet, argument_parser  # next to this file

CONNECTIONS = 32
NOTHING = """
import ssl, sys
from aiohttp import web
async def nothing(request):
    return web.Response()
app = web.Application()
app.router.add_route("*", "/{tail:.*}", nothing)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
if sys.argv[1] == "tls":
    where = {"host": "127.0.0.1", "port": int(sys.argv[4]), "ssl_context": context}
else:
    where = {"path": sys.argv[1]}
web.run_app(app, **where, access_log=None, print=lambda *_: print("ready", flush=True))
"""

Request = Callable[[int], bytes]
Address = str | int


class Servers(NamedTuple):
    ours: Address
    empty: Address
    """URL of the server whose handler does nothing."""


class Connection:
    """One persistent connection for sequential requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        if isinstance(address, str):
            return cls(*await asyncio.open_unix_connection(address, limit=2**26))
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return cls(*await asyncio.open_connection("127.0.0.1", address, ssl=context, limit=2**26))

    async def ask(self, request: bytes) -> bytes:
        """Return the body of the response. Raise RuntimeError if the server rejects the request."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        body = await self.reader.readexactly(length) if length else b""
        if status >= 400:
            raise RuntimeError(f"{head!r} {body!r}")
        return body

    def close(self) -> None:
        self.writer.close()


class Client:
    def __init__(self, token: str) -> None:
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"

    def get(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode()

    def post(self, path: str, body: bytes, media_type: str = "application/json") -> bytes:
        length = f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
        head = f"POST {path} HTTP/1.1\r\n{self._head}{length}\r\n"
        return head.encode() + body


async def rate(address: Address, request: Request, count: int) -> float:
    """Return the requests per second over several concurrent connections."""
    numbers = iter(range(count))
    connections = [await Connection.open(address) for _ in range(CONNECTIONS)]

    async def work(connection: Connection) -> None:
        for number in numbers:
            await connection.ask(request(number))

    started = time.perf_counter()
    await asyncio.gather(*(work(connection) for connection in connections))
    took = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return count / took


def config_map(name: str) -> bytes:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"text": "x" * 200},
    }
    return json.dumps(body).encode()


def pod(name: str) -> bytes:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["true"],
        "env": [{"name": "A", "value": "b"}],
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }
    return json.dumps(body).encode()


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.terminate()
        process.wait()


async def compare(
    sheet: Sheet,
    what: str,
    servers: Servers,
    request: Callable[[int], Request],
    count: int,
    aim: int,
) -> None:
    ratios, rates = [], []
    for turn in range(5):
        nothing = await rate(servers.empty, request(turn), count)
        real = await rate(servers.ours, request(turn), count)
        ratios.append(real / nothing)
        rates.append(real)
    percent, note = 100 * statistics.median(ratios), f"{statistics.median(rates):,.0f}/s"
    sheet.add(f"{count:,} {what}", percent, "%", aim=aim, better="higher", note=note)


async def throughput(sheet: Sheet, client: Client, servers: Servers, transport: str, count: int) -> None:
    maps, pods = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
    connection = await Connection.open(servers.ours)
    await connection.ask(client.post(maps, config_map(f"read-{transport}")))
    connection.close()
    one = client.get(f"{maps}/read-{transport}")
    await compare(sheet, f"gets ({transport})", servers, lambda _: lambda _: one, count, 50)

    def creating(path: str, body: Callable[[str], bytes]) -> Callable[[int], Request]:
        return lambda turn: lambda number: client.post(path, body(f"{transport}-{turn}-{number}"))

    create_map, create_pod = creating(maps, config_map), creating(pods, pod)
    await compare(sheet, f"creates of ConfigMaps ({transport})", servers, create_map, count, 40)
    await compare(sheet, f"creates of pods ({transport})", servers, create_pod, count, 40)


async def watch_latency(sheet: Sheet, client: Client, address: Address, seconds: int) -> None:
    """Measure the time from sending a write to receiving its watch event, at 200 writes per second."""
    base = "/api/v1/namespaces/default/secrets"
    watching = await Connection.open(address)
    watching.writer.write(client.get(f"{base}?watch=true"))
    await watching.reader.readuntil(b"\r\n\r\n")
    writing = await Connection.open(address)
    sent: dict[str, float] = {}
    took: list[float] = []

    async def read() -> None:
        while len(took) < 200 * seconds:
            size = int(await watching.reader.readline(), 16)
            lines = (await watching.reader.readexactly(size + 2))[:-2]
            now = time.perf_counter()
            events = [json.loads(line) for line in lines.splitlines()]
            took.extend(now - sent[event["object"]["metadata"]["name"]] for event in events)

    reading = asyncio.create_task(read())
    begun = time.perf_counter()
    for number in range(200 * seconds):
        await asyncio.sleep(max(0, begun + number / 200 - time.perf_counter()))
        name = f"watched-{number}"
        body = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}).encode()
        sent[name] = time.perf_counter()
        await writing.ask(client.post(base, body))
    async with asyncio.timeout(30):
        await reading
    watching.close()
    writing.close()
    took.sort()
    p50, p99 = took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000
    what = "200 writes a second: a watch event after its write, p99"
    sheet.add(what, p99, "ms", aim=5, note=f"p50 {p50:.1f} ms")


class EventCounter(asyncio.Protocol):
    """A watch that completes `has_all` when it has received a number of events."""

    def __init__(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._count = count
        self._received = bytearray()
        self.has_started: asyncio.Future[None] = loop.create_future()
        self.has_all: asyncio.Future[None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self.has_started.done() and b"\r\n\r\n" in self._received:
            self.has_started.set_result(None)
        if not self.has_all.done() and self._received.count(b'{"type":"ADDED"') == self._count:
            self.has_all.set_result(None)


async def many_watches(sheet: Sheet, client: Client, socket_path: str, watches: int) -> None:
    """Measure 20 creates, one after the other, and the arrival of their events at all watches."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    loop = asyncio.get_running_loop()
    counters, transports = [], []
    for _ in range(watches):
        transport, counter = await loop.create_unix_connection(lambda: EventCounter(20), socket_path)
        transport.write(client.get(f"{path}?watch=true"))
        await counter.has_started
        counters.append(counter)
        transports.append(transport)
    connection = await Connection.open(socket_path)
    started = time.perf_counter()
    for number in range(20):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"watched-{number}"}}
        await connection.ask(client.post(path, json.dumps(body).encode()))
    created = time.perf_counter() - started
    async with asyncio.timeout(60):
        await asyncio.gather(*(counter.has_all for counter in counters))
    received = time.perf_counter() - started
    connection.close()
    for transport in transports:
        transport.close()
    sheet.add(f"{watches:,} watches: 20 creates, one after the other", created * 1000, "ms", aim=1000)
    sheet.add(f"{watches:,} watches: the events of 20 creates reach all", received * 1000, "ms", aim=2000)


async def many_objects(sheet: Sheet, client: Client, address: Address) -> None:
    connection = await Connection.open(address)
    namespace = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"many"}}'
    await connection.ask(client.post("/api/v1/namespaces", namespace))
    await rate(
        address, lambda number: client.post("/api/v1/namespaces/many/pods", pod(f"pod-{number}")), 10_000
    )
    started = time.perf_counter()
    body = await connection.ask(client.get("/api/v1/namespaces/many/pods"))
    took = time.perf_counter() - started
    connection.close()
    assert len(json.loads(body)["items"]) == 10_000
    sheet.add("10,000 pods: list them", took * 1000, "ms", aim=1000, note=f"{len(body) / 1e6:.1f} MB")


async def longest_pause(
    sheet: Sheet, client: Client, address: Address, what: str, body: bytes, *, is_accepted: bool
) -> None:
    """Measure the longest response time of a client that gets an object while another client sends a YAML body."""
    maps = "/api/v1/namespaces/default/configmaps"
    reading, writing = await Connection.open(address), await Connection.open(address)
    request = client.get("/api/v1/namespaces/default")
    sending = asyncio.create_task(
        writing.ask(client.post(f"{maps}?dryRun=All", body, media_type="application/yaml"))
    )
    longest = 0.0
    while not sending.done():
        begun = time.perf_counter()
        await reading.ask(request)
        longest = max(longest, time.perf_counter() - begun)
    reading.close()
    writing.close()
    assert (sending.exception() is None) == is_accepted, sending
    sheet.add(f"{what}: longest pause of another client", longest * 1000, "ms", aim=500)


async def pauses(sheet: Sheet, client: Client, address: Address) -> None:
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\ndata:\n"
    accepted = head + b"".join(b"  k%d: v\n" % number for number in range(9_900))
    await longest_pause(
        sheet, client, address, "a YAML body of 20,000 values, accepted", accepted, is_accepted=True
    )
    rejected = head + b"".join(b"  k%06d: v\n" % number for number in range(240_000))
    await longest_pause(sheet, client, address, "a YAML body of 3 MB, rejected", rejected, is_accepted=False)
    directives = b"".join(b"%%TAG !%06d! b\n" % number for number in range(190_000)) + b"---\n" + head
    what = "a YAML body with 190,000 %TAG directives, rejected"
    await longest_pause(sheet, client, address, what, directives, is_accepted=False)


def memory(sheet: Sheet, process: int, count: int) -> None:
    status = Path(f"/proc/{process}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    sheet.add(f"rounds of {count:,}, 10,000 pods: peak memory of the server", peak, "MB", aim=250)


def readiness(sheet: Sheet, data: Path, count: int) -> None:
    """Measure the time from process start to the ready line, with the data of the benchmarks above."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        with started([sys.executable, "-m", "windlass.localcluster", "--data", str(data)]) as (_, line):
            assert "is ready" in line
            times.append(time.perf_counter() - begun)
    note = f"median {statistics.median(times) * 1000:.0f} ms"
    what = f"rounds of {count:,}, 10,000 pods: from start to ready, best of 5"
    sheet.add(what, min(times) * 1000, "ms", aim=1000, note=note)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="requests per round")
    arguments = parser.parse_args()
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Inherited by the server: the watches below are one open file each, in both processes.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    sheet = Sheet("api")
    sheet.title("The embedded API server; rates are of that of an empty handler:")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        server = [
            sys.executable,
            "-m",
            "windlass.localcluster",
            "--data",
            str(data),
            "--socket",
            str(data / "api"),
        ]
        with started(server) as (process, line):
            port = int(line.partition("https://127.0.0.1:")[2].split()[0])
            client = Client((data / "token").read_text())
            certificates = [str(data / "server.crt"), str(data / "server.key")]
            empty = [sys.executable, "-c", NOTHING]
            with started([*empty, str(data / "empty"), *certificates]):
                servers = Servers(str(data / "api"), str(data / "empty"))
                asyncio.run(throughput(sheet, client, servers, "unix", arguments.count))
            with started([*empty, "tls", *certificates, str(port + 1)]):
                asyncio.run(throughput(sheet, client, Servers(port, port + 1), "https", arguments.count))
            asyncio.run(watch_latency(sheet, client, port, seconds=5))
            asyncio.run(many_watches(sheet, client, str(data / "api"), watches=3_000))
            asyncio.run(pauses(sheet, client, str(data / "api")))
            asyncio.run(many_objects(sheet, client, str(data / "api")))
            memory(sheet, process.pid, arguments.count)
        readiness(sheet, data, arguments.count)
    if arguments.save:
        sheet.save()


if __name__ == "__main__":
    main()
