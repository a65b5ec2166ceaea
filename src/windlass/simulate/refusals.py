"""Requests that the API server rejects: rate limits, permissions, quotas, webhooks and invalid objects."""

from random import Random

from windlass.controller.engine.api import RefusedError
from windlass.model.failures import ApiFailure
from windlass.simulate.api_server import ApiServer
from windlass.simulate.scenario import Faults, Occurrence

_USER = 'User "system:serviceaccount:windlass:controller"'
_THROTTLED = ApiFailure(429, "TooManyRequests", "the server has received too many requests")
_QUOTA = ApiFailure(403, "Forbidden", 'pods "worker-0" is forbidden: exceeded quota: compute')
_WEBHOOK = ApiFailure(
    403, "Forbidden", 'admission webhook "policy.example.com" denied the request: no team label'
)
_INVALID = ApiFailure(422, "Invalid", "spec.containers: Required value")
_BAD_REQUEST = ApiFailure(400, "BadRequest", "no kind is registered")

OPERATIONS = (
    ("create_config_map", "create", "configmaps"),
    ("create_pod", "create", "pods"),
    ("delete_pod", "delete", "pods"),
    ("store_status", "patch", "frameworks"),
)
"""Operations that the controller may lose the permission for: the name, the verb and the resource."""


def draw(random: Random, faults: Faults, server: ApiServer, operation: str) -> RefusedError | None:
    """Return the rejection of a request, for a missing permission or at random; None if it is not rejected."""
    permission = next(
        ((verb, resource) for name, verb, resource in OPERATIONS if operation.startswith(name)), None
    )
    if permission is not None and permission in server.forbidden:
        server.occurred.add(Occurrence.PERMISSION_MISSING)
        verb, resource = permission
        message = (
            f'{resource} is forbidden: {_USER} cannot {verb} resource "{resource}" in the namespace "default"'
        )
        return RefusedError(ApiFailure(403, "Forbidden", message))
    if random.random() < faults.throttled:
        server.occurred.add(Occurrence.THROTTLED)
        return RefusedError(_THROTTLED)
    if operation.startswith("create_") and random.random() < faults.refusal:
        return RefusedError(_draw_admission_failure(random, server, operation))
    return None


def _draw_admission_failure(random: Random, server: ApiServer, operation: str) -> ApiFailure:
    if operation != "create_pod":
        return _WEBHOOK
    failure = random.choice((_QUOTA, _WEBHOOK, _INVALID, _BAD_REQUEST))
    if failure is not _QUOTA:
        server.has_final_rejection = True
    if failure is _WEBHOOK:
        server.occurred.add(Occurrence.WEBHOOK_DENIED)
    return failure
