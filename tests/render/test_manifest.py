"""Namespaces, display names and duplicates of manifests."""

import pytest

from windlass.model.base import Json
from windlass.render import manifest
from windlass.render.manifest import Manifest


def framework(
    name: str = "digits", group: str = "frameworkcontroller.microsoft.com", **metadata: object
) -> Json:
    roles = [{"name": "ps", "taskNumber": 1}, {"name": "worker", "taskNumber": 2}, {"name": "idle"}]
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Framework",
        "metadata": {"name": name, **metadata},
        "spec": {"taskRoles": roles},
    }


NAMESPACES = {
    "written": ({"namespace": "theirs"}, "theirs"),
    "absent": ({}, "ours"),
    "null": ({"namespace": None}, "ours"),
    "empty": ({"namespace": ""}, "ours"),
}


@pytest.mark.parametrize(("metadata", "expected"), NAMESPACES.values(), ids=NAMESPACES)
def test_namespace_is_set_unless_given(metadata: Json, expected: str) -> None:
    written = framework(**metadata)
    placed = Manifest(manifest.with_default_namespace(written, "ours"))
    assert placed.key == (expected, "digits")
    assert written == framework(**metadata), "what was written stays as it is"


def test_display_names_of_tasks() -> None:
    found = Manifest(framework())
    assert found.roles == {"ps": 1, "worker": 2, "idle": 0}
    assert found.display_names == ("ps-0", "worker-0", "worker-1")
    assert Manifest({**framework(), "spec": {"taskRoles": None}}).display_names == ()


DUPLICATES = {
    "other-names": ([("a", {}), ("b", {})], None),
    "other-namespaces": ([("a", {}), ("a", {"namespace": "theirs"})], None),
    "the-same": ([("a", {}), ("b", {}), ("b", {})], "b"),
    "one-says-where": ([("a", {}), ("a", {"namespace": "default"})], "a"),
    "of-both-groups": ([("a", {}), ("a", {"group": "launcher.microsoft.com"})], "a"),
}


@pytest.mark.parametrize(("given", "expected"), DUPLICATES.values(), ids=DUPLICATES)
def test_first_duplicate_has_same_name_and_namespace(
    given: list[tuple[str, Json]], expected: str | None
) -> None:
    placed = [
        Manifest(manifest.with_default_namespace(framework(name, **more), "default")) for name, more in given
    ]
    found = manifest.first_duplicate(placed)
    assert (found.name if found is not None else None) == expected
