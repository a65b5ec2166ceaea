"""Subresources other than status and finalize: scale, binding, eviction, the streams of a pod,
and tokens of service accounts (TokenRequest), optionally bound to a pod."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from windlass.k8s import api_errors, formats, times
from windlass.localcluster.apiserver import bodies, metadata, responses
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.bodies import RequestBody
from windlass.localcluster.apiserver.kinds import pods, scales
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import delete_options, write_options
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.service_account_tokens import (
    AUDIENCE,
    BoundObject,
    ServiceAccountTokens,
)
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.apiserver.streams import handlers
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import object_key

_GROUP = "authentication.k8s.io"
_KIND = "TokenRequest"
_DEFAULT_TOKEN_SECONDS = 3600
_MIN_TOKEN_SECONDS = 600
_MAX_TOKEN_SECONDS = 2**32
_token_schema = typed.TypedSchema(f"AuthenticationV1{_KIND}", {})


class Call(msgspec.Struct, frozen=True):
    """A request for an object or a list, with its kind."""

    request: web.BaseRequest
    kind: Kind
    info: RequestInfo
    query: dict[str, str]
    body: RequestBody
    user: User

    @property
    def representation(self) -> responses.Representation:
        return responses.negotiate(self.request.headers.get("Accept", ""), self.query)


class SubresourceCall(Call, frozen=True):
    """A request for a subresource of an existing object."""

    obj: Object
    lifecycle: Lifecycle
    runtime: handlers.PodRuntime | None
    account_tokens: ServiceAccountTokens


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


async def _token(call: SubresourceCall) -> web.StreamResponse:
    write_options(call.query, "CreateOptions")  # A token is issued for a dry run too, as Kubernetes does.
    request = _token_answer(
        call.body.as_object(), call.info.namespace, call.info.name, call.account_tokens, call.lifecycle.store
    )
    return responses.response(201, bodies.encode(request), call.representation)


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
    "token": SubresourceHandler(("POST",), _token),
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


def _token_answer(
    request: Object, namespace: str, account: str, tokens: ServiceAccountTokens, store: Store
) -> Object:
    """Return the request with the token in its status. Raises ApiError."""
    _token_schema.check_types(request, _KIND, "v1")
    _token_schema.prune(request)
    spec = request.setdefault("spec", {})
    spec.setdefault("audiences", [AUDIENCE])
    seconds = spec.setdefault("expirationSeconds", _DEFAULT_TOKEN_SECONDS)
    _check_seconds(account, seconds)
    reference = spec.setdefault("boundObjectRef", None)
    pod = None if reference is None else _bound_pod(reference, namespace, account, store)
    token = tokens.issue(namespace, account, audiences=spec["audiences"], seconds=seconds, pod=pod)
    expires = times.format_time(datetime.fromtimestamp(token.expires, UTC))
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": account,
            "namespace": namespace,
            "creationTimestamp": times.format_time(tokens.now()),
        },
        "spec": spec,
        "status": {"token": token.text, "expirationTimestamp": expires},
    }


def _check_seconds(account: str, seconds: int) -> None:
    problem = ""
    if seconds < _MIN_TOKEN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    if seconds > _MAX_TOKEN_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = api_errors.invalid_value("spec.expirationSeconds", seconds, problem)
        raise api_errors.invalid(_GROUP, _KIND, account, [error])


def _bound_pod(reference: Object, namespace: str, account: str, store: Store) -> BoundObject:
    kind, name = reference.get("kind", ""), reference.get("name", "")
    if (reference.get("apiVersion"), kind) != ("v1", "Pod"):
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        described = f"{group}/{version}, Kind={kind}"
        raise api_errors.bad_request(f"cannot bind token to object of type {described}")
    body = store.get("pods", object_key(namespace, name))
    if body is None:
        raise api_errors.not_found("", "pods", name)
    pod = bodies.decode_stored(body)
    if pod["spec"].get("serviceAccountName", "default") != account:
        raise api_errors.bad_request(
            f"cannot bind token for serviceaccount {api_errors.quoted(account)} to pod running with different"
            " serviceaccount name."
        )
    uid = pod["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The object"
            " might have been deleted and then recreated"
        )
        raise api_errors.conflict("", "Pod", name, why)
    return BoundObject(name, uid)
