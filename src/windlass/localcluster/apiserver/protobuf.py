"""Decoding of Kubernetes' protobuf, which Go clients send for built-in kinds, into plain objects.

The server never sends objects as protobuf: these clients also accept JSON.
"""

from windlass.k8s import api_errors
from windlass.k8s.protobuf import objects
from windlass.k8s.protobuf.messages import DecodeError
from windlass.localcluster.apiserver.strategy import Object


def decode(body: bytes) -> Object:
    """Return the object in a body. Raise ApiError: 400 for malformed data and 415 for an unknown kind."""
    try:
        return objects.decode(body, rejects_unknown_fields=True)
    except objects.UnknownKindError as error:
        raise api_errors.unsupported_media_type(["application/json", "application/yaml"]) from error
    except DecodeError as error:
        raise api_errors.bad_request(f"cannot decode the protobuf body: {error}") from error
