"""Authentication of requests by bearer token, and impersonation of other users."""

import hmac

from aiohttp import web

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.authorization import users
from windlass.localcluster.apiserver.authorization.authorizer import Authorizer
from windlass.localcluster.apiserver.authorization.rules import Attributes
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.service_account_tokens import ServiceAccountTokens

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_PREFIX = "impersonate-"


class Authenticator:
    def __init__(self, token: str, account_tokens: ServiceAccountTokens, authorizer: Authorizer) -> None:
        """`token` is the administrator's token."""
        self._token = token.encode()
        self._account_tokens = account_tokens
        self._authorizer = authorizer

    def user_of(self, request: web.BaseRequest) -> User:
        """Return the owner of the token. Raises ApiError with code 401 for a missing or invalid token."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer":
            raise api_errors.unauthorized()
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return users.ADMINISTRATOR
        user = self._account_tokens.user_of(token)
        if user is None:
            raise api_errors.unauthorized()
        return user

    def impersonated(self, user: User, request: web.BaseRequest) -> User:
        """Return the user that the request impersonates; `user` without impersonation. Raises ApiError.

        Requires the verb `impersonate` on the user or service account, and on each group.
        """
        used = {name.lower() for name in request.headers if name.lower().startswith(_PREFIX)}
        if not used:
            return user
        unsupported = used - {_USER, _GROUP}
        if unsupported:
            raise api_errors.bad_request(f"the header {min(unsupported)} is not supported")
        name, groups = request.headers.get(_USER, ""), tuple(request.headers.getall(_GROUP, []))
        if not name:
            raise api_errors.bad_request(f"the header {_GROUP} requires {_USER}")
        account = users.account_of(name)
        target = ("users", "", name) if account is None else ("serviceaccounts", *account)
        for resource, namespace, each in (target, *(("groups", "", group) for group in groups)):
            attributes = Attributes("impersonate", resource=resource, namespace=namespace, name=each)
            self._authorizer.check(user, attributes)
        if account is not None and not groups:
            groups = users.account_groups(account[0])
        return User(name, tuple(dict.fromkeys((*groups, users.AUTHENTICATED))))
