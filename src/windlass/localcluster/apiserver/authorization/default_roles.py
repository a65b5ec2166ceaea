"""The roles and bindings that every cluster has, except those for the components of Kubernetes itself."""

from collections.abc import Iterator
from typing import Any

from windlass.localcluster.apiserver.authorization import users
from windlass.localcluster.apiserver.authorization.authorizer import GROUP

Object = dict[str, Any]

_AUTOUPDATE = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_DEFAULTS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_ALL_VERBS = "create delete deletecollection get list patch update watch"
_STREAMS = "pods/attach pods/exec pods/portforward pods/proxy"

# Each rule: groups ("core" is the core group), resources, verbs, separated by spaces.
_VIEW = (
    (
        "core",
        (
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers"
            " replicationcontrollers/scale serviceaccounts services services/status"
        ),
        _READ,
    ),
    (
        "core",
        (
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas"
            " resourcequotas/status"
        ),
        _READ,
    ),
    ("core", "namespaces", _READ),
    ("core events.k8s.io", "events", _READ),
    ("discovery.k8s.io", "endpointslices", _READ),
    (
        "apps",
        (
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
            " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"
        ),
        _READ,
    ),
    ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
    ("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
    (
        "extensions",
        (
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status"
            " networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"
        ),
        _READ,
    ),
    ("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
    ("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
    ("resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates", _READ),
)
_EDIT = (
    ("core", f"{_STREAMS} secrets services/proxy", _READ),
    ("core", "serviceaccounts", "impersonate"),
    ("core", f"pods {_STREAMS}", _WRITE),
    ("core", "pods/eviction", "create"),
    (
        "core",
        (
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"
            " serviceaccounts services services/proxy"
        ),
        _WRITE,
    ),
    ("core", "serviceaccounts/token", "create"),
    ("core events.k8s.io", "events", _WRITE),
    (
        "apps",
        (
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
            " statefulsets/scale"
        ),
        _WRITE,
    ),
    ("autoscaling", "horizontalpodautoscalers", _WRITE),
    ("batch", "cronjobs jobs", _WRITE),
    (
        "extensions",
        (
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
            " replicasets/scale replicationcontrollers/scale"
        ),
        _WRITE,
    ),
    ("policy", "poddisruptionbudgets", _WRITE),
    ("networking.k8s.io", "ingresses networkpolicies", _WRITE),
    ("coordination.k8s.io", "leases", _ALL_VERBS),
    ("resource.k8s.io", "resourceclaims resourceclaimtemplates", _WRITE),
)
_ADMIN = (
    ("authorization.k8s.io", "localsubjectaccessreviews", "create"),
    (GROUP, "rolebindings roles", _ALL_VERBS),
)
_BASIC = (
    ("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
    ("authentication.k8s.io", "selfsubjectreviews", "create"),
)
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = (
    *("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"),
    *("/version", "/version/"),
)
# Role → the role into which it is aggregated.
_AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}


def objects() -> Iterator[Object]:
    """Yield the default ClusterRoles and ClusterRoleBindings."""
    for name, target in _AGGREGATED.items():
        selector = {"matchLabels": _aggregation_label(name)}
        yield {
            **_object("ClusterRole", name, _aggregation_label(target) if target else {}),
            "aggregationRule": {"clusterRoleSelectors": [selector]},
        }
    for name, rules in (("admin", _ADMIN), ("edit", _EDIT), ("view", _VIEW)):
        role = _object("ClusterRole", f"system:aggregate-to-{name}", _aggregation_label(name))
        yield {**role, "rules": [_rule(*rule) for rule in rules]}
    yield _role("cluster-admin", [_rule("*", "*", "*"), _url_rule(("*",), "*")])
    yield _role("system:basic-user", [_rule(*rule) for rule in _BASIC])
    yield _role("system:discovery", [_url_rule(_DISCOVERY)])
    yield _role("system:public-info-viewer", [_url_rule(_HEALTH)])
    yield _binding("cluster-admin", users.MASTERS)
    for name in ("system:basic-user", "system:discovery"):
        yield _binding(name, users.AUTHENTICATED)
    yield _binding("system:public-info-viewer", users.AUTHENTICATED, "system:unauthenticated")


def _object(kind: str, name: str, labels: Object) -> Object:
    metadata = {"name": name, "labels": {**_DEFAULTS, **labels}, "annotations": dict(_AUTOUPDATE)}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def _role(name: str, rules: list[Object]) -> Object:
    return {**_object("ClusterRole", name, {}), "rules": rules}


def _binding(name: str, *groups: str) -> Object:
    return {
        **_object("ClusterRoleBinding", name, {}),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _aggregation_label(role: str) -> Object:
    return {f"{GROUP}/aggregate-to-{role}": "true"}


def _rule(groups: str, resources: str, verbs: str) -> Object:
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }


def _url_rule(urls: tuple[str, ...], verbs: str = "get") -> Object:
    return {"nonResourceURLs": list(urls), "verbs": verbs.split()}
