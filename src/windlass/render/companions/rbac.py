"""ServiceAccounts of companions, with permissions in their own namespace only."""

from windlass.model import names
from windlass.model.base import Json

_RBAC = "rbac.authorization.k8s.io"
_LOOKING = ("get", "list", "watch")
_MAKING = (*_LOOKING, "create", "delete")


def job_reader_account(metadata: Json) -> tuple[Json, ...]:
    """Return an account that may read what `windlass status`, `logs`, `env` and `why` need, but no Secrets."""
    rules: list[Json] = [
        {"apiGroups": list(names.GROUPS), "resources": [names.PLURAL], "verbs": list(_LOOKING)},
        {
            "apiGroups": [""],
            "resources": ["pods", "pods/log", "events", "configmaps", "services"],
            "verbs": list(_LOOKING),
        },
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": list(_LOOKING)},
    ]
    return _account_with(metadata, rules)


def pod_spawner_account(metadata: Json) -> tuple[Json, ...]:
    """Return an account for a hub that creates pods for its users: the permissions of KubeSpawner."""
    own = [metadata["name"]]
    rules: list[Json] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": list(_MAKING)},
        {"apiGroups": [""], "resources": ["events"], "verbs": list(_LOOKING)},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": own, "verbs": ["get"]},
    ]
    return _account_with(metadata, rules)


def _account_with(metadata: Json, rules: list[Json]) -> tuple[Json, ...]:
    """Return a ServiceAccount, a Role and a RoleBinding of the same name."""
    name = metadata["name"]
    place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, **place}],
        },
    )
