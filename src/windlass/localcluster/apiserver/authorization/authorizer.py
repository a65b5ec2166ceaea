"""Decides whether a user may perform a request, from the stored roles and bindings."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from windlass.k8s import label_selectors
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.authorization import rules, users
from windlass.localcluster.apiserver.authorization.rules import Attributes, Rule
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import Change, object_key

GROUP = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = f"clusterroles.{GROUP}"
_CLUSTER_BINDINGS = f"clusterrolebindings.{GROUP}"
_ROLES = f"roles.{GROUP}"
_BINDINGS = f"rolebindings.{GROUP}"
MAX_CACHED_NAMESPACES = 1_000
_MAX_NAMESPACE_LENGTH = 63
_RESOURCES = (_CLUSTER_ROLES, _CLUSTER_BINDINGS, _ROLES, _BINDINGS)


class Decision(msgspec.Struct, frozen=True):
    is_allowed: bool
    reason: str = ""


class Binding(msgspec.Struct, frozen=True):
    """A RoleBinding, or a ClusterRoleBinding, whose namespace is empty."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    # Kind, namespace and name. The namespace of a service account defaults to that of the binding.
    subjects: tuple[tuple[str, str, str], ...]

    def subject_of(self, user: User) -> str:
        """Return the description of the first subject that matches the user; "" if none does."""
        for kind, namespace, name in self.subjects:
            if kind == "User" and name == user.name:
                return f'User "{name}"'
            if kind == "Group" and name in user.groups:
                return f'Group "{name}"'
            if kind == "ServiceAccount" and namespace and users.account_name(namespace, name) == user.name:
                return f'ServiceAccount "{name}/{namespace}"'
        return ""

    def describe(self, subject: str) -> str:
        kind = f'RoleBinding "{self.name}/{self.namespace}"'
        if not self.namespace:
            kind = f'ClusterRoleBinding "{self.name}"'
        return f'{kind} of {self.role_kind} "{self.role_name}" to {subject}'


class MissingRoleError(Exception):
    """A binding refers to a role that does not exist."""


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        # Caches of decoded bindings by namespace, and of rules by resource and key, until any role or binding changes.
        # Uncommitted ones are not cached: the store does not report that it has rolled them back.
        self._bindings: dict[str, tuple[Binding, ...]] = {}
        self._rules: dict[tuple[str, str], tuple[Rule, ...]] = {}
        store.listen(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource in _RESOURCES:
            self._bindings.clear()
            self._rules.clear()

    def decide(self, user: User, attributes: Attributes) -> Decision:
        if user.is_administrator:
            return Decision(True)
        problems: dict[str, None] = {}
        for binding, subject in self._bindings_of(user, attributes.namespace):
            try:
                granted = self.role_rules(binding.role_kind, binding.namespace, binding.role_name)
            except MissingRoleError as error:
                problems[str(error)] = None
                continue
            if any(rule.allows(attributes) for rule in granted):
                return Decision(True, f"RBAC: allowed by {binding.describe(subject)}")
        if not problems:
            return Decision(False)
        text = ", ".join(problems)
        return Decision(False, f"RBAC: {text if len(problems) == 1 else f'[{text}]'}")

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise ApiError unless the user may perform the request."""
        decision = self.decide(user, attributes)
        if not decision.is_allowed:
            raise rules.forbidden(user, attributes, decision.reason)

    def user_rules(self, user: User, namespace: str) -> list[Rule]:
        """Return all rules that apply to the user in a namespace. "" means the cluster scope."""
        found: list[Rule] = []
        for binding, _ in self._bindings_of(user, namespace):
            try:
                found += self.role_rules(binding.role_kind, binding.namespace, binding.role_name)
            except MissingRoleError:
                continue
        return found

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...]:
        """Return the rules of a role. Raises MissingRoleError."""
        is_cluster_role = kind == "ClusterRole"
        resource = _CLUSTER_ROLES if is_cluster_role else _ROLES
        key = object_key("" if is_cluster_role else namespace, name)
        known = self._rules.get((resource, key))
        if known is None:
            body = self._store.get(resource, key)
            if body is None:
                raise MissingRoleError(f'{kind.lower()}.{GROUP} "{name}" not found')
            known = tuple(self._effective_rules(bodies.decode_stored(body), set()))
            if self._store.is_committed:
                self._rules[resource, key] = known
        return known

    def _effective_rules(self, role: dict[str, Any], visited: set[str]) -> Iterator[Rule]:
        """Yield the rules of a role. An aggregated role has the rules of the roles that it selects.

        In Kubernetes, a controller copies these rules into the aggregated role.
        """
        if not role.get("aggregationRule"):
            yield from rules.rules_of(role)
            return
        visited.add(role["metadata"]["name"])
        selectors = [
            label_selectors.from_object(selector)
            for selector in role["aggregationRule"].get("clusterRoleSelectors") or ()
        ]
        for body in self._store.all(_CLUSTER_ROLES):
            candidate = bodies.decode_stored(body)
            labels = candidate["metadata"].get("labels") or {}
            is_selected = any(selector.matches(labels) for selector in selectors)
            if is_selected and candidate["metadata"]["name"] not in visited:
                yield from self._effective_rules(candidate, visited)

    def _bindings_of(self, user: User, namespace: str) -> Iterator[tuple[Binding, str]]:
        for scope in ("", namespace) if namespace else ("",):
            for binding in self._bindings_in(scope):
                subject = binding.subject_of(user)
                if subject:
                    yield binding, subject

    def _bindings_in(self, namespace: str) -> Iterable[Binding]:
        known = self._bindings.get(namespace)
        if known is None:
            resource = _BINDINGS if namespace else _CLUSTER_BINDINGS
            known = tuple(map(_decode_binding, self._store.all(resource, namespace)))
            # A review may name any namespace, even an invalid one, so the cache is limited.
            if self._store.is_committed and len(namespace) <= _MAX_NAMESPACE_LENGTH:
                if len(self._bindings) >= MAX_CACHED_NAMESPACES:
                    self._bindings.clear()
                self._bindings[namespace] = known
        return known


def _decode_binding(body: bytes) -> Binding:
    binding = bodies.decode_stored(body)
    meta, role = binding["metadata"], binding.get("roleRef") or {}
    namespace = meta.get("namespace", "")
    subjects = tuple(
        (each.get("kind", ""), each.get("namespace") or namespace, each.get("name", ""))
        for each in binding.get("subjects") or ()
    )
    return Binding(namespace, meta["name"], role.get("kind", ""), role.get("name", ""), subjects)
