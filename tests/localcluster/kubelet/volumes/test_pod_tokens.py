"""Tokens in the volumes of a pod are its own, and are renewed before they expire."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from windlass.localcluster.apiserver.service_account_tokens import AUDIENCE, BoundObject, IssuedToken
from windlass.localcluster.kubelet.volumes.pod_tokens import PodTokens
from windlass.model.base import Json

START = datetime(2026, 1, 1, tzinfo=UTC)
POD: Json = {
    "metadata": {"namespace": "train", "name": "worker-0", "uid": "0b1c"},
    "spec": {"serviceAccountName": "robot"},
}


class Issuer:
    def __init__(self) -> None:
        self.time = START
        self.issued: list[tuple[Any, ...]] = []
        self.has_account = True

    def now(self) -> datetime:
        return self.time

    def issue(self, *account: str, audiences: list[str], seconds: int, pod: BoundObject) -> IssuedToken:
        self.issued.append((*account, audiences, seconds, pod))
        return IssuedToken(
            f"token {len(self.issued)}", int(self.time.timestamp()) + seconds, self.has_account
        )

    def user_of(self, _token: str, audience: str) -> str | None:
        """Return the user of a token that was issued while the account was missing."""
        assert audience == AUDIENCE
        return None if self.has_account else "robot"


def test_token_is_bound_to_the_pod_and_its_account() -> None:
    issuer = Issuer()
    tokens = PodTokens(cast("Any", issuer))
    tokens.token(POD, {"path": "token", "expirationSeconds": 3607})
    tokens.token(POD, {"path": "vault", "audience": "vault"})
    pod = BoundObject("worker-0", "0b1c")
    assert issuer.issued == [
        ("train", "robot", [AUDIENCE], 3607, pod),
        ("train", "robot", ["vault"], 3600, pod),
    ]


@pytest.mark.parametrize(("lifetime", "renewal"), [(1000, 800), (10 * 24 * 3600, 24 * 3600)])
def test_token_is_renewed_before_it_expires(lifetime: int, renewal: int) -> None:
    issuer = Issuer()
    tokens, source = PodTokens(cast("Any", issuer)), {"path": "token", "expirationSeconds": lifetime}
    found = []
    for seconds in (0, renewal - 1, renewal):
        issuer.time = START + timedelta(seconds=seconds)
        found.append((tokens.are_due, tokens.token(POD, source)))
    assert found == [(False, "token 1"), (False, "token 1"), (True, "token 2")]


def test_token_for_a_missing_account_is_renewed_when_the_account_is_created() -> None:
    issuer = Issuer()
    issuer.has_account = False
    tokens, source = PodTokens(cast("Any", issuer)), {"path": "token"}
    found = [tokens.token(POD, source), tokens.token(POD, source)]
    issuer.has_account = True
    assert tokens.are_due
    found += [tokens.token(POD, source), tokens.token(POD, source)]
    assert found == ["token 1", "token 1", "token 2", "token 2"]
    assert not tokens.are_due
