"""Review kinds, e.g. SubjectAccessReview and TokenReview. The response contains the result; nothing is stored."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from windlass.k8s import api_errors
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import admission, bodies, responses
from windlass.localcluster.apiserver.authorization.authorizer import Authorizer
from windlass.localcluster.apiserver.authorization.rules import Attributes, Rule
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.options import parse_query, write_options
from windlass.localcluster.apiserver.request_info import RequestInfo
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.service_account_tokens import AUDIENCE, ServiceAccountTokens
from windlass.localcluster.apiserver.strategy import Object, Strategy

_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
# Reviews have a few short fields.
_MAX_BYTES = 64 * 1024
GROUPS = (_AUTHORIZATION, _AUTHENTICATION)


def _kind(group: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        list_kind="",
        type_name=f"V1{kind}",
        schema=typed.TypedSchema(f"V1{kind}", {}),
        strategy=Strategy(),
        verbs=("create",),
    )


KINDS = (
    _kind(_AUTHENTICATION, "SelfSubjectReview"),
    _kind(_AUTHENTICATION, "TokenReview"),
    _kind(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _kind(_AUTHORIZATION, "SelfSubjectAccessReview"),
    _kind(_AUTHORIZATION, "SelfSubjectRulesReview"),
    _kind(_AUTHORIZATION, "SubjectAccessReview"),
)


class ReviewHandler:
    def __init__(
        self, authorizer: Authorizer, account_tokens: ServiceAccountTokens, body_timeout_seconds: float
    ) -> None:
        self._authorizer = authorizer
        self._account_tokens = account_tokens
        self._body_timeout_seconds = body_timeout_seconds
        self._answers: dict[str, Callable[[Object, User], Object]] = {
            "SelfSubjectReview": self._who_am_i,
            "TokenReview": self._token_review,
            "LocalSubjectAccessReview": self._access_review,
            "SelfSubjectAccessReview": self._own_access_review,
            "SelfSubjectRulesReview": self._own_rules_review,
            "SubjectAccessReview": self._access_review,
        }

    async def handle(self, request: web.BaseRequest, info: RequestInfo, user: User) -> web.Response:
        kind = next((each for each in KINDS if (each.group, each.plural) == (info.group, info.plural)), None)
        is_path = kind is not None and info.version == kind.version and not info.name
        if kind is None or not is_path or bool(info.namespace) != kind.namespaced:
            raise api_errors.no_such_path()
        if request.method != "POST":
            raise api_errors.method_not_allowed()
        query = parse_query(request.query_string)
        representation = responses.negotiate(request.headers.get("Accept", ""), query)
        options = write_options(query, "CreateOptions")
        body = await bodies.read(request, self._body_timeout_seconds, _MAX_BYTES)
        review, warnings = admission.decode(kind, body.as_object(), options)
        admission.check_namespace(kind, review["metadata"], info.namespace)
        review.setdefault("spec", {})
        errors = list(_errors(kind, review))
        if errors:
            raise api_errors.invalid(kind.group, kind.kind, "", errors)
        review["status"] = self._answers[kind.kind](review["spec"], user)
        if kind.kind == "SelfSubjectReview":
            del review["spec"]
        return responses.response(201, bodies.encode(review), representation, warnings)

    def _access_review(self, spec: Object, _: User) -> Object:
        groups = tuple(spec.get("groups") or ())
        return self._decide(User(spec.get("user", ""), groups), spec)

    def _own_access_review(self, spec: Object, user: User) -> Object:
        return self._decide(user, spec)

    def _decide(self, user: User, spec: Object) -> Object:
        decision = self._authorizer.decide(user, _attributes(spec))
        return {"allowed": decision.is_allowed, **({"reason": decision.reason} if decision.reason else {})}

    def _own_rules_review(self, spec: Object, user: User) -> Object:
        rules = self._authorizer.user_rules(user, spec.get("namespace", ""))
        return {
            "resourceRules": [_resource_rule(rule) for rule in rules if not rule.urls],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
            ],
            "incomplete": False,
        }

    def _who_am_i(self, _: Object, user: User) -> Object:
        return {"userInfo": _user_info(user)}

    def _token_review(self, spec: Object, _: User) -> Object:
        audiences = spec.get("audiences") or [AUDIENCE]
        token = spec.get("token", "")
        for audience in audiences:
            user = self._account_tokens.user_of(token, audience)
            if user is not None:
                return {"authenticated": True, "user": _user_info(user), "audiences": [audience]}
        return {"user": {}, "error": "invalid bearer token"}


def _attributes(spec: Object) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    resource = spec["resourceAttributes"]
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(resource.get(field, "") for field in fields))


def _resource_rule(rule: Rule) -> Object:
    found = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
        "resourceNames": list(rule.names),
    }
    return {key: value for key, value in found.items() if value}


def _user_info(user: User) -> Object:
    found: dict[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": dict(user.extra),
    }
    return {key: value for key, value in found.items() if value}


def _errors(kind: Kind, review: Object) -> list[FieldError]:
    if not kind.kind.endswith("AccessReview"):
        return []
    return _access_errors(kind, review["spec"], review["metadata"])


def _access_errors(kind: Kind, spec: Object, metadata: Object) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if (resource is None) == (path is None):
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(api_errors.invalid_value("spec", path, problem))
    is_for_others = kind.kind != "SelfSubjectAccessReview"
    if is_for_others and not spec.get("user") and not spec.get("groups"):
        problem = "at least one of user or group must be specified"
        errors.append(api_errors.invalid_value("spec.user", "", problem))
    other_metadata = {key: value for key, value in metadata.items() if key != "namespace"}
    if other_metadata:
        problem = "must be empty except for namespace" if kind.namespaced else "must be empty"
        errors.append(api_errors.invalid_value("metadata", metadata, problem))
    if kind.namespaced:
        namespace = (resource or {}).get("namespace", "")
        if resource is not None and namespace != metadata["namespace"]:
            field, problem = "spec.resourceAttributes.namespace", "must match metadata.namespace"
            errors.append(api_errors.invalid_value(field, namespace, problem))
        if path is not None:
            problem = "disallowed on this kind of request"
            errors.append(api_errors.invalid_value("spec.nonResourceAttributes", path, problem))
    return errors
