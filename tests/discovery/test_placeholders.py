"""Placeholders in a pod template (statement 9)."""

from typing import Any

import pytest

from windlass.discovery import placeholders

VALUES = {name: name.removeprefix("FC_").lower() for name in placeholders.NAMES}


def filled(value: Any) -> Any:
    return placeholders.fill(value, placeholders.find(value), VALUES)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{FC_FRAMEWORK_NAMESPACE}}", "framework_namespace"),
        ("{{FC_FRAMEWORK_NAME}}", "framework_name"),
        ("{{FC_TASKROLE_NAME}}", "taskrole_name"),
        ("{{FC_TASK_INDEX}}", "task_index"),
        ("{{FC_CONFIGMAP_NAME}}", "configmap_name"),
        ("{{FC_POD_NAME}}", "pod_name"),
        ("a {{FC_POD_NAME}} and {{FC_TASK_INDEX}}{{FC_TASK_INDEX}}", "a pod_name and task_indextask_index"),
        ("{{FC_POD_NAME}}\n{{FC_POD_NAME}}", "pod_name\npod_name"),
        ("{{FC_FRAMEWORK_ATTEMPT_ID}}", "framework_attempt_id"),
        ("{{{FC_POD_NAME}}}", "{pod_name}"),
        (["x", ["{{FC_POD_NAME}}"]], ["x", ["pod_name"]]),
        ({"a": {"b": ["{{FC_POD_NAME}}", 1]}, "c": None}, {"a": {"b": ["pod_name", 1]}, "c": None}),
        ({"{{FC_POD_NAME}}": "{{FC_POD_NAME}}"}, {"pod_name": "pod_name"}),
        ({"{{FC_POD_NAME}}": 1, "b": "x"}, {"pod_name": 1, "b": "x"}),
        ({"a": {"x/{{FC_TASK_INDEX}}": {"{{FC_POD_NAME}}": []}}}, {"a": {"x/task_index": {"pod_name": []}}}),
        ({"{{FC_POD_NAME}}": "replaced", "pod_name": "own"}, {"pod_name": "replaced"}),
        ({"pod_name": "{{FC_TASK_INDEX}}", "{{FC_POD_NAME}}": "replaced"}, {"pod_name": "replaced"}),
        ({"{{FC_UNKNOWN}}": "x"}, {"{{FC_UNKNOWN}}": "x"}),
    ],
)
def test_placeholders_are_replaced(value: Any, expected: Any) -> None:
    assert filled(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "{{ 7*7 }}",
        "{{FC_UNKNOWN}}",
        "{{FC_FRAMEWORK_UID}}",
        "{{ FC_POD_NAME }}",
        "{{fc_pod_name}}",
        "{FC_POD_NAME}",
        "{{FC_POD_NAME}",
        "$(FC_POD_NAME)",
        "",
        17,
        1.5,
        True,
        None,
        [],
        {},
    ],
)
def test_other_text_is_not_changed(value: Any) -> None:
    assert placeholders.find(value) is None
    assert filled(value) is value


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("job-{{FC_TASK_INDEX/4}}-{{FC_TASK_INDEX%4}}", "job-2-3"),
        ("{{FC_TASK_INDEX+3}}", "14"),
        ("{{FC_TASK_INDEX/4+10}}", "12"),
        ("{{FC_TASK_INDEX%4+0}}", "3"),
        ("{{FC_TASK_INDEX/1}}{{FC_TASK_INDEX%1}}", "110"),
        ("{{FC_TASK_INDEX/0}}", "{{FC_TASK_INDEX/0}}"),
        ("{{FC_TASK_INDEX%0}}", "{{FC_TASK_INDEX%0}}"),
        ("{{FC_TASK_INDEX*2}}", "{{FC_TASK_INDEX*2}}"),
        ("{{FC_TASK_INDEX-1}}", "{{FC_TASK_INDEX-1}}"),
        ("{{FC_TASK_INDEX /4}}", "{{FC_TASK_INDEX /4}}"),
        ("{{FC_POD_NAME+1}}", "{{FC_POD_NAME+1}}"),
    ],
)
def test_index_is_divided_and_added_to(template: str, expected: str) -> None:
    values = {**VALUES, "FC_TASK_INDEX": "11"}
    assert placeholders.fill(template, placeholders.find(template), values) == expected


def test_unchanged_parts_are_shared() -> None:
    value = {"changes": ["{{FC_POD_NAME}}"], "stays": {"a": ["b"]}}
    result = filled(value)
    assert result["stays"] is value["stays"]
    assert value["changes"] == ["{{FC_POD_NAME}}"]


def test_deeply_nested_template_does_not_exhaust_the_stack() -> None:
    value: Any = "{{FC_POD_NAME}}"
    for _ in range(100_000):
        value = [value]
    assert filled(value) is value
