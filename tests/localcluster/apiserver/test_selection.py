"""Field selectors. The messages in the tables are those of a kube-apiserver."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors
from windlass.localcluster.apiserver import selection

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
    assert selection.parse_fields(text, POD_FIELDS).matches(POD) is expected


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
def test_missing_field_is_empty(obj: dict[str, Any], expected: bool) -> None:
    assert selection.parse_fields("spec.nodeName=", POD_FIELDS).matches(obj) is expected


@pytest.mark.parametrize(("succeeded", "text"), [({}, "0"), ({"succeeded": 2}, "2")])
def test_job_status_successful_selector(succeeded: dict[str, int], text: str) -> None:
    selector = selection.parse_fields(f"status.successful={text}", ("status.successful",))
    assert selector.matches({"status": succeeded})
    assert not selector.matches({"status": {"succeeded": 1}})


def test_parsed_requirements() -> None:
    requirements = selection.parse_fields(r"status.phase!=A\,B,metadata.name=x", POD_FIELDS).requirements
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
def test_invalid_selector_is_rejected(text: str, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        selection.parse_fields(text, POD_FIELDS)
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
def test_unsupported_field_is_rejected(selectable: tuple[str, ...], is_custom: bool, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as raised:
        selection.parse_fields("foo=bar", selectable, is_custom=is_custom)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


@given(st.text(max_size=10))
def test_escaped_value_round_trips(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    assert selection.parse_fields(f"metadata.name={escaped}", ()).requirements[0].value == value
