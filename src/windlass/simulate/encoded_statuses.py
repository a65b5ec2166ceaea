"""The statuses of Frameworks as the API server stores them: JSON, changed by the patches of the real `HttpApi`."""

from typing import Any

import msgspec

from windlass.controller.engine.keys import FrameworkKey
from windlass.k8s import api_errors, json_patch
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.framework import Framework
from windlass.simulate.api_server import ApiServer
from windlass.simulate.invariants import Violation
from windlass.simulate.scenario import Occurrence
from windlass.wire import codec


class EncodedStatuses:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._stored: dict[str, Any] = {}
        """The status in JSON, by Framework UID."""

    def handle(self, request: Request) -> bytes:
        """Return the answer to a GET of a Framework or a PATCH of its status. Raises ApiError if the
        request is rejected."""
        name = request.path.split("/")[7]
        key = FrameworkKey(request.resource.group, request.namespace, name)
        current = self._server.frameworks.get(key)
        try:
            if current is None:
                raise api_errors.not_found(key.group, "frameworks", name)
            if request.verb is Verb.GET:
                return codec.encode_framework(current)
            return self._patch(current, request.body)
        except api_errors.ApiError as error:
            if error.code == 422:
                self._server.occurred.add(Occurrence.PATCH_REJECTED)
            raise errors.from_response(error.code, {}, msgspec.json.encode(error.status())) from error

    def _patch(self, current: Framework, patch: bytes) -> bytes:
        document: dict[str, Any] = {
            **msgspec.to_builtins(msgspec.structs.replace(current, status=None)),
            "status": self._stored.get(current.uid),
        }
        patched = json_patch.json_patch(document, msgspec.json.decode(patch))
        version = current.metadata.resource_version
        if patched["metadata"]["resourceVersion"] != version:
            raise api_errors.conflict(current.group, "frameworks", current.name, "it was changed")
        decoded = codec.read_framework(msgspec.json.encode(patched))
        if not isinstance(decoded, Framework) or decoded.status is None:
            raise Violation(f"{current.name}: the stored status cannot be decoded: {patched['status']}")
        if patched["status"]["attemptStatus"].get("taskRoleStatusesCompressed"):
            self._server.occurred.add(Occurrence.STATUS_COMPRESSED)
        stored = self._server.store_status(current, decoded.status)
        self._stored[current.uid] = patched["status"]
        return codec.encode_framework(stored)
