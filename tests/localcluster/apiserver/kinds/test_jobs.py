"""Jobs: generated labels, dependent defaults and immutable fields."""

from collections.abc import Callable
from typing import Any

import pytest

Object = dict[str, Any]
Change = Callable[[Object], object]
LABELS = {
    "batch.kubernetes.io/controller-uid": "uid-0",
    "controller-uid": "uid-0",
    "batch.kubernetes.io/job-name": "j",
    "job-name": "j",
}


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
    metadata = {"name": "j"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template} | spec,
    }


def setting(**fields: Any) -> Change:
    return lambda obj: obj["spec"].update(fields)


def test_job_gets_generated_labels_and_selector(cluster: Any) -> None:
    created = cluster.create(job())
    assert created["spec"]["template"]["metadata"]["labels"] == LABELS
    assert created["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-0"}}
    assert created["metadata"]["labels"] == LABELS
    assert created["status"] == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {},
            {
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        ({"parallelism": 3}, {"completions": None, "parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        (
            {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
            {"backoffLimit": 2147483647},
        ),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
    ],
)
def test_job_defaults(cluster: Any, given: Object, expected: Object) -> None:
    spec = cluster.create(job(**given))["spec"]
    assert {key: spec.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            {"completionMode": "X"},
            'spec.completionMode: Unsupported value: "X": supported values: "Indexed", "NonIndexed"',
        ),
        ({"manualSelector": True}, "spec.selector: Required value"),
    ],
)
def test_validation_errors(cluster: Any, given: Object, error: str) -> None:
    assert error in cluster.create_errors(job(**given))


def test_label_of_other_job_is_rejected(cluster: Any) -> None:
    given = job()
    given["spec"]["template"]["metadata"] = {"labels": {"job-name": "other"}}
    assert [error.partition(": ")[0] for error in cluster.create_errors(given)] == [
        "spec.template.metadata.labels[job-name]"
    ]


@pytest.mark.parametrize(
    ("given", "change", "fields"),
    [
        ({}, setting(parallelism=3), []),
        ({}, setting(completions=3), ["spec.completions"]),
        ({}, lambda obj: obj["spec"]["template"]["spec"].update(hostNetwork=True), ["spec.template"]),
        (
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            setting(completions=4, parallelism=4),
            [],
        ),
        (
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            setting(completions=4),
            ["spec.completions"],
        ),
    ],
)
def test_immutable_fields_are_rejected(
    cluster: Any, given: Object, change: Change, fields: list[str]
) -> None:
    created = cluster.create(job(**given))
    if not fields:
        cluster.update(created, change)
        return
    errors = cluster.update_errors(created, change)
    assert [error.partition(": ")[0] for error in errors] == fields
    assert all(error.endswith("field is immutable") for error in errors)
