"""The API server: authentication, error responses and listening.

It listens on a loopback address and on the sockets of `listen_on`, with TLS, and requires a token with every request.
Web pages of other origins cannot use it: the server checks the Origin and Host headers. In-process clients use a unix
socket that only its owner may open, without TLS or token.
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
from windlass.localcluster.apiserver.pod_metrics import Meter, MetricsHandler
from windlass.localcluster.apiserver.registry import Registry
from windlass.localcluster.apiserver.streams.handlers import PodRuntime
from windlass.localcluster.apiserver.watches import Watches
from windlass.localcluster.controllers import event_ttl
from windlass.localcluster.controllers.garbage_collection import DEFINITIONS, GarbageCollector
from windlass.localcluster.controllers.volumes import VolumeController
from windlass.localcluster.store import HISTORY_LENGTH, Store
from windlass.localcluster.store_types import Change, StoreError

logger = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_random_bits = random.Random(secrets.token_bytes(32)).getrandbits  # noqa: S311
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class CannotListenError(Exception):
    """The server cannot listen on an address. The message contains the cause."""


class ApiServer:
    """Serves the objects of one data directory."""

    def __init__(
        self,
        data: Path,
        body_timeout_seconds: float = 60,
        history_length: int = HISTORY_LENGTH,
    ) -> None:
        self._data = data
        self.store = Store(data / "cluster.db", history_length, schedule=_call_soon)
        self.credentials = credentials.load_or_create(data)
        self.registry = Registry(table.KINDS)
        self.lifecycle = Lifecycle(
            self.store,
            self.registry,
            clock=lambda: datetime.now(UTC),
            new_uid=_new_uid,
            randomness=secrets.randbelow,
        )
        self.watches = Watches(self.store, schedule=_call_soon)
        self.url = ""
        # Called when a write fails, e.g. to free disk space.
        self.on_store_failure: Callable[[], None] = lambda: None
        self._api = ResourceHandlers(
            self.lifecycle, self.watches, body_timeout_seconds, self._wait_for_commit
        )
        self._meta_endpoints = MetaEndpoints(self.registry, lambda: urlsplit(self.url).netloc)
        self._pod_metrics: MetricsHandler | None = None
        self._runners: list[web.ServerRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._socket_path: Path | None = None
        self.store.listen(self._on_change)
        for definition in self.store.all(DEFINITIONS):
            self._define(definition)
        self._create_namespaces()
        self.collector = GarbageCollector(self.lifecycle)
        self.volumes = VolumeController(self.lifecycle, data / "volumes")

    async def start(self, host: str = "127.0.0.1", port: int = 0, socket_path: Path | None = None) -> None:
        """Listen on a port (default: any free one) and optionally on a unix socket.

        Also start garbage collection and the deletion of old events.
        """
        if host not in credentials.LOOPBACK:
            raise CannotListenError(
                f"cannot listen on {host}: it is not a loopback address. Use 127.0.0.1 or ::1."
            )
        runner = await self._serve(self._authenticate)
        site = web.TCPSite(runner, host, port, ssl_context=self.credentials.server_context())
        await _listen(site, f"{host}:{port}")
        bound = runner.addresses[0]
        url_host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"https://{url_host}:{bound[1]}"
        if socket_path is not None:
            await self._listen_on_unix_socket(socket_path)
        for coroutine in (self.collector.run(), event_ttl.run(self.lifecycle)):
            self._tasks.append(asyncio.create_task(coroutine))

    def set_pod_runtime(self, runtime: PodRuntime) -> None:
        """Serve logs, exec, attach and port-forward from this runtime."""
        self._api.runtime = runtime

    def set_pod_meter(self, meter: Meter) -> None:
        """Serve the pod metrics API from this meter."""
        self._pod_metrics = MetricsHandler(self.lifecycle, meter)
        self._meta_endpoints.set_computed_kinds(pod_metrics.KINDS)

    async def listen_on(self, bound: socket.socket) -> None:
        """Listen on one more socket, with TLS and token."""
        runner = await self._serve(self._authenticate)
        await web.SockSite(runner, bound, ssl_context=self.credentials.server_context()).start()

    async def stop(self) -> None:
        self.watches.close()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for runner in self._runners:
            await runner.cleanup()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
        self.store.close()

    async def _serve(self, handler: Handler) -> web.ServerRunner:
        # The low-level server: one function handles every path, so no router is needed.
        server = web.Server(handler, access_log=None, handler_cancellation=True, auto_decompress=False)
        runner = web.ServerRunner(server, shutdown_timeout=2)
        await runner.setup()
        self._runners.append(runner)
        return runner

    async def _listen_on_unix_socket(self, path: Path) -> None:
        runner = await self._serve(self._handle)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        await _listen(web.SockSite(runner, _bind_unix_socket(path)), str(path))
        self._socket_path = path

    async def _authenticate(self, request: web.BaseRequest) -> web.StreamResponse:
        error = self._auth_error(request)
        return error_response(error, request) if error is not None else await self._handle(request)

    def _auth_error(self, request: web.BaseRequest) -> api_errors.ApiError | None:
        headers = request.headers
        if not _is_own_host(headers.get("Host", "")):
            return _forbidden(f"the Host header {headers.get('Host', '')!r} is not a name of this server")
        origin = headers.get("Origin")
        if origin is not None and not _is_own_origin(origin):
            return _forbidden(f"pages of the origin {origin!r} may not use this server")
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        is_authenticated = scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("utf-8", "replace"), self.credentials.token.encode()
        )
        return None if is_authenticated else api_errors.unauthorized()

    async def _wait_for_commit(self) -> None:
        """Wait until all writes are committed, including those of other requests, which the response may depend on."""
        if self.store.is_committed:
            return
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resolve(failure: StoreError | None) -> None:
            if committed.done():
                return
            if failure is None:
                committed.set_result(None)
            else:
                committed.set_exception(failure)

        self.store.on_commit(resolve)
        await committed

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            info = request_info.parse(request.raw_path.partition("?")[0])
            if info is None:
                return self._meta_endpoints.handle(request)
            if self._pod_metrics is not None and info.group == pod_metrics.GROUP:
                return await self._pod_metrics.handle(request, info)
            response = await self._api.handle(request, info)
            await self._wait_for_commit()
            return response
        except api_errors.ApiError as error:
            # An error may depend on uncommitted writes of other requests.
            return await self._error_after_commit(error, request)
        except RecursionError:
            return error_response(api_errors.bad_request("the request is nested too deeply"), request)
        except StoreError as error:
            logger.warning("%s", error)
            self.on_store_failure()
            return error_response(api_errors.internal(str(error)), request)
        except ConnectionError:
            raise
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return error_response(
                api_errors.internal(f"{type(error).__name__} (see the log of the server)"), request
            )

    async def _error_after_commit(
        self, error: api_errors.ApiError, request: web.BaseRequest
    ) -> web.StreamResponse:
        try:
            await self._wait_for_commit()
        except StoreError as failure:
            self.on_store_failure()
            return error_response(api_errors.internal(str(failure)), request)
        return error_response(error, request)

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
            # One broken definition must not prevent the others from being served.
            logger.exception("cannot serve the definition %s", name)
            kinds = ()
        self.registry.define(name, kinds)

    def _create_namespaces(self) -> None:
        kind = self.registry.built_in("namespaces")
        for name in _NAMESPACES:
            if self.store.get("namespaces", name) is None:
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.lifecycle.create(kind, "", namespace, WriteOptions())


def error_response(error: api_errors.ApiError, request: web.BaseRequest) -> web.Response:
    wants_yaml = bodies.media_type_of(request.headers.get("Accept", "")) == bodies.YAML
    representation = responses.Representation(bodies.YAML) if wants_yaml else responses.DEFAULT
    response = responses.response(error.code, bodies.encode(error.status()), representation)
    response.headers.update(error.headers)
    if error.code in (408, 413):
        # The rest of the body is not read, so the connection cannot be reused.
        response.force_close()
    return response


def _forbidden(message: str) -> api_errors.ApiError:
    return api_errors.ApiError(403, "Forbidden", message)


_NETLOC = re.compile(r"(?:\[([0-9a-f:]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def _is_own_host(netloc: str) -> bool:
    found = _NETLOC.fullmatch(netloc)
    host = (found[1] or found[2]).lower() if found else ""
    return host in credentials.HOSTS or host in credentials.ADDRESSES


def _is_own_origin(origin: str) -> bool:
    scheme, _, netloc = origin.partition("://")
    return scheme == "https" and _is_own_host(netloc)


def _bind_unix_socket(path: Path) -> socket.socket:
    """Return a bound unix socket with mode 0600 from the start."""
    if path.exists():
        _remove_stale_socket(path)
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


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket that no server listens on; raise CannotListenError for anything else."""
    if not path.is_socket():
        raise CannotListenError(
            f"cannot listen on {path}: the file exists and is not a socket. Choose another path."
        )
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise CannotListenError(f"cannot listen on {path}: another server is using it. Choose another path.")


async def _listen(site: web.BaseSite, address: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise CannotListenError(
            f"cannot listen on {address}: {error.strerror or error}."
            " Another server may be using it. Choose another address."
        ) from error


def _call_soon(function: Callable[[], None]) -> None:
    """Call a function in the next iteration of the event loop; at once if no loop runs."""
    try:
        asyncio.get_running_loop().call_soon(function)
    except RuntimeError:
        function()


def _new_uid() -> str:
    # Like uuid4 but five times faster: a uid is generated for every object and must be unique, not secret.
    text = f"{_random_bits(128):032x}"
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
