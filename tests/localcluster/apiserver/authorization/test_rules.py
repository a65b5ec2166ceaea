"""Attributes of requests, and which rules allow them or cover other rules."""

import pytest

from windlass.localcluster.apiserver import request_info
from windlass.localcluster.apiserver.authorization import rules
from windlass.localcluster.apiserver.authorization.rules import Attributes, Rule

PODS = "/api/v1/namespaces/train/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", PODS, {}, Attributes("list", "", "pods", "", "train")),
        ("GET", PODS, {"watch": "1"}, Attributes("watch", "", "pods", "", "train")),
        ("DELETE", PODS, {}, Attributes("deletecollection", "", "pods", "", "train")),
        ("POST", PODS, {}, Attributes("create", "", "pods", "", "train")),
        ("GET", f"{PODS}/a", {}, Attributes("get", "", "pods", "", "train", "a")),
        # The parameter has no meaning for a single object.
        ("GET", f"{PODS}/a", {"watch": "1"}, Attributes("get", "", "pods", "", "train", "a")),
        ("POST", f"{PODS}/a/exec", {}, Attributes("create", "", "pods", "exec", "train", "a")),
        ("GET", PODS, {"fieldSelector": "metadata.name=a"}, Attributes("list", "", "pods", "", "train", "a")),
        (
            "GET",
            PODS,
            {"fieldSelector": "spec.nodeName=n,metadata.name==a"},
            Attributes("list", "", "pods", "", "train", "a"),
        ),
        ("GET", PODS, {"fieldSelector": "metadata.name!=a"}, Attributes("list", "", "pods", "", "train")),
        (
            "GET",
            PODS,
            {"fieldSelector": "metadata.name=a,metadata.name=b"},
            Attributes("list", "", "pods", "", "train"),
        ),
        ("GET", "/api/v1/namespaces/train", {}, Attributes("get", "", "namespaces", "", "train", "train")),
        ("GET", "/api/v1/namespaces", {}, Attributes("list", "", "namespaces")),
        (
            "PATCH",
            "/apis/batch/v1/namespaces/train/jobs/a/status",
            {},
            Attributes("patch", "batch", "jobs", "status", "train", "a"),
        ),
        ("GET", "/version", {}, Attributes("get", path="/version")),
        ("HEAD", "/version", {}, Attributes("head", path="/version")),
    ],
)
def test_attributes_of_a_request(method: str, path: str, query: dict[str, str], expected: Attributes) -> None:
    assert rules.attributes_of(method, path, request_info.parse(path), query) == expected


@pytest.mark.parametrize(
    ("url", "path", "is_allowed"),
    [
        ("/version", "/version", True),
        ("/version", "/version/", False),
        ("/apis/*", "/apis/apps/v1", True),
        ("/apis/*", "/apis", False),
        ("*", "/anything", True),
    ],
)
def test_rule_for_paths(url: str, path: str, is_allowed: bool) -> None:
    assert Rule(("get",), urls=(url,)).allows(Attributes("get", path=path)) is is_allowed


def test_rule_for_resources_does_not_allow_paths() -> None:
    assert not Rule(("*",), ("*",), ("*",)).allows(Attributes("get", path="/metrics"))


HELD = (
    Rule(("get", "list"), ("",), ("configmaps",)),
    Rule(("get",), ("",), ("secrets",), ("own",)),
    Rule(("get",), ("*",), ("*/status",)),
    Rule(("get",), urls=("/healthz/*",)),
)


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        (Rule(("get", "list"), ("",), ("configmaps",)), []),
        (Rule(("get",), ("",), ("configmaps",), ("a",)), []),
        (Rule(("get",), ("",), ("secrets",), ("own",)), []),
        (Rule(("get",), ("",), ("pods/status",)), []),
        (Rule(("get",), urls=("/healthz/etcd",)), []),
        (Rule((), ("",), ("secrets",)), []),
        # Permission for one name is not permission for all.
        (Rule(("get",), ("",), ("secrets",)), [Rule(("get",), ("",), ("secrets",))]),
        (
            Rule(("get",), ("",), ("secrets",), ("own", "other")),
            [Rule(("get",), ("",), ("secrets",), ("other",))],
        ),
        (Rule(("*",), ("",), ("configmaps",)), [Rule(("*",), ("",), ("configmaps",))]),
        (
            Rule(("get", "create", "delete"), ("",), ("configmaps",)),
            [Rule(("create", "delete"), ("",), ("configmaps",))],
        ),
        (Rule(("get",), urls=("*",)), [Rule(("get",), urls=("*",))]),
    ],
)
def test_uncovered_rules(granted: Rule, missing: list[Rule]) -> None:
    assert rules.uncovered(HELD, [granted]) == missing


def product(count: int) -> Rule:
    values = tuple(f"v{number}" for number in range(count))
    return Rule(values, values, values, values)


def test_rule_with_too_many_parts_is_not_divided() -> None:
    with pytest.raises(rules.TooManyPartsError):
        rules.uncovered([], [product(11)])
    assert len(rules.uncovered([], [product(9)])) == 9**3


def test_rules_with_too_many_values_are_not_compared() -> None:
    many = Rule(("get",) * (rules.MAX_PARTS + 1), ("",), ("pods",))
    with pytest.raises(rules.TooManyPartsError):
        rules.uncovered([Rule(("*",), ("*",), ("*",))], [many])


def test_large_rule_that_one_held_rule_covers_is_not_divided() -> None:
    assert rules.uncovered([Rule(("*",), ("*",), ("*",))], [product(100)]) == []


def test_parts_are_limited_by_the_number_of_held_rules() -> None:
    held = [product(1)] * 2_000
    with pytest.raises(rules.TooManyPartsError):
        rules.uncovered(held, [product(7)])
    assert rules.uncovered(held[:10], [product(7)])
