"""ServiceAccounts of companions, with permissions in their own namespace only."""

from windlass.model import names
from windlass.model.base import Json, manifest

_RBAC = "rbac.authorization.k8s.io"
_READ_VERBS = ("get", "list", "watch")


def job_reader_account(metadata: Json) -> tuple[Json, ...]:
    """Return the objects of an account that may read what `windlass status`, `logs`, `env` and `why` need, but no
    Secrets."""
    core_resources = ("pods", "pods/log", "events", "configmaps", "services")
    rules = [
        _rule(names.GROUPS, (names.PLURAL,), _READ_VERBS),
        _rule(("",), core_resources, _READ_VERBS),
        _rule(("apps",), ("deployments",), _READ_VERBS),
    ]
    return _account_with(metadata, rules)


def pod_spawner_account(metadata: Json) -> tuple[Json, ...]:
    """Return the objects of an account for a hub that creates pods for its users. The account has the permissions that
    KubeSpawner needs, and may read the hub's Deployment, which is the owner of the pods."""
    rules = [
        _rule(("",), ("pods",), (*_READ_VERBS, "create", "delete")),
        _rule(("",), ("events",), _READ_VERBS),
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": [metadata["name"]],
            "verbs": ["get"],
        },
    ]
    return _account_with(metadata, rules)


def _rule(groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...]) -> Json:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _account_with(metadata: Json, rules: list[Json]) -> tuple[Json, ...]:
    """Return a ServiceAccount, a Role and a RoleBinding of the same name."""
    name = metadata["name"]
    namespace = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, **namespace}
    return (
        manifest("v1", "ServiceAccount", metadata),
        manifest(f"{_RBAC}/v1", "Role", metadata, rules=rules),
        manifest(f"{_RBAC}/v1", "RoleBinding", metadata, roleRef=role, subjects=[subject]),
    )
