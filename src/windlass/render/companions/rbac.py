"""As whom a companion speaks to the API server, and what it may do there: in its own namespace, and no more."""

from windlass.model import names
from windlass.model.base import Json

_RBAC = "rbac.authorization.k8s.io"
_LOOKING = ("get", "list", "watch")
_MAKING = (*_LOOKING, "create", "delete")


def to_look_at_jobs(metadata: Json) -> tuple[Json, ...]:
    """For whoever asks what `windlass status`, `logs`, `env` and `why` ask. Of Secrets there is nothing among it."""
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


def to_give_users_pods(metadata: Json) -> tuple[Json, ...]:
    """For a hub, which is the owner of them: what KubeSpawner asks for, and no more."""
    own = [metadata["name"]]
    rules: list[Json] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": list(_MAKING)},
        {"apiGroups": [""], "resources": ["events"], "verbs": list(_LOOKING)},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": own, "verbs": ["get"]},
    ]
    return _account_with(metadata, rules)


def _account_with(metadata: Json, rules: list[Json]) -> tuple[Json, ...]:
    """A ServiceAccount that may do this, and what says so. All three have the same name."""
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
