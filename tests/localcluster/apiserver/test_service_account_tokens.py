"""Tokens of service accounts become invalid when they expire, or when their account or pod is deleted."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windlass.localcluster.apiserver.service_account_tokens import BoundObject, ServiceAccountTokens
from windlass.localcluster.store import HISTORY_LENGTH, Store

START = datetime(2026, 1, 1, tzinfo=UTC)


class Tokens:
    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "cluster.db", HISTORY_LENGTH, schedule=lambda function: function())
        self.now = START
        (folder / "key").write_bytes(b"secret")
        ids = map(str, itertools.count())
        self.authority = ServiceAccountTokens(
            folder / "key", self.store, clock=lambda: self.now, new_id=lambda: next(ids)
        )

    def create(self, resource: str, name: str, uid: str) -> None:
        self.store.create(
            resource, f"train/{name}", {"metadata": {"namespace": "train", "name": name, "uid": uid}}
        )

    def issue(self, pod: BoundObject | None = None, audience: str = "") -> str:
        audiences = [audience] if audience else []
        return self.authority.issue("train", "robot", audiences=audiences, seconds=3600, pod=pod).text


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    made = Tokens(tmp_path)
    yield made
    made.store.close()


def test_token_identifies_the_account_and_its_groups(tokens: Tokens) -> None:
    user = tokens.authority.user_of(tokens.issue())
    assert user is not None
    assert user.name == "system:serviceaccount:train:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:train", "system:authenticated")
    assert not user.is_administrator


def test_tokens_of_the_same_second_differ(tokens: Tokens) -> None:
    first, second = tokens.issue(), tokens.issue()
    assert first != second
    user = tokens.authority.user_of(second)
    assert user is not None
    assert user.extra == {"authentication.kubernetes.io/credential-id": ["JTI=1"]}


def test_token_expires(tokens: Tokens) -> None:
    token = tokens.issue()
    tokens.now = START + timedelta(seconds=3599)
    assert tokens.authority.user_of(token) is not None
    tokens.now = START + timedelta(seconds=3600)
    assert tokens.authority.user_of(token) is None


def test_token_is_invalid_after_the_deletion_of_its_pod(tokens: Tokens) -> None:
    tokens.create("pods", "worker-0", "first")
    token = tokens.issue(BoundObject("worker-0", "first"))
    user = tokens.authority.user_of(token)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/pod-name"] == ["worker-0"]
    version = tokens.store.version
    tokens.store.delete("pods", "train/worker-0", version)
    assert tokens.authority.user_of(token) is None
    # A new pod of the same name is another pod.
    tokens.create("pods", "worker-0", "second")
    assert tokens.authority.user_of(token) is None


def test_token_is_invalid_after_the_deletion_of_its_account(tokens: Tokens) -> None:
    tokens.create("serviceaccounts", "robot", "first")
    token = tokens.issue()
    assert tokens.authority.user_of(token) is not None
    tokens.store.delete("serviceaccounts", "train/robot", tokens.store.version)
    assert tokens.authority.user_of(token) is None


def test_token_for_a_missing_account_is_invalid_after_the_account_is_created(tokens: Tokens) -> None:
    token = tokens.issue()
    assert tokens.authority.user_of(token) is not None
    tokens.create("serviceaccounts", "robot", "first")
    assert tokens.authority.user_of(token) is None


def test_token_is_valid_for_its_audience_only(tokens: Tokens) -> None:
    token = tokens.issue(audience="vault")
    assert tokens.authority.user_of(token) is None
    assert tokens.authority.user_of(token, "vault") is not None


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.b.c", "..", "é.b.c", "a" * 10000])
def test_text_that_is_not_a_token_is_rejected(tokens: Tokens, text: str) -> None:
    assert tokens.authority.user_of(text) is None


def test_token_of_another_server_is_rejected(tokens: Tokens, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"other secret")
    other = ServiceAccountTokens(tmp_path / "other", tokens.store, clock=lambda: START, new_id=str)
    assert tokens.authority.user_of(other.issue("train", "robot", audiences=[], seconds=3600).text) is None
