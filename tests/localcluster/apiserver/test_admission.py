"""The kind and version of an object are checked before anything else."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import admission
from windlass.localcluster.apiserver.kinds.kind import Kind

THING = cast(
    "Kind", SimpleNamespace(kind="Thing", api_version="x.example/v1", group="x.example", is_custom=True)
)


@pytest.mark.parametrize("metadata", [{"name": "a"}, {}, None, 3.5, "a", [1]])
def test_custom_object_of_other_kind_is_invalid_even_without_metadata(metadata: Any) -> None:
    given = {"kind": "Other", "apiVersion": "x.example/v1", "metadata": metadata}
    with pytest.raises(ApiError) as refused:
        admission.check_identity(THING, given)
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"name": "a"}, "a"), ({}, ""), ({"name": None}, ""), ({"name": 3}, ""), (None, "")],
)
def test_name_of_unvalidated_object_is_a_string_or_empty(metadata: Any, expected: str) -> None:
    assert admission.name_of({"metadata": metadata}) == expected
