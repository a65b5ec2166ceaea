"""Paginated lists. All pages show the state at one resourceVersion."""

from typing import Any

import pytest

from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, version
from conformance.transcript import RecordingClient
from conformance.waiting import wait_for

NAMES = [f"n{number}" for number in range(5)]


def after(token: str) -> dict[str, Any]:
    return {"continue": token}


def fill(api: RecordingClient, maps: str) -> None:
    for name in NAMES:
        api.unrecorded.post(maps, config_map(name, labels={"odd": str(int(name[1:]) % 2)})).expect(201)


def test_list_with_limit_returns_pages(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    fill(api, maps)
    first = api.get(maps, limit="2").expect(200)
    assert (first.names, first.body["metadata"]["remainingItemCount"]) == (["n0", "n1"], 3)
    second = api.get(maps, limit="2", **after(first.body["metadata"]["continue"])).expect(200)
    assert (second.names, second.body["metadata"]["remainingItemCount"]) == (["n2", "n3"], 1)
    third = api.get(maps, limit="2", **after(second.body["metadata"]["continue"])).expect(200)
    assert third.names == ["n4"]
    assert not {"continue", "remainingItemCount"} & third.body["metadata"].keys()
    assert first.version == second.version == third.version


def test_pages_show_one_resource_version(api: RecordingClient, namespace: Namespace) -> None:
    """Later writes are not in the pages. A watch from the list's version reports them."""
    maps = namespace.path("configmaps")
    fill(api, maps)
    first = api.get(maps, limit="2").expect(200)
    api.post(maps, config_map("n1b"))
    api.post(maps, config_map("n3b"))
    api.delete(f"{maps}/n2")
    api.patch(f"{maps}/n4", {"data": {"k": "1"}})
    rest = api.get(maps, **after(first.body["metadata"]["continue"])).expect(200)
    assert rest.names == ["n2", "n3", "n4"]
    assert "data" not in rest.body["items"][2]
    assert rest.version == first.version
    with api.watch(maps, resourceVersion=rest.version) as watch:
        told = [(event["type"], event["object"]["metadata"]["name"]) for event in watch.take(4)]
    assert told == [("ADDED", "n1b"), ("ADDED", "n3b"), ("DELETED", "n2"), ("MODIFIED", "n4")]
    assert api.get(maps).names == ["n0", "n1", "n1b", "n3", "n3b", "n4"]


def test_limit_may_change_between_pages(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    fill(api, maps)
    first = api.unrecorded.get(maps, limit="1").expect(200)
    second = api.unrecorded.get(maps, limit="3", **after(first.body["metadata"]["continue"])).expect(200)
    assert (first.names, second.names) == (["n0"], ["n1", "n2", "n3"])
    exact = api.get(maps, limit="5").expect(200)
    assert (exact.names, "continue" in exact.body["metadata"]) == (NAMES, False)
    for limit in ("0", "100"):
        assert api.unrecorded.get(maps, limit=limit).expect(200).names == NAMES


def test_pages_of_selected_objects(api: RecordingClient, namespace: Namespace) -> None:
    """The remaining items of a selection are not counted."""
    maps = namespace.path("configmaps")
    fill(api, maps)
    first = api.get(maps, limit="2", labelSelector="odd=0").expect(200)
    assert (first.names, "remainingItemCount" in first.body["metadata"]) == (["n0", "n2"], False)
    asked: dict[str, Any] = {"labelSelector": "odd=0", "continue": first.body["metadata"]["continue"]}
    assert api.get(maps, limit="2", **asked).expect(200).names == ["n4"]


def test_pages_of_custom_resources(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    for name in NAMES:
        api.unrecorded.post(widgets.path(), widgets.body(name)).expect(201)
    first = api.get(widgets.path(), limit="3").expect(200)
    assert api.get(widgets.path(), **after(first.body["metadata"]["continue"])).names == ["n3", "n4"]


def test_pages_over_namespaces(api: RecordingClient, namespace: Namespace, unique: str) -> None:
    for name in ("a", "b"):
        api.unrecorded.post(namespace.path("configmaps"), config_map(name, labels={"of": unique}))
    asked: dict[str, Any] = {"limit": "1", "labelSelector": f"of={unique}"}
    first = api.unrecorded.get("/api/v1/configmaps", **asked).expect(200)
    token = first.body["metadata"]["continue"]
    second = api.unrecorded.get("/api/v1/configmaps", **asked, **after(token)).expect(200)
    assert first.names + second.names == ["a", "b"]


TOKENS = {
    "not-base64": "%%%",
    "not-json": "aGVsbG8",
    "word": "abc",
}


@pytest.mark.parametrize("text", TOKENS.values(), ids=TOKENS)
def test_invalid_continue_token_is_rejected(api: RecordingClient, namespace: Namespace, text: str) -> None:
    api.get(namespace.path("configmaps"), limit="1", **after(text)).expect(400)


def test_continue_with_resource_version_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    fill(api, maps)
    first = api.get(maps, limit="2").expect(200)
    continued = {"continue": first.body["metadata"]["continue"], "resourceVersion": first.version}
    api.get(maps, limit="2", **continued).expect(400)


def test_invalid_limit_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    assert api.get(namespace.path("configmaps"), limit="many").code in (400, 500)


@pytest.mark.parametrize("match", ["NotOlderThan", "Exact"])
def test_list_with_resource_version_match(api: RecordingClient, namespace: Namespace, match: str) -> None:
    maps = namespace.path("configmaps")
    first = api.unrecorded.post(maps, config_map("a")).version
    second = api.unrecorded.post(maps, config_map("b")).version
    wanted = first if match == "Exact" else second
    found = api.unrecorded.get(maps, resourceVersion=wanted, resourceVersionMatch=match).expect(200)
    assert sorted(found.names) == (["a"] if match == "Exact" else ["a", "b"])
    assert int(found.version) >= int(wanted)


def test_list_at_resource_version_zero_returns_any_version(
    api: RecordingClient, namespace: Namespace
) -> None:
    """Version 0 returns a cached state, which may be slightly old."""
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a")).expect(201)
    wait_for("the list", lambda: api.unrecorded.get(maps, resourceVersion="0").expect(200).names == ["a"])
    wait_for("the object", lambda: api.unrecorded.get(f"{maps}/a", resourceVersion="0").code == 200)
    api.get(maps, resourceVersion="0").expect(200)
    api.get(f"{maps}/a", resourceVersion="0").expect(200)


VERSIONS = {
    "match-without-version": {"resourceVersionMatch": "Exact"},
    "exact-zero": {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    "unknown-match": {"resourceVersion": "1", "resourceVersionMatch": "Roughly"},
}


@pytest.mark.parametrize("params", VERSIONS.values(), ids=VERSIONS)
def test_invalid_resource_version_match_is_rejected(
    api: RecordingClient, namespace: Namespace, params: dict[str, Any]
) -> None:
    assert 400 <= api.get(namespace.path("configmaps"), **params).code < 500
