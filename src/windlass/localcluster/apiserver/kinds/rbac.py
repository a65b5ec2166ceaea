"""The strategies of Role, ClusterRole and their bindings. `authorization` enforces them."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, label_selectors
from windlass.localcluster.apiserver.strategy import Object, Strategy

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleStrategy(Strategy):
    """Role and ClusterRole."""

    allows_create_on_update = True

    def default(self, new: Object) -> None:
        new.setdefault("rules", None)

    def validate(self, new: Object) -> Iterator[FieldError]:
        for rule, at in basics.indexed(new.get("rules"), "rules"):
            yield from _rule_errors(rule, at, is_namespaced=new["kind"] == "Role")
        if new.get("aggregationRule") is not None:
            yield from _aggregation_errors(new["aggregationRule"])
        # Kubernetes generates this check from its types and reports its errors last.
        for rule, at in basics.indexed(new.get("rules"), "rules"):
            yield from basics.required_fields(rule, at, "verbs")


class BindingStrategy(Strategy):
    """RoleBinding and ClusterRoleBinding."""

    allows_create_on_update = True

    def default(self, new: Object) -> None:
        for subject in new.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", _GROUP)

    def validate(self, new: Object) -> Iterator[FieldError]:
        is_namespaced = new["kind"] == "RoleBinding"
        role = new.get("roleRef") or {}
        kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
        yield from basics.choice(role, "roleRef", "apiGroup", [_GROUP])
        yield from basics.choice(role, "roleRef", "kind", kinds)
        yield from basics.optional_name(role, "roleRef", "name", formats.path_segment)
        for subject, at in basics.indexed(new.get("subjects"), "subjects"):
            yield from _subject_errors(subject, at, is_namespaced)
        # Kubernetes generates these checks from its types and reports their errors last.
        yield from basics.required_fields(role, "roleRef", "name")
        for subject, at in basics.indexed(new.get("subjects"), "subjects"):
            yield from basics.required_fields(subject, at, "name")

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        return basics.immutable("roleRef", new.get("roleRef"), old.get("roleRef"))


def _aggregation_errors(aggregation: Mapping[str, Any]) -> Iterator[FieldError]:
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
    if not selectors:
        problem = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield api_errors.required(path, problem)
    for selector, at in basics.indexed(selectors, path):
        yield from label_selectors.errors(selector, at)


def _rule_errors(rule: Mapping[str, Any], path: str, *, is_namespaced: bool) -> Iterator[FieldError]:
    urls = rule.get("nonResourceURLs")
    if urls:
        field = f"{path}.nonResourceURLs"
        if is_namespaced:
            problem = "namespaced rules cannot apply to non-resource URLs"
            yield api_errors.invalid_value(field, urls, problem)
        if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            problem = "rules cannot apply to both regular resources and non-resource URLs"
            yield api_errors.invalid_value(field, urls, problem)
        return
    if not rule.get("apiGroups"):
        yield api_errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield api_errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _subject_errors(subject: Mapping[str, Any], path: str, is_namespaced: bool) -> Iterator[FieldError]:
    yield from basics.choice(subject, path, "kind", _SUBJECTS)
    if subject.get("kind") == "ServiceAccount":
        yield from basics.optional_name(subject, path, "name", formats.dns_subdomain)
        yield from basics.choice(subject, path, "apiGroup", [""])
        if not is_namespaced:
            yield from basics.required_fields(subject, path, "namespace")
    elif subject.get("kind") in _SUBJECTS:
        yield from basics.choice(subject, path, "apiGroup", [_GROUP])
