"""The API server: authentication, error responses and listening.

It listens on a loopback address and on the sockets of `listen_on`, with TLS, and requires a token with every request.
Web pages of other origins cannot use it: the server checks the Origin and Host headers. In-process clients use a unix
socket that only its owner may open, without TLS or token.
"""

import asyncio
import functools
import logging
import os
import random
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster import private_files
from windlass.localcluster.apiserver import (
    access_reviews,
    bodies,
    credentials,
    pod_metrics,
    request_info,
    responses,
)
from windlass.localcluster.apiserver.authentication import Authenticator
from windlass.localcluster.apiserver.authorization import default_roles, rules, users
from windlass.localcluster.apiserver.authorization.authorizer import Authorizer
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.connections import TlsServer
from windlass.localcluster.apiserver.definitions.checks import RESERVED_GROUPS
from windlass.localcluster.apiserver.handlers import ResourceHandlers
from windlass.localcluster.apiserver.kinds import definitions, table
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.meta_endpoints import MetaEndpoints
from windlass.localcluster.apiserver.options import WriteOptions, parse_query
from windlass.localcluster.apiserver.pod_metrics import Meter, MetricsHandler
from windlass.localcluster.apiserver.registry import Registry
from windlass.localcluster.apiserver.service_account_tokens import ServiceAccountTokens
from windlass.localcluster.apiserver.streams.handlers import PodRuntime
from windlass.localcluster.apiserver.watches import Watches
from windlass.localcluster.controllers import event_ttl
from windlass.localcluster.controllers.garbage_collection import DEFINITIONS, GarbageCollector
from windlass.localcluster.controllers.volumes import VolumeController
from windlass.localcluster.store import HISTORY_LENGTH, Store
from windlass.localcluster.store_types import Change, StoreError

logger = logging.getLogger(__name__)

_random_bits = random.Random(secrets.token_bytes(32)).getrandbits  # noqa: S311
DATABASE = "cluster.db"
"""The file in the data directory with the objects."""
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
        private_files.check(data)
        self.store = Store(
            data / DATABASE, history_length, schedule=_call_soon, must_exist=credentials.exist(data)
        )
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
        self.account_tokens = ServiceAccountTokens(
            self.credentials.key, self.store, clock=self.lifecycle.clock, new_id=_new_uid
        )
        self._authorizer = Authorizer(self.store)
        self._authenticator = Authenticator(self.credentials.token, self.account_tokens, self._authorizer)
        self._api = ResourceHandlers(
            self.lifecycle,
            self.watches,
            self._authorizer,
            self.account_tokens,
            body_timeout_seconds,
            self.wait_for_commit,
        )
        self._reviews = access_reviews.ReviewHandler(
            self._authorizer, self.account_tokens, body_timeout_seconds
        )
        self._meta_endpoints = MetaEndpoints(self.registry, lambda: urlsplit(self.url).netloc)
        self._meta_endpoints.add_computed_kinds(access_reviews.KINDS)
        self._pod_metrics: MetricsHandler | None = None
        self._tls: TlsServer | None = None
        self._runners: list[web.ServerRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._socket_path: Path | None = None
        self.store.listen(self._on_change)
        for definition in self.store.all(DEFINITIONS):
            self._define(definition)
        self._create_default_objects()
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
        # The default objects of a new cluster are committed before the first request.
        await self.wait_for_commit()
        bound = _bind_tcp_socket(host, port)
        await self.listen_on(bound)
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"https://{url_host}:{bound.getsockname()[1]}"
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
        self._meta_endpoints.add_computed_kinds(pod_metrics.KINDS)

    async def listen_on(self, bound: socket.socket) -> None:
        """Listen on one more socket, with TLS and token."""
        if self._tls is None:
            self._tls = TlsServer(self._authenticate, self.credentials.server_context())
            await self._run(self._tls)
        self._tasks.append(self._tls.listen(bound))

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

    async def _run(self, server: web.Server) -> web.ServerRunner:
        # The low-level server: one function handles every path, so no router is needed.
        runner = web.ServerRunner(server, shutdown_timeout=2)
        await runner.setup()
        self._runners.append(runner)
        return runner

    async def _listen_on_unix_socket(self, path: Path) -> None:
        handler = functools.partial(self._handle, users.ADMINISTRATOR)
        server = web.Server(handler, access_log=None, handler_cancellation=True, auto_decompress=False)
        runner = await self._run(server)
        private_files.make_folder(path.parent)
        try:
            await web.SockSite(runner, _bind_unix_socket(path)).start()
        except OSError as error:
            raise _cannot_listen(str(path), error) from error
        self._socket_path = path

    async def _authenticate(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            _check_origin(request)
            user = self._authenticator.user_of(request)
        except api_errors.ApiError as error:
            return error_response(error, request)
        if self._tls is not None:
            self._tls.admit(request, "" if user.is_administrator else user.name)
        return await self._handle(user, request)

    def _authorize(self, user: User, request: web.BaseRequest, info: request_info.RequestInfo | None) -> User:
        """Return the user, or the one that the request impersonates. Raises ApiError if the request is not allowed."""
        user = self._authenticator.impersonated(user, request)
        if not user.is_administrator:
            query = parse_query(request.query_string)
            attributes = rules.attributes_of(request.method, request.path, info, query)
            self._authorizer.check(user, attributes)
            stream = rules.stream_attributes(attributes)
            if stream is not None:
                self._authorizer.check(user, stream)
        return user

    async def wait_for_commit(self) -> None:
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

    async def _handle(self, user: User, request: web.BaseRequest) -> web.StreamResponse:
        try:
            info = request_info.parse(request.raw_path.partition("?")[0])
            user = self._authorize(user, request, info)
            if info is None:
                return self._meta_endpoints.handle(request)
            if self._pod_metrics is not None and info.group == pod_metrics.GROUP:
                return await self._pod_metrics.handle(request, info)
            if info.group in access_reviews.GROUPS:
                return await self._reviews.handle(request, info, user)
            response = await self._api.handle(request, info, user)
            await self.wait_for_commit()
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
            await self.wait_for_commit()
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
        if definition["spec"]["group"] in RESERVED_GROUPS:
            logger.warning(
                "the definition %s is not served: its group is reserved for kinds of the server. Delete it.",
                name,
            )
        self.registry.define(name, kinds)

    def _create_default_objects(self) -> None:
        namespaces = (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES
        )
        for obj in (*namespaces, *default_roles.objects()):
            kind = self.registry.find_by_kind(obj["apiVersion"], obj["kind"])
            if kind is not None and self.store.get(kind.resource, obj["metadata"]["name"]) is None:
                self.lifecycle.create(kind, "", obj, WriteOptions())


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


def _check_origin(request: web.BaseRequest) -> None:
    """Reject requests from web pages of other origins, and requests for other host names."""
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if not _is_own_host(host):
        raise _forbidden(f"the Host header {host!r} is not a name of this server")
    if origin is not None and not _is_own_origin(origin):
        raise _forbidden(f"pages of the origin {origin!r} may not use this server")


_NETLOC = re.compile(r"(?:\[([0-9a-f:]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def _is_own_host(netloc: str) -> bool:
    found = _NETLOC.fullmatch(netloc)
    host = (found[1] or found[2]).lower() if found else ""
    return host in credentials.HOSTS or host in credentials.ADDRESSES


def _is_own_origin(origin: str) -> bool:
    scheme, _, netloc = origin.partition("://")
    return scheme == "https" and _is_own_host(netloc)


def _bind_tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise _cannot_listen(f"{host}:{port}", error) from error


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


def _cannot_listen(address: str, error: OSError) -> CannotListenError:
    return CannotListenError(
        f"cannot listen on {address}: {error.strerror or error}."
        " Another server may be using it. Choose another address."
    )


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
