"""The service account tokens in the volumes of one pod, bound to the pod and renewed before they expire."""

from windlass.localcluster.apiserver.service_account_tokens import (
    AUDIENCE,
    BoundObject,
    IssuedToken,
    ServiceAccountTokens,
)
from windlass.model.base import Json

_DEFAULT_SECONDS = 3600
# As in the kubelet of Kubernetes, a token is renewed after this part of its lifetime, at the latest after a day.
_RENEWAL_PART = 0.8
_MAX_AGE_SECONDS = 24 * 3600


class PodTokens:
    def __init__(self, tokens: ServiceAccountTokens) -> None:
        self._tokens = tokens
        # Audience and lifetime → token and the time of its renewal, in seconds since the epoch.
        self._issued: dict[tuple[str, int], tuple[IssuedToken, float]] = {}

    @property
    def are_due(self) -> bool:
        """Whether a token has to be renewed."""
        return any(self._is_due(audience, *each) for (audience, _), each in self._issued.items())

    def token(self, pod: Json, source: Json) -> str:
        """Return the token for a `serviceAccountToken` projection. It stays the same until its renewal is due."""
        audience, seconds = source.get("audience") or "", source.get("expirationSeconds") or _DEFAULT_SECONDS
        known = self._issued.get((audience, seconds))
        if known is not None and not self._is_due(audience, *known):
            issued = known[0]
        else:
            meta = pod["metadata"]
            issued = self._tokens.issue(
                meta["namespace"],
                pod["spec"].get("serviceAccountName") or "default",
                audiences=[audience or AUDIENCE],
                seconds=seconds,
                pod=BoundObject(meta["name"], meta["uid"]),
            )
            age = min(seconds * _RENEWAL_PART, _MAX_AGE_SECONDS)
            self._issued[audience, seconds] = issued, issued.expires - seconds + age
        return issued.text

    def _is_due(self, audience: str, issued: IssuedToken, renewal: float) -> bool:
        if self._now() >= renewal:
            return True
        # A token for a missing account becomes invalid when the account is created.
        return not issued.has_account and self._tokens.user_of(issued.text, audience or AUDIENCE) is None

    def _now(self) -> float:
        return self._tokens.now().timestamp()
