"""Label selectors. The messages in the tables are those of a kube-apiserver."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors, label_selectors

LABELS = {"app": "web", "tier": "front", "n": "7", "example.com/role": "a.b_c", "in": "notin", "empty": ""}

BAD_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
BAD_PREFIX = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and"
    " must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BAD_QUALIFIED = (
    f"a valid label key {BAD_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
OPERATORS = "expected: in, notin, =, ==, !=, gt, lt"
START = "expected: !, identifier, or 'end of string'"
NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("  ", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=back", False),
        ("missing=web", False),
        ("missing=", False),
        ("empty=", True),
        ("empty", True),
        ("app=", False),
        ("app!=web", False),
        ("app!=back", True),
        ("missing!=web", True),
        ("app", True),
        ("missing", False),
        ("!app", False),
        ("!missing", True),
        ("! missing", True),
        ("app in (web,back)", True),
        ("app in(web)", True),
        ("app in (back)", False),
        ("missing in (web)", False),
        ("app notin (web,back)", False),
        ("app notin (back)", True),
        ("missing notin (web)", True),
        ("empty in ()", True),
        ("empty in (a,)", True),
        ("empty in (,a)", True),
        ("empty in (a,,b)", True),
        ("empty in (a,b)", False),
        ("app notin ()", True),
        ("n>6", True),
        ("n > 7", False),
        ("n<8", True),
        ("n<7", False),
        ("missing>1", False),
        ("missing<1", False),
        ("app>1", False),
        ("app=web,tier=front", True),
        ("app=web , tier = back", False),
        ("app=web,\n\ttier in (front, back),!missing,n>1", True),
        ("example.com/role=a.b_c", True),
        ("in in (in,notin)", True),
        ("in=notin", True),
        ("in", True),
    ],
)
def test_selector_matches_labels(text: str, expected: bool) -> None:
    assert label_selectors.parse(text).matches(LABELS) is expected


@pytest.mark.parametrize(("text", "expected"), [("", True), (" ", True), ("a", False), ("!a", False)])
def test_only_empty_selector_matches_everything(text: str, expected: bool) -> None:
    assert label_selectors.parse(text).matches_everything is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=a", f"found '=', {START}"),
        (",", f"found ',', {START}"),
        ("(a)", f"found '(', {START}"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a in (b),", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ],
)
def test_invalid_selector_is_rejected(text: str, message: str) -> None:
    assert rejection_of(text) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", f"found 'b', {OPERATORS}"),
        ("a!b", f"found '!', {OPERATORS}"),
        ("a(b)", f"found '(', {OPERATORS}"),
        ("!", "found '', expected: identifier"),
        ("!!a", "found '!', expected: identifier"),
        ("a => b", "found '>', expected: identifier"),
        ("a>=5", "found '=', expected: identifier"),
        ("a===", "found '=', expected: identifier"),
        ("a in ", "found '' expected: '('"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("a in (=)", "found '=', expected: ',', ')' or identifier"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a in (b c)", "found 'c', expected: ',' or ')'"),
        ("a in (a,=)", "found '=', expected: ',', or identifier"),
        ("a in (a,", "found '', expected: ',', or identifier"),
        ("a in (,(b)", "found '(', expected: ',', or identifier"),
        ("a<x", f'values[0]: Invalid value: "x": {NO_INTEGER}'),
        ("a>", f'values[0]: Invalid value: "": {NO_INTEGER}'),
        ("a>5.5", f'values[0]: Invalid value: "5.5": {NO_INTEGER}'),
        ("a>9223372036854775808", f'values[0]: Invalid value: "9223372036854775808": {NO_INTEGER}'),
        ("a> -5", f'values[0][a]: Invalid value: "-5": {BAD_VALUE}'),
        ("a=-x", f'values[0][a]: Invalid value: "-x": {BAD_VALUE}'),
        ("a=é", f'values[0][a]: Invalid value: "é": {BAD_VALUE}'),
        ("a in (b,-c,-d)", f'values[0][a]: Invalid value: "-c": {BAD_VALUE}'),
        (
            f"a={'x' * 64}",
            f'values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
        ("-a", f'<nil>: Invalid value: "-a": name part {BAD_NAME}'),
        ("a~b", f'<nil>: Invalid value: "a~b": name part {BAD_NAME}'),
        ("é", f'<nil>: Invalid value: "é": name part {BAD_NAME}'),
        ("/a", '<nil>: Invalid value: "/a": prefix part must be non-empty'),
        ("a/", f'<nil>: Invalid value: "a/": name part must be non-empty; name part {BAD_NAME}'),
        ("A.B/c", f'<nil>: Invalid value: "A.B/c": {BAD_PREFIX}'),
        ("a/b/c", f'<nil>: Invalid value: "a/b/c": {BAD_QUALIFIED}'),
        ("x" * 64, f'<nil>: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes'),
        (
            f"{'x' * 254}/a",
            f'<nil>: Invalid value: "{"x" * 254}/a": prefix part must be no more than 253 bytes',
        ),
    ],
)
def test_invalid_requirement_is_rejected(text: str, message: str) -> None:
    assert rejection_of(text) == (400, "BadRequest", f"unable to parse requirement: {message}")


def rejection_of(text: str) -> tuple[int, str, str]:
    with pytest.raises(api_errors.ApiError) as raised:
        label_selectors.parse(text)
    return raised.value.code, raised.value.reason, raised.value.message


@given(st.text(alphabet="ab1-/.=!<>(), \tin", max_size=12))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(api_errors.ApiError):
        assert label_selectors.parse(text).matches_everything is (not text.strip())


@pytest.mark.parametrize(
    ("selector", "text", "expected"),
    [
        ({}, "", True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, "app=web,tier=front", True),
        ({"matchLabels": {"app": "db"}}, "app=db", False),
        (
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
            "app in (db,web)",
            True,
        ),
        (
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
            "app notin (web)",
            False,
        ),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}, "x notin (web)", True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "app", True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "!app", False),
        (
            {
                "matchLabels": {"tier": "front"},
                "matchExpressions": [
                    {"key": "app", "operator": "Exists"},
                    {"key": "zone", "operator": "DoesNotExist"},
                ],
            },
            "app,tier=front,!zone",
            True,
        ),
    ],
)
def test_selector_object(selector: dict[str, Any], text: str, expected: bool) -> None:
    assert label_selectors.from_object(selector).matches(LABELS) is expected
    assert label_selectors.format_object(selector) == text


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("Gt", ["6"], True),
        ("Gt", ["7"], False),
        ("Lt", ["8"], True),
        ("Lt", ["7"], False),
        ("Gt", ["x"], False),
        ("Gt", [], False),
        ("Lt", ["9223372036854775808"], False),
    ],
)
def test_number_requirement(operator: str, values: list[str], expected: bool) -> None:
    requirement = label_selectors.requirement_of({"key": "n", "operator": operator, "values": values})
    assert requirement.matches(LABELS) is expected
