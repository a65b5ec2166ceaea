"""Label and field selectors. The messages in the tables are those of a kube-apiserver."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import selectors

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
def test_labels_match(text: str, expected: bool) -> None:
    assert selectors.parse_labels(text).matches(LABELS) is expected


@pytest.mark.parametrize(("text", "expected"), [("", True), (" ", True), ("a", False), ("!a", False)])
def test_a_selector_of_everything(text: str, expected: bool) -> None:
    assert selectors.parse_labels(text).is_everything is expected


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
def test_a_selector_of_labels_that_cannot_be_read(text: str, message: str) -> None:
    assert refusal_of_labels(text) == (400, "BadRequest", message)


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
def test_a_requirement_of_labels_that_cannot_be_read(text: str, message: str) -> None:
    assert refusal_of_labels(text) == (400, "BadRequest", f"unable to parse requirement: {message}")


def refusal_of_labels(text: str) -> tuple[int, str, str]:
    with pytest.raises(api_errors.ApiError) as raised:
        selectors.parse_labels(text)
    return raised.value.code, raised.value.reason, raised.value.message


@given(st.text(alphabet="ab1-/.=!<>(), \tin", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(api_errors.ApiError):
        assert selectors.parse_labels(text).is_everything is (not text.strip())


POD = {
    "metadata": {"name": "a,b=c\\d", "namespace": "default"},
    "spec": {"nodeName": "n1", "hostNetwork": True, "containers": []},
    "status": {"phase": "Running", "succeeded": 2},
    "source": {"component": "kubelet"},
}
POD_FIELDS = (
    "spec.nodeName",
    "spec.hostNetwork",
    "spec.unschedulable",
    "spec.containers",
    "status.phase",
    "source",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        (",", True),
        ("status.phase=Running", True),
        ("status.phase==Running", True),
        ("status.phase!=Running", False),
        ("status.phase=Pending", False),
        ("status.phase!=Pending", True),
        ("status.phase=Running,spec.nodeName=n1", True),
        (",status.phase=Running,,spec.nodeName=n2,", False),
        ("spec.nodeName=", False),
        (r"metadata.name=a\,b\=c\\d", True),
        (r"metadata.name!=a\,b\=c\\d,status.phase=Running", False),
        ("metadata.name=a", False),
        ("metadata.namespace=default", True),
        ("spec.hostNetwork=true", True),
        ("spec.unschedulable=false", True),
        ("spec.containers=", True),
        ("source=kubelet", True),
    ],
)
def test_fields_match(text: str, expected: bool) -> None:
    assert selectors.parse_fields(text, POD_FIELDS).matches(POD) is expected


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({}, True),
        ({"spec": None}, True),
        ({"spec": "odd"}, True),
        ({"spec": {}}, True),
        ({"spec": {"nodeName": ""}}, True),
        ({"spec": {"nodeName": "n1"}}, False),
    ],
)
def test_a_missing_field_is_empty(obj: dict[str, Any], expected: bool) -> None:
    assert selectors.parse_fields("spec.nodeName=", POD_FIELDS).matches(obj) is expected


@pytest.mark.parametrize(("succeeded", "text"), [({}, "0"), ({"succeeded": 2}, "2")])
def test_jobs_by_their_successes(succeeded: dict[str, int], text: str) -> None:
    selector = selectors.parse_fields(f"status.successful={text}", ("status.successful",))
    assert selector.matches({"status": succeeded})
    assert not selector.matches({"status": {"succeeded": 1}})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", None),
        ("metadata.name=a", "a"),
        ("status.phase=Running,metadata.name==a", "a"),
        ("metadata.name!=a", None),
        (r"metadata.name=a\,b", "a,b"),
        ("metadata.namespace=a", None),
    ],
)
def test_the_name_that_is_asked_for(text: str, name: str | None) -> None:
    assert selectors.parse_fields(text, POD_FIELDS).name == name


def test_the_requirements_of_a_field_selector() -> None:
    requirements = selectors.parse_fields(r"status.phase!=A\,B,metadata.name=x", POD_FIELDS).requirements
    assert [(each.field, each.equal, each.value) for each in requirements] == [
        ("metadata.name", True, "x"),
        ("status.phase", False, "A,B"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        ("metadata.name=x,foo", "invalid selector: 'metadata.name=x,foo'; can't understand 'foo'"),
        ("foo=bar", "field label not supported: foo"),
        ("=x", "field label not supported: "),
        (" metadata.name=x", "field label not supported:  metadata.name"),
        ("zoo=x,foo=x", "field label not supported: foo"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_selector_of_fields_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        selectors.parse_fields(text, POD_FIELDS)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("selectable", "is_custom", "message"),
    [
        ((), False, '"foo" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ((), True, "field label not supported: foo"),
        (("status.phase",), False, "field label not supported: foo"),
        (("status.successful",), False, 'field label "foo" not supported for Job'),
    ],
)
def test_an_unknown_field(selectable: tuple[str, ...], is_custom: bool, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        selectors.parse_fields("foo=bar", selectable, is_custom=is_custom)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


@given(st.text(max_size=10))
def test_any_escaped_value_comes_back(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    assert selectors.parse_fields(f"metadata.name={escaped}", ()).name == value
