"""Prevention of privilege escalation: users can write only roles and bindings whose permissions they have."""

from collections.abc import Callable, Iterable

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.authorization import rules
from windlass.localcluster.apiserver.authorization.authorizer import GROUP, Authorizer, MissingRoleError
from windlass.localcluster.apiserver.authorization.rules import Attributes, Rule
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.strategy import Object

Check = Callable[[Object, Object | None], None]
"""Function that is called with the new and the old object (None for a creation) before a write. Raises ApiError."""

_ROLES = {"Role": "roles", "ClusterRole": "clusterroles"}
# The number of missing permissions that a message names.
_MAX_DESCRIBED = 100
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
# Changes of only these fields need no check: they grant nothing. The garbage collector depends on them.
_OWNERSHIP_FIELDS = ("ownerReferences", "finalizers", "resourceVersion", "managedFields")


def check_for(authorizer: Authorizer, user: User, kind: Kind, info: RequestInfo) -> Check | None:
    """Return the check of a write by this user; None for a write that needs no check."""
    if user.is_administrator or kind.group != GROUP:
        return None
    # The name of a kind does not determine where its objects are stored; its resource does.
    check = _check_role if kind.plural in _ROLES.values() else _check_binding

    def check_if_changed(new: Object, old: Object | None) -> None:
        if old is None or _without_ownership(new) != _without_ownership(old):
            try:
                check(authorizer, user, kind, info, new, old)
            except rules.TooManyPartsError as error:
                why = "there are too many rules to compare with those of the user: use fewer rules, or several roles"
                raise _forbidden(kind, new, why) from error

    return check_if_changed


def _check_role(
    authorizer: Authorizer, user: User, kind: Kind, info: RequestInfo, new: Object, old: Object | None
) -> None:
    may_escalate = authorizer.decide(
        user, Attributes("escalate", GROUP, kind.plural, "", info.namespace, info.name)
    )
    if may_escalate.is_allowed:
        return
    held = authorizer.user_rules(user, info.namespace)
    is_aggregated = any(role and role.get("aggregationRule") for role in (new, old))
    if is_aggregated and rules.uncovered(held, _EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise _forbidden(kind, new, why)
    _check_rules(user, kind, new, held, rules.rules_of(new))


def _check_binding(
    authorizer: Authorizer, user: User, kind: Kind, info: RequestInfo, new: Object, _: Object | None
) -> None:
    role = new.get("roleRef") or {}
    role_kind, name = role.get("kind", ""), role.get("name", "")
    plural = _ROLES.get(role_kind)
    if plural is None:
        # Validation rejects the binding.
        return
    may_bind = authorizer.decide(user, Attributes("bind", GROUP, plural, "", info.namespace, name))
    if may_bind.is_allowed:
        return
    try:
        granted = authorizer.role_rules(role_kind, info.namespace, name)
    except MissingRoleError as error:
        details = api_errors.details_of(GROUP, role_kind.lower(), name)
        raise api_errors.ApiError(404, "NotFound", str(error), details) from error
    _check_rules(user, kind, new, authorizer.user_rules(user, info.namespace), granted)


def _check_rules(user: User, kind: Kind, new: Object, held: Iterable[Rule], granted: Iterable[Rule]) -> None:
    missing = rules.uncovered(held, granted)
    if missing:
        subject = f"user {api_errors.quoted(user.name)} (groups={rules.go_list(user.groups)})"
        attempt = f"{subject} is attempting to grant RBAC permissions not currently held:"
        described = sorted(set(map(str, missing)))
        if len(described) > _MAX_DESCRIBED:
            described[_MAX_DESCRIBED:] = [f"and {len(described) - _MAX_DESCRIBED} more"]
        raise _forbidden(kind, new, "\n".join([attempt, *described]))


def _forbidden(kind: Kind, new: Object, why: str) -> api_errors.ApiError:
    return api_errors.forbidden(kind.group, kind.plural, new["metadata"].get("name", ""), why)


def _without_ownership(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _OWNERSHIP_FIELDS}
    return {**obj, "metadata": meta}
