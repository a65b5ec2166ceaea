"""Decides which requests of a client use protobuf, from the responses of its API server.

A response may be protobuf if its request says so. Once the server has sent one, bodies are sent as protobuf too. A
server that sends only JSON, e.g. the embedded one, therefore receives only JSON. After an error 406 or 415, the client
uses only JSON.
"""

from windlass.k8s.protobuf.messages import MEDIA_TYPE
from windlass.kubeapi.requests import JSON, Request

_REFUSALS = (406, 415)


class Negotiation:
    def __init__(self) -> None:
        self._is_refused = False
        self._is_sent = False
        """Whether the server has sent protobuf."""

    def accept(self, request: Request) -> str:
        """Return the media types of the response, the preferred ones first."""
        if not request.accepts_protobuf or self._is_refused:
            return request.accept
        return f"{request.accept.replace(JSON, MEDIA_TYPE)},{request.accept}"

    def body(self, request: Request) -> tuple[str, bytes]:
        """Return the body and its media type."""
        if request.encode_protobuf is not None and self._is_sent and not self._is_refused:
            body = request.encode_protobuf()
            if body is not None:
                return MEDIA_TYPE, body
        return request.content_type, request.body

    def record(self, media_type: str) -> None:
        """Record the media type of a successful response."""
        self._is_sent = self._is_sent or media_type == MEDIA_TYPE

    def falls_back(self, code: int, accept: str, content_type: str) -> bool:
        """Return whether to send a request again without protobuf, after a response with this code."""
        was_used = MEDIA_TYPE in accept or content_type == MEDIA_TYPE
        if code not in _REFUSALS or not was_used:
            return False
        self._is_refused = True
        return True
