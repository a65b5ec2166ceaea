"""Tokens of service accounts: JSON Web Tokens that only this server issues and verifies.

A token contains its account, audiences, expiration and, if it is bound to a pod, the pod. It becomes invalid when it
expires, or when the account or the pod is deleted.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from windlass.k8s.metadata import decode_meta
from windlass.localcluster.apiserver.authorization import users
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.store import Store
from windlass.localcluster.store_types import object_key

AUDIENCE = "https://kubernetes.default.svc"
"""The audience of tokens for this server, and their issuer."""
_HEADER = {"alg": "HS256", "typ": "JWT"}
_PURPOSE = b"windlass service account tokens\0"


class BoundObject(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Private(msgspec.Struct, frozen=True):
    """The claims about objects of the cluster, named as in Kubernetes."""

    namespace: str
    serviceaccount: BoundObject
    pod: BoundObject | None = None


class _Claims(msgspec.Struct, frozen=True, rename={"private": "kubernetes.io"}):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    nbf: int
    sub: str
    private: _Private
    jti: str = ""


class IssuedToken(msgspec.Struct, frozen=True):
    text: str
    expires: int
    """Seconds since the epoch."""
    has_account: bool = True
    """Whether the account existed. If not, the token becomes invalid when the account is created."""


_decode_claims = msgspec.json.Decoder(_Claims).decode


class ServiceAccountTokens:
    def __init__(
        self, key_file: Path, store: Store, *, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        """`key_file` contains a secret of the server. The signing key is derived from it."""
        self._key = hashlib.sha256(_PURPOSE + key_file.read_bytes()).digest()
        self._store = store
        self._clock = clock
        self._new_id = new_id

    def issue(
        self,
        namespace: str,
        account: str,
        *,
        audiences: list[str],
        seconds: int,
        pod: BoundObject | None = None,
    ) -> IssuedToken:
        """Issue a token. The account need not exist: pods may use an account that was never created."""
        now = int(self._clock().timestamp())
        bound = BoundObject(account, self._uid("serviceaccounts", namespace, account))
        claims = _Claims(
            aud=audiences or [AUDIENCE],
            exp=now + seconds,
            iat=now,
            iss=AUDIENCE,
            nbf=now,
            sub=users.account_name(namespace, account),
            private=_Private(namespace, bound, pod),
            jti=self._new_id(),
        )
        signed = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(claims))}"
        return IssuedToken(f"{signed}.{self._signature(signed)}", claims.exp, bool(bound.uid))

    def now(self) -> datetime:
        return self._clock()

    def user_of(self, token: str, audience: str = AUDIENCE) -> User | None:
        """Return the user of a valid token for the audience; None for any other text."""
        signed, _, signature = token.rpartition(".")
        is_genuine = token.isascii() and hmac.compare_digest(self._signature(signed), signature)
        if not is_genuine:
            return None
        claims = _decode_claims(_decode(signed.partition(".")[2]))
        now = self._clock().timestamp()
        if audience not in claims.aud or not claims.nbf <= now < claims.exp:
            return None
        return self._user(claims) if self._is_bound_to_existing(claims.private) else None

    def _is_bound_to_existing(self, private: _Private) -> bool:
        account, pod = private.serviceaccount, private.pod
        # A missing account has an empty UID: its token must not be valid for a later account of that name.
        is_same_account = account.uid == self._uid("serviceaccounts", private.namespace, account.name)
        is_pod_deleted = pod is not None and pod.uid != self._uid("pods", private.namespace, pod.name)
        return is_same_account and not is_pod_deleted

    def _user(self, claims: _Claims) -> User:
        private = claims.private
        prefix = "authentication.kubernetes.io"
        extra: dict[str, list[str]] = {}
        if claims.jti:
            extra[f"{prefix}/credential-id"] = [f"JTI={claims.jti}"]
        if private.pod is not None:
            extra |= {f"{prefix}/pod-name": [private.pod.name], f"{prefix}/pod-uid": [private.pod.uid]}
        groups = (*users.account_groups(private.namespace), users.AUTHENTICATED)
        return User(claims.sub, groups, private.serviceaccount.uid, extra)

    def _uid(self, resource: str, namespace: str, name: str) -> str:
        """Return the UID of an object; "" if it does not exist."""
        body = self._store.get(resource, object_key(namespace, name))
        return "" if body is None else decode_meta(body).metadata.uid

    def _signature(self, signed: str) -> str:
        return _encode(hmac.digest(self._key, signed.encode(), "sha256"))


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
