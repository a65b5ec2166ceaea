"""The roles of `roles`, and whom they are bound to, as manifests."""

from windlass.install import plan, roles
from windlass.install.plan import Plan
from windlass.install.roles import Permission, Where
from windlass.model.base import Json

_RBAC = "rbac.authorization.k8s.io"

_NAMES = {Where.CLUSTER: "definitions", Where.WATCHED: "frameworks", Where.OWN: "lease"}
"""What the role for each kind of place is about."""
_GANGS = "gangs"
"""Likewise the role for everybody's barriers."""


def manifests(wanted: Plan) -> list[Json]:
    """The service account, and each role followed by its binding."""
    needed = roles.permissions(wanted.settings)
    found = roles.places(wanted.namespace, wanted.settings)
    made = [_service_account(wanted)]
    for where, about in _NAMES.items():
        granted = tuple(permission for permission in needed if permission.where == where)
        for place in found[where] if granted else ():
            made += _bound(wanted, wanted.name_elsewhere(about), place, granted, _controller(wanted))
    for place in found[Where.WATCHED]:
        made += _bound(wanted, wanted.name_elsewhere(_GANGS), place, roles.ON_GANGS, _every_account(place))
    return made


def _controller(wanted: Plan) -> Json:
    return {"kind": "ServiceAccount", "name": plan.CONTROLLER, "namespace": wanted.namespace}


def _every_account(namespace: str) -> Json:
    """The service accounts of one namespace, or of all where none is given."""
    group = f"system:serviceaccounts:{namespace}" if namespace else "system:serviceaccounts"
    return {"apiGroup": _RBAC, "kind": "Group", "name": group}


def _service_account(wanted: Plan) -> Json:
    """Whatever pod uses it has to say that it wants the token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": wanted.metadata(plan.CONTROLLER),
        "automountServiceAccountToken": False,
    }


def _bound(
    wanted: Plan, name: str, namespace: str, granted: tuple[Permission, ...], subject: Json
) -> tuple[Json, Json]:
    """In one namespace, or in the cluster where none is given."""
    kind = "Role" if namespace else "ClusterRole"
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": wanted.metadata(name, namespace),
        "rules": roles.rules(granted),
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": wanted.metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }
    return role, binding
