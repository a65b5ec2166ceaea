"""The lists of fields of each kind, and conversions of malformed objects."""

from typing import Any

import pytest
import yaml
from tests.convert.test_training_operator import job

from windlass.convert import kinds
from windlass.convert.conversion import Draft, FieldNote, NoteKind
from windlass.convert.fields import Fields, Kind
from windlass.render import documents

FIELDS = Fields(
    ("spec.tasks.*.name", "spec.policy"),
    {"spec.policy.colour": "no colours", "spec.tasks.*.shape": "no shapes"},
    {"spec.policy.danger": "remove it"},
)


def notes(spec: Any) -> list[FieldNote]:
    return list(FIELDS.notes({"spec": spec}))


def test_longest_pattern_decides() -> None:
    assert notes({"policy": {"colour": {"dark": "red"}, "size": 7}}) == [
        FieldNote(NoteKind.NO_EFFECT, ("spec", "policy", "colour"), "no colours")
    ]
    assert [note.kind for note in notes({"policy": {"danger": 1}})] == [NoteKind.REFUSED]


def test_items_of_lists_and_values_of_maps_are_matched() -> None:
    listed = notes({"tasks": [{"name": "a"}, {"shape": "round"}]})
    named = notes({"tasks": {"a": {"shape": "round"}}})

    assert [note.path for note in (*listed, *named)] == ["spec.tasks[1].shape", "spec.tasks.a.shape"]


def test_unknown_field_is_refused_and_null_is_absent() -> None:
    assert [note.path for note in notes({"other": {"a": [1]}, "missing": None})] == ["spec.other.a[0]"]


def test_number_of_mapped_fields_counts_each_field_once() -> None:
    assert (
        FIELDS.count_mapped({"spec": {"policy": {"a": 1, "b": 2}, "tasks": [{"name": "a"}, {"name": "b"}]}})
        == 3
    )


@pytest.mark.parametrize("kind", kinds.kinds(), ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_no_pattern_is_in_two_lists(kind: Kind) -> None:
    lists = (set(kind.fields.mapped), set(kind.fields.no_effect), set(kind.fields.refused))
    assert sum(map(len, lists)) == len(set.union(*lists))


@pytest.mark.parametrize(
    ("original", "expected"),
    [("Worker", "worker"), ("data-prep", "dataprep"), ("dataprep", "dataprep2"), ("-", "role")],
)
def test_role_names_are_unique_and_reversible(original: str, expected: str) -> None:
    draft = Draft({"kind": "Job", "metadata": {"name": "a"}})
    draft.role_name("data-prep")

    assert draft.role_name(original) == expected
    renamed = dict(
        each.split("=") for each in draft.document["annotations"]["windlass.dev/original-roles"].split(",")
    )
    assert renamed["dataprep"] == "data-prep"
    assert renamed.get(expected, original) == original


WRONG: list[Any] = [7, "text", [], [7], {}, {"a": 7}, True, ""]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob"])
def test_wrong_types_are_diagnosed_and_never_raise(kind: str) -> None:
    replicas = "Launcher: 1, Worker: 1" if kind == "MPIJob" else "Worker: 1"
    replicas = "Master: 1, Worker: 1" if kind == "XGBoostJob" else replicas
    body = yaml.safe_load(job(kind, replicas, "runPolicy: {backoffLimit: 1, suspend: false}"))
    checked = 0
    for path in _paths(body):
        for wrong in WRONG:
            changed = _with(body, path, wrong)
            contents = documents.read(yaml.safe_dump(changed).encode(), "f.yaml")
            assert contents.errors or contents.submissions, (path, wrong)
            checked += 1
    assert checked > 100


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [each for key, item in items for each in _paths(item, (*path, key))]
    return ([path] if path and path[0] not in ("apiVersion", "kind") else []) + below


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied
