"""Handlers of requests about objects: get, list, watch, create, update, patch, delete and subresources.

Corresponds to `endpoints/handlers` of kube-apiserver.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from windlass.k8s import api_errors, formats
from windlass.localcluster.apiserver import (
    admission,
    bodies,
    lists,
    responses,
    selection,
    subresources,
    watches,
)
from windlass.localcluster.apiserver.authorization import escalation
from windlass.localcluster.apiserver.authorization.authorizer import Authorizer
from windlass.localcluster.apiserver.authorization.rules import Attributes
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.openapi import discovery
from windlass.localcluster.apiserver.options import (
    WriteOptions,
    delete_options,
    parse_boolean,
    parse_integer,
    parse_query,
    parse_resource_version,
    write_options,
)
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.responses import Representation
from windlass.localcluster.apiserver.service_account_tokens import ServiceAccountTokens
from windlass.localcluster.apiserver.strategy import Change, Object
from windlass.localcluster.apiserver.streams import handlers as streams
from windlass.localcluster.apiserver.streams.handlers import PodRuntime
from windlass.localcluster.apiserver.subresources import Call, SubresourceCall
from windlass.localcluster.apiserver.watches import Watch, Watches
from windlass.localcluster.store_types import CompactedError, object_key

WaitCommitted = Callable[[], Awaitable[None]]


class ResourceHandlers:
    def __init__(
        self,
        lifecycle: Lifecycle,
        watches: Watches,
        authorizer: Authorizer,
        account_tokens: ServiceAccountTokens,
        body_timeout_seconds: float,
        wait_committed: WaitCommitted,
    ) -> None:
        self._lifecycle = lifecycle
        self._authorizer = authorizer
        self._account_tokens = account_tokens
        self._watches = watches
        self.runtime: PodRuntime | None = None
        self._body_timeout_seconds = body_timeout_seconds
        self._wait_committed = wait_committed
        self._object_handlers: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
            "GET": self._get,
            "PUT": self._update,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        self._collection_handlers: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
            "GET": self._list_or_watch,
            "POST": self._create,
            "DELETE": self._delete_collection,
        }

    async def handle(self, request: web.BaseRequest, info: RequestInfo, user: User) -> web.StreamResponse:
        kind = self._lifecycle.registry.find(info.group, info.version, info.plural)
        if kind is None or not info.fits_scope(namespaced=kind.namespaced):
            raise api_errors.no_such_path()
        _check_name(info.name)
        _check_name(info.namespace)
        query = parse_query(request.query_string)
        body = bodies.EMPTY
        if request.method != "GET":
            body = await bodies.read(request, self._body_timeout_seconds)
            # Definitions are not limited: they contain large schemas.
            if kind.group != "apiextensions.k8s.io":
                body.check_values(is_custom=kind.is_custom)
        call = Call(request, kind, info, query, body, user)
        if info.subresource:
            return await self._on_subresource(call)
        handlers = self._object_handlers if info.name else self._collection_handlers
        handler = handlers.get(request.method)
        is_for_all_namespaces = kind.namespaced and not info.namespace and not info.name
        is_unsupported = (is_for_all_namespaces and request.method != "GET") or (
            request.method == "DELETE" and not info.name and "deletecollection" not in discovery.verbs(kind)
        )
        if handler is None or is_unsupported:
            raise api_errors.method_not_allowed()
        return await handler(call)

    def _object_response(
        self,
        code: int,
        call: Call,
        body: bytes,
        representation: Representation,
        warnings: tuple[str, ...] = (),
    ) -> web.StreamResponse:
        content = responses.object_body(call.kind, body, representation, self._lifecycle.clock())
        return responses.response(code, content, representation, warnings)

    async def _get(self, call: Call) -> web.StreamResponse:
        body = self._lifecycle.get(call.kind, call.info.namespace, call.info.name)
        return self._object_response(200, call, body, call.representation)

    async def _list_or_watch(self, call: Call) -> web.StreamResponse:
        selected = _selection(call)
        if parse_boolean(call.query.get("watch", "")):
            return await self._watch(call, selected)
        representation = call.representation
        listed = lists.list_objects(
            self._lifecycle.store, call.kind, call.info.namespace, selected, call.query
        )
        return self._list_response(call.kind, listed, representation)

    def _list_response(
        self, kind: Kind, listed: lists.ListResult, representation: Representation
    ) -> web.StreamResponse:
        content = responses.list_body(kind, listed, representation, self._lifecycle.clock())
        return responses.response(200, content, representation)

    async def _create(self, call: Call) -> web.StreamResponse:
        return self._store_new(call, call.body.as_object(), "CreateOptions")

    def _store_new(self, call: Call, new: Object, options_kind: str) -> web.StreamResponse:
        options = self._write_options(call, options_kind)
        # The representation is negotiated before the write: a request for an unsupported one must not change anything.
        representation = call.representation
        written = self._lifecycle.create(call.kind, call.info.namespace, new, options)
        return self._object_response(201, call, written.body, representation, written.warnings)

    def _write_options(self, call: Call, options_kind: str) -> WriteOptions:
        check = escalation.check_for(self._authorizer, call.user, call.kind, call.info)
        return msgspec.structs.replace(write_options(call.query, options_kind), check=check)

    async def _update(self, call: Call) -> web.StreamResponse:
        new = call.body.as_object()
        if call.kind.strategy.allows_create_on_update and not call.info.subresource:
            key = object_key(call.info.namespace, call.info.name)
            if self._lifecycle.store.get(call.kind.resource, key) is None:
                info = call.info
                self._authorizer.check(
                    call.user, Attributes("create", info.group, info.plural, "", info.namespace, info.name)
                )
                meta = new.get("metadata")
                if isinstance(meta, dict | None):
                    admission.check_path(call.kind, dict(meta or {}), call.info.namespace, call.info.name)
                return self._store_new(call, new, "UpdateOptions")
        return self._store_changed(call, lambda _: new, "UpdateOptions")

    async def _patch(self, call: Call) -> web.StreamResponse:
        return self._store_changed(call, call.body.as_patch(call.kind.type_name), "PatchOptions")

    def _store_changed(self, call: Call, change: Change, options_kind: str) -> web.StreamResponse:
        options = self._write_options(call, options_kind)
        representation, info = call.representation, call.info
        written = self._lifecycle.update(
            call.kind, info.namespace, info.name, change, options, info.subresource
        )
        return self._object_response(200, call, written.body, representation, written.warnings)

    async def _delete(self, call: Call) -> web.StreamResponse:
        options = delete_options(call.query, call.body.as_options())
        representation, info, kind = call.representation, call.info, call.kind
        deleted = self._lifecycle.delete(kind, info.namespace, info.name, options)
        if deleted.is_removed and not kind.strategy.returns_deleted_object:
            content = bodies.encode(_deletion_status(kind, deleted.body))
            return responses.response(200, content, representation)
        is_accepted = not deleted.is_removed and options.orphan is False
        return self._object_response(202 if is_accepted else 200, call, deleted.body, representation)

    async def _delete_collection(self, call: Call) -> web.StreamResponse:
        options = delete_options(call.query, call.body.as_options())
        kind, namespace, representation = call.kind, call.info.namespace, call.representation
        listed = lists.list_objects(self._lifecycle.store, kind, namespace, _selection(call), call.query)
        for body in listed.bodies:
            meta = bodies.decode_stored(body)["metadata"]
            try:
                self._lifecycle.delete(kind, meta.get("namespace", ""), meta["name"], options)
            except api_errors.ApiError as error:
                if error.code != 404:
                    raise
        return self._list_response(kind, listed, representation)

    async def _on_subresource(self, call: Call) -> web.StreamResponse:
        name, method = call.info.subresource, call.request.method
        if name not in call.kind.subresources:
            if call.kind.is_custom:
                raise api_errors.not_found(call.kind.group, call.kind.plural, call.info.name)
            raise api_errors.no_such_path()
        if name in ("status", "finalize"):
            handler = self._object_handlers.get(method)
            if handler is None or method == "DELETE":
                raise api_errors.method_not_allowed()
            return await handler(call)
        subresource = subresources.HANDLERS[name]
        if method not in subresource.methods:
            raise api_errors.method_not_allowed()
        obj = self._existing(call)
        if obj is None:
            return await streams.serve_log_of_deleted(
                call.request, call.info.namespace, call.info.name, self.runtime
            )
        extended = (*msgspec.structs.astuple(call), obj, self._lifecycle, self.runtime, self._account_tokens)
        return await subresource.handle(SubresourceCall(*extended))

    def _existing(self, call: Call) -> Object | None:
        """Return the object of a request for a subresource; None if the request is for the log of a deleted pod,
        selected by its UID. The request is authorized for the pod's namespace and name."""
        uid = call.request.query.get("uid", "") if call.info.subresource == "log" else ""
        try:
            found = self._lifecycle.read(call.kind, call.info.namespace, call.info.name)
        except api_errors.ApiError as error:
            if uid and error.code == 404:
                return None
            raise
        return None if uid and found["metadata"]["uid"] != uid else found

    async def _watch(self, call: Call, selected: selection.Selection) -> web.StreamResponse:
        watch = _parse_watch(call, selected)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        encoder = responses.event_encoder(call.kind, call.representation, self._lifecycle.clock)
        try:
            stream = self._watches.open(watch, encoder)
        except CompactedError:
            await response.prepare(call.request)
            await response.write(watches.expired_line(watch.since or 0, self._lifecycle.store))
            await response.write_eof()
            return response
        transport = call.request.transport
        if transport is not None:
            stream.abort = transport.abort
        try:
            # The initial events may include writes that are not committed yet.
            await self._wait_committed()
            await response.prepare(call.request)
            await self._send(watch, stream, response)
            await response.write_eof()
        except (ConnectionError, TimeoutError):
            # The client disconnected or reads too slowly. Unsent events are dropped, and the client must watch again.
            if transport is not None:
                transport.abort()
        finally:
            self._watches.remove(watch, stream)
        return response

    async def _send(self, watch: Watch, stream: watches.WatchStream, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + watch.timeout_seconds
        max_wait = watches.BOOKMARK_INTERVAL_SECONDS if watch.with_bookmarks else watch.timeout_seconds
        while not stream.is_closed and not stream.is_overflowed:
            lines = await stream.take(min(max_wait, end - clock()))
            if not lines and watch.with_bookmarks and not stream.is_closed:
                lines = watches.bookmark_line(watch.kind, self._lifecycle.store.committed_version)
            if lines:
                async with asyncio.timeout(min(watches.WRITE_TIMEOUT_SECONDS, max(end - clock(), 1))):
                    await response.write(lines)
            if clock() >= end:
                return


def _check_name(name: str) -> None:
    if "/" in name:
        raise api_errors.no_such_path()
    problems = formats.path_segment(name) if name else []
    if problems:
        raise api_errors.bad_request(
            f"Name parameter invalid: {api_errors.format_value(name)}: {', '.join(problems)}"
        )


def _selection(call: Call) -> selection.Selection:
    query = call.query
    return selection.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""), call.kind)


def _parse_watch(call: Call, selected: selection.Selection) -> Watch:
    query = call.query
    text = query.get("resourceVersion") or "0"
    version = parse_resource_version(text)
    timeout_seconds: float = parse_integer("timeoutSeconds", query.get("timeoutSeconds") or "0")
    if timeout_seconds <= 0:
        timeout_seconds = watches.DEFAULT_TIMEOUT_SECONDS
    with_bookmarks = parse_boolean(query.get("allowWatchBookmarks", ""))
    sends_initial_events = parse_boolean(query.get("sendInitialEvents", ""))
    starts_with_all = sends_initial_events if query.get("sendInitialEvents") else text == "0"
    return Watch(
        kind=call.kind,
        namespace=call.info.namespace,
        selection=selected,
        since=None if starts_with_all else version,
        with_bookmarks=with_bookmarks,
        timeout_seconds=min(timeout_seconds, 10 * watches.DEFAULT_TIMEOUT_SECONDS),
        marks_initial_end=sends_initial_events and with_bookmarks,
    )


def _deletion_status(kind: Kind, body: bytes) -> Object:
    meta = bodies.decode_stored(body)["metadata"]
    details = api_errors.details_of(kind.group, kind.plural, meta["name"]) | {"uid": meta["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
