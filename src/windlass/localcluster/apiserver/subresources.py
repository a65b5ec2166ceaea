"""Subresources other than status and finalize: scale, binding, eviction, and the streams of a pod."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from windlass.k8s import api_errors, formats
from windlass.localcluster.apiserver import bodies, metadata, responses
from windlass.localcluster.apiserver.bodies import RequestBody
from windlass.localcluster.apiserver.kinds import pods, scales
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import delete_options, write_options
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.apiserver.streams import handlers


class Call(msgspec.Struct, frozen=True):
    """A request for an object or a list, with its kind."""

    request: web.BaseRequest
    kind: Kind
    info: RequestInfo
    query: dict[str, str]
    body: RequestBody

    @property
    def representation(self) -> responses.Representation:
        return responses.negotiate(self.request.headers.get("Accept", ""), self.query)


class SubresourceCall(Call, frozen=True):
    """A request for a subresource of an existing object."""

    obj: Object
    lifecycle: Lifecycle
    runtime: handlers.PodRuntime | None


async def _scale(call: SubresourceCall) -> web.StreamResponse:
    paths = call.kind.strategy.scale
    if paths is None:
        raise api_errors.no_such_path()
    method = call.request.method
    if method == "GET":
        return responses.response(200, bodies.encode(scales.scale_of(call.obj, paths)))
    if method == "PUT":
        scale = call.body.as_object()
    else:
        scale = call.body.as_patch("V1Scale")(scales.scale_of(call.obj, paths))
    written = call.lifecycle.update(
        call.kind,
        call.info.namespace,
        call.info.name,
        lambda old: scales.with_scale(old, paths, scale),
        write_options(call.query),
    )
    changed = bodies.decode_stored(written.body)
    return responses.response(200, bodies.encode(scales.scale_of(changed, paths)))


async def _binding(call: SubresourceCall) -> web.StreamResponse:
    binding = call.body.as_object()
    if not isinstance(binding.get("metadata"), dict | None):
        raise api_errors.bad_request("metadata must be an object")
    if (_name_in(binding.get("metadata")) or call.info.name) != call.info.name:
        raise api_errors.bad_request("name in URL does not match name in Binding object")
    node = _name_in(binding.get("target"))
    if not node:
        raise api_errors.bad_request("target.name: Required value")
    annotations = (binding.get("metadata") or {}).get("annotations") or {}
    _check_binding(node, annotations)
    options = write_options(call.query)
    call.lifecycle.amend(
        call.kind,
        call.info.namespace,
        call.info.name,
        lambda pod: pods.bind(pod, node, annotations, call.lifecycle),
        options,
    )
    return _success()


async def _eviction(call: SubresourceCall) -> web.StreamResponse:
    """Delete the pod. There are no PodDisruptionBudgets that could prevent its deletion."""
    eviction = call.body.as_object()
    options = delete_options(call.query, eviction.get("deleteOptions"))
    call.lifecycle.delete(call.kind, call.info.namespace, call.info.name, options)
    return _success()


_Serve = Callable[[web.BaseRequest, Object, handlers.PodRuntime | None], Awaitable[web.StreamResponse]]


def _stream(serve: _Serve) -> Callable[[SubresourceCall], Awaitable[web.StreamResponse]]:
    return lambda call: serve(call.request, call.obj, call.runtime)


class SubresourceHandler(msgspec.Struct, frozen=True):
    methods: tuple[str, ...]
    handle: Callable[[SubresourceCall], Awaitable[web.StreamResponse]]


HANDLERS = {
    "attach": SubresourceHandler(("GET", "POST"), _stream(handlers.serve_attach)),
    "binding": SubresourceHandler(("POST",), _binding),
    "eviction": SubresourceHandler(("POST",), _eviction),
    "exec": SubresourceHandler(("GET", "POST"), _stream(handlers.serve_exec)),
    "log": SubresourceHandler(("GET",), _stream(handlers.serve_log)),
    "portforward": SubresourceHandler(("GET", "POST"), _stream(handlers.serve_port_forward)),
    "scale": SubresourceHandler(("GET", "PATCH", "PUT"), _scale),
}


def _check_binding(node: str, annotations: Any) -> None:
    is_text = isinstance(annotations, dict) and all(isinstance(value, str) for value in annotations.values())
    if not is_text:
        raise api_errors.bad_request("the annotations of a binding must be text")
    errors = [
        *(api_errors.invalid_value("target.name", node, problem) for problem in formats.dns_subdomain(node)),
        *metadata.annotation_errors(annotations, "metadata.annotations"),
    ]
    if errors:
        raise api_errors.invalid("", "Binding", "", errors)


def _name_in(reference: Any) -> str:
    return str(reference.get("name") or "") if isinstance(reference, dict) else ""


def _success() -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return responses.response(201, bodies.encode(status))
