"""The API server: who may ask, what an answer to a failure looks like, and where it listens.

On the machine's network it listens on loopback only, with TLS, and wants a token with every request. A web page cannot
drive it: browsers send the Origin of the page, and a name that was bent towards this machine stands in Host. In-process
clients use a unix socket that only its owner may open, without TLS or token.
"""

import asyncio
import hmac
import logging
import os
import random
import re
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import bodies, credentials, pod_metrics, request_info, responses
from windlass.localcluster.apiserver.handlers import ResourceHandlers
from windlass.localcluster.apiserver.kinds import definitions, table
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.meta_endpoints import MetaEndpoints
from windlass.localcluster.apiserver.options import WriteOptions
from windlass.localcluster.apiserver.pod_metrics import Meter, PodMetrics
from windlass.localcluster.apiserver.registry import Registry
from windlass.localcluster.apiserver.streams.handlers import PodRuntime
from windlass.localcluster.apiserver.watches import Watches
from windlass.localcluster.controllers.event_ttl import Expiry
from windlass.localcluster.controllers.garbage_collection import DEFINITIONS, Collector
from windlass.localcluster.controllers.volumes import Volumes
from windlass.localcluster.store import HISTORY_LENGTH, Store
from windlass.localcluster.store_types import Change, StoreError

logger = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_draw = random.Random(secrets.token_bytes(32)).getrandbits  # noqa: S311
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class CannotListenError(Exception):
    """The address is taken, or may not be used. The message says which, and what to do."""


class ApiServer:
    """Serves the objects of one data directory."""

    def __init__(
        self,
        data: Path,
        body_seconds: float = 60,
        history: int = HISTORY_LENGTH,
    ) -> None:
        self._data = data
        self.store = Store(data / "cluster.db", history, schedule=self._soon)
        self.credentials = credentials.load_or_create(data)
        self.registry = Registry(table.KINDS)
        self.lifecycle = Lifecycle(
            self.store,
            self.registry,
            clock=lambda: datetime.now(UTC),
            new_uid=_new_uid,
            randomness=secrets.randbelow,
        )
        self.watches = Watches(self.store)
        self.url = ""
        # Somebody may be able to make room.
        self.on_store_failure: Callable[[], None] = lambda: None
        self._api = ResourceHandlers(self.lifecycle, self.watches, body_seconds, self._settled)
        self._meta_endpoints = MetaEndpoints(self.registry, lambda: urlsplit(self.url).netloc)
        self._pod_metrics: PodMetrics | None = None
        self._runners: list[web.ServerRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._socket: Path | None = None
        self.store.listen(self._on_change)
        for definition in self.store.all(DEFINITIONS):
            self._define(definition)
        self._make_namespaces()
        self.collector = Collector(self.lifecycle)
        self.volumes = Volumes(self.lifecycle, data / "volumes")

    async def start(self, host: str = "127.0.0.1", port: int = 0, local: Path | None = None) -> None:
        """Listen, on a free port if none is given, and on a unix socket if one is named."""
        if host not in credentials.LOOPBACK:
            raise CannotListenError(f"{host} is not an address of loopback: the server listens there only")
        runner = await self._serve(self._guarded)
        site = web.TCPSite(runner, host, port, ssl_context=self.credentials.server_context())
        await _listen(site, f"{host}:{port}")
        bound = runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"https://{shown}:{bound[1]}"
        if local is not None:
            await self._listen_locally(local)
        for loop in (self.collector.run(), Expiry(self.lifecycle).run()):
            self._tasks.append(asyncio.create_task(loop))

    def run_pods_with(self, runtime: PodRuntime) -> None:
        """From now on, there is something to stream from."""
        self._api.runtime = runtime

    def measure_pods_with(self, meter: Meter) -> None:
        """From now on, there is something to be told of what pods use."""
        self._pod_metrics = PodMetrics(self.lifecycle, meter)
        self._meta_endpoints.add(pod_metrics.KINDS)

    async def listen_on(self, bound: socket.socket) -> None:
        """One more place where the same is asked for, with TLS and a token: a socket that listens elsewhere."""
        runner = await self._serve(self._guarded)
        await web.SockSite(runner, bound, ssl_context=self.credentials.server_context()).start()

    async def stop(self) -> None:
        self.watches.close()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for runner in self._runners:
            await runner.cleanup()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)
        self.store.close()

    async def _serve(self, handler: Handler) -> web.ServerRunner:
        # The low-level server: one function answers every path, so there is nothing for a router to do.
        server = web.Server(handler, access_log=None, handler_cancellation=True, auto_decompress=False)
        runner = web.ServerRunner(server, shutdown_timeout=2)
        await runner.setup()
        self._runners.append(runner)
        return runner

    async def _listen_locally(self, path: Path) -> None:
        runner = await self._serve(self._answer)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        await _listen(web.SockSite(runner, _bound(path)), str(path))
        self._socket = path

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = self._refusal(request)
        return refuse(refusal, request) if refusal is not None else await self._answer(request)

    def _refusal(self, request: web.BaseRequest) -> api_errors.ApiError | None:
        headers = request.headers
        if not _is_ours(headers.get("Host", "")):
            return _forbidden(f"Host {headers.get('Host', '')!r} is no name of this server")
        origin = headers.get("Origin")
        if origin is not None and not _is_our_page(origin):
            return _forbidden(f"a page of {origin!r} may not use this server")
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        is_known = scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("utf-8", "replace"), self.credentials.token.encode()
        )
        return None if is_known else api_errors.unauthorized()

    def _soon(self, commit: Callable[[], None]) -> None:
        """At the end of this turn of the loop, together with what else is written in it."""
        try:
            asyncio.get_running_loop().call_soon(commit)
        except RuntimeError:
            commit()

    async def _settled(self) -> None:
        """What is answered is committed: what was written here, and what others wrote and was read here."""
        if self.store.is_committed:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(failure: StoreError | None) -> None:
            if told.done():
                return
            if failure is None:
                told.set_result(None)
            else:
                told.set_exception(failure)

        self.store.on_commit(tell)
        await told

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            info = request_info.parse(request.raw_path.partition("?")[0])
            if info is None:
                return self._meta_endpoints.handle(request)
            if self._pod_metrics is not None and info.group == pod_metrics.GROUP:
                return await self._pod_metrics.handle(request, info)
            response = await self._api.handle(request, info)
            await self._settled()
            return response
        except api_errors.ApiError as error:
            # A refusal tells of what others wrote, perhaps in this very turn.
            return await self._refused(error, request)
        except RecursionError:
            return refuse(api_errors.bad_request("what was sent is nested too deeply"), request)
        except StoreError as error:
            logger.warning("%s", error)
            self.on_store_failure()
            return refuse(api_errors.internal(str(error)), request)
        except ConnectionError:
            raise
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return refuse(
                api_errors.internal(f"{type(error).__name__} (the server's log says more)"), request
            )

    async def _refused(self, error: api_errors.ApiError, request: web.BaseRequest) -> web.StreamResponse:
        try:
            await self._settled()
        except StoreError as failure:
            self.on_store_failure()
            return refuse(api_errors.internal(str(failure)), request)
        return refuse(error, request)

    def _on_change(self, change: Change) -> None:
        if change.resource != DEFINITIONS:
            return
        if change.after is not None:
            self._define(change.after)
            return
        self.registry.define(change.key, ())
        self.watches.close(change.key)

    def _define(self, body: bytes) -> None:
        definition = bodies.decode_stored(body)
        name = definition["metadata"]["name"]
        try:
            kinds = definitions.kinds_of(definition)
        except Exception:
            # One that cannot be served must not keep all others from being so.
            logger.exception("the definition %s cannot be served", name)
            kinds = ()
        self.registry.define(name, kinds)

    def _make_namespaces(self) -> None:
        kind = self.registry.find("", "v1", "namespaces")
        assert kind is not None  # noqa: S101 — it stands in the table
        for name in _NAMESPACES:
            if self.store.get("namespaces", name) is None:
                given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.lifecycle.create(kind, "", given, WriteOptions())


def refuse(error: api_errors.ApiError, request: web.BaseRequest) -> web.Response:
    wants_yaml = bodies.media_type_of(request.headers.get("Accept", "")) == bodies.YAML
    representation = responses.Representation(bodies.YAML) if wants_yaml else responses.DEFAULT
    response = responses.response(error.code, bodies.encode(error.status()), representation)
    response.headers.update(error.headers)
    if error.code in (408, 413):
        # The rest of the body is not read, so nothing else can come on this connection.
        response.force_close()
    return response


def _forbidden(message: str) -> api_errors.ApiError:
    return api_errors.ApiError(403, "Forbidden", message)


_NETLOC = re.compile(r"(?:\[([0-9a-f:]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def _is_ours(netloc: str) -> bool:
    found = _NETLOC.fullmatch(netloc)
    host = (found[1] or found[2]).lower() if found else ""
    return host in credentials.HOSTS or host in credentials.ADDRESSES


def _is_our_page(origin: str) -> bool:
    scheme, _, netloc = origin.partition("://")
    return scheme == "https" and _is_ours(netloc)


def _bound(path: Path) -> socket.socket:
    """A unix socket that only its owner may open, from its first moment on."""
    if path.exists():
        _remove_left_over(path)
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise CannotListenError(f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    return bound


def _remove_left_over(path: Path) -> None:
    """A socket on which nobody listens any more. Everything else is somebody's."""
    if not path.is_socket():
        raise CannotListenError(
            f"cannot listen on {path}: there is a file that is no socket. Choose another."
        )
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise CannotListenError(f"cannot listen on {path}: another server does. Choose another.")


async def _listen(site: web.BaseSite, address: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise CannotListenError(
            f"cannot listen on {address}: {error.strerror or error}. Is another server using it? Choose another."
        ) from error


def _new_uid() -> str:
    # What uuid4 makes, at a fifth of its price: this is done for every object. It must be unlike any other, not secret.
    text = f"{_draw(128):032x}"
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
