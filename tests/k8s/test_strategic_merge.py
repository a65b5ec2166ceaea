"""Strategic merge patches. The answers in the tables are those of a kube-apiserver."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.k8s import api_errors, json_patch, strategic_merge
from windlass.localcluster.apiserver.openapi import schemas

TRANSCRIPTS = Path(__file__).parents[1] / "cluster" / "transcripts"
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "labels": {"a": "1", "b": "2"},
        "finalizers": ["x/a", "x/b"],
        "ownerReferences": [OWNER],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "args": ["x", "y"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "http"}],
            },
            {"name": "side", "image": "s"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/w"}}],
        "securityContext": {"runAsUser": 1, "sysctls": [{"name": "s", "value": "1"}]},
        "tolerations": [{"key": "k"}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
MAIN, SIDE = POD["spec"]["containers"]


def field_after_patch(path: str, patch: Any) -> Any:
    """Return the value at a dotted path of the pod after a patch of its parent."""
    whole: Any = patch
    for key in reversed(path.split(".")[:-1]):
        whole = {key: whole}
    result: Any = strategic_merge.strategic_merge_patch(POD, whole, "V1Pod")
    for key in path.split("."):
        result = result.get(key)
    return result


@pytest.mark.parametrize(
    ("path", "patch", "expected"),
    [
        ("metadata.labels", {"labels": {"b": "3", "c": "4"}}, {"a": "1", "b": "3", "c": "4"}),
        ("metadata.labels", {"labels": {"a": None, "z": None}}, {"b": "2"}),
        ("metadata.labels", {"labels": None}, None),
        ("metadata.annotations", {"annotations": {"a": "1", "b": None}}, {"a": "1"}),
        ("metadata.finalizers", {"finalizers": ["x/c"]}, ["x/c", "x/a", "x/b"]),
        ("metadata.finalizers", {"finalizers": ["x/b", "x/c"]}, ["x/a", "x/b", "x/c"]),
        ("metadata.finalizers", {"finalizers": []}, ["x/a", "x/b"]),
        ("metadata.finalizers", {"finalizers": None}, None),
        (
            "status.conditions",
            {"conditions": [{"type": "Ready", "status": "False"}]},
            [{"type": "Ready", "status": "False"}],
        ),
        ("status.phase", {"phase": "Failed"}, "Failed"),
        ("spec.tolerations", {"tolerations": [{"key": "l"}]}, [{"key": "l"}]),
        ("spec.tolerations", {"tolerations": []}, []),
        ("spec.nodeSelector", {"nodeSelector": {"a": "b"}}, {"a": "b"}),
        (
            "spec.securityContext",
            {"securityContext": {"sysctls": [{"name": "t"}]}},
            {"runAsUser": 1, "sysctls": [{"name": "t"}]},
        ),
        (
            "spec.containers",
            {"containers": [{"name": "side", "image": "t"}]},
            [MAIN, {"name": "side", "image": "t"}],
        ),
        (
            "spec.containers",
            {"containers": [{"name": "new", "image": "n"}]},
            [{"name": "new", "image": "n"}, MAIN, SIDE],
        ),
        (
            "spec.containers",
            {"containers": [{"name": "main", "args": ["z"]}]},
            [MAIN | {"args": ["z"]}, SIDE],
        ),
        (
            "spec.containers",
            {"containers": [{"name": "main", "args": None}]},
            [{k: v for k, v in MAIN.items() if k != "args"}, SIDE],
        ),
        (
            "spec.containers",
            {"containers": [{"name": "main", "env": [{"name": "B", "value": "3"}]}]},
            [MAIN | {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]}, SIDE],
        ),
        (
            "spec.containers",
            {"containers": [{"name": "main", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]},
            [MAIN | {"ports": [{"containerPort": 80, "name": "http", "protocol": "UDP"}]}, SIDE],
        ),
        ("spec.initContainers", {"initContainers": [{"name": "i", "env": None}]}, [{"name": "i"}]),
    ],
)
def test_field_is_merged(path: str, patch: Any, expected: Any) -> None:
    assert field_after_patch(path, patch) == expected


@pytest.mark.parametrize(
    ("path", "patch", "expected"),
    [
        # $patch in a map
        ("metadata.labels", {"labels": {"$patch": "replace", "c": "4", "d": None}}, {"c": "4"}),
        ("metadata.labels", {"labels": {"$patch": "delete", "c": "4"}}, {}),
        (
            "spec.securityContext",
            {"securityContext": {"$patch": "replace", "runAsGroup": 2}},
            {"runAsGroup": 2},
        ),
        # $patch in a list
        ("spec.containers", {"containers": [{"$patch": "delete", "name": "main"}]}, [SIDE]),
        ("spec.containers", {"containers": [{"$patch": "delete", "name": "none"}]}, [MAIN, SIDE]),
        ("spec.containers", {"containers": [{"name": "new"}, {"$patch": "replace"}]}, [{"name": "new"}]),
        (
            "spec.containers",
            {"containers": [{"name": "side", "env": [{"name": "A", "$patch": "delete"}]}]},
            [MAIN, SIDE | {"env": []}],
        ),
        ("metadata.ownerReferences", {"ownerReferences": [{"$patch": "delete", "uid": "u"}]}, []),
        # absent fields
        (
            "spec.initContainers",
            {"initContainers": [{"$patch": "delete", "name": "a"}, {"name": "b"}]},
            [{"name": "b"}],
        ),
        ("spec.affinity", {"affinity": {"$patch": "delete"}}, None),
        (
            "spec.affinity",
            {"affinity": {"podAffinity": {"$patch": "delete"}, "nodeAffinity": {}}},
            {"nodeAffinity": {}},
        ),
        ("spec.affinity", {"affinity": {"$patch": "replace", "nodeAffinity": {}}}, {"nodeAffinity": {}}),
        (
            "spec.hostAliases",
            {"hostAliases": [{"ip": "1", "$retainKeys": ["ip"], "$setElementOrder/hostnames": []}]},
            [{"ip": "1"}],
        ),
        # $deleteFromPrimitiveList
        ("metadata.finalizers", {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/z"]}, ["x/b"]),
        ("metadata.finalizers", {"$deleteFromPrimitiveList/finalizers": []}, ["x/a", "x/b"]),
        ("metadata.annotations", {"$deleteFromPrimitiveList/annotations": ["x/a"]}, None),
        # $setElementOrder
        ("metadata.finalizers", {"$setElementOrder/finalizers": ["x/b", "x/a"]}, ["x/b", "x/a"]),
        ("metadata.finalizers", {"$setElementOrder/finalizers": ["x/b"]}, ["x/a", "x/b"]),
        (
            "metadata.finalizers",
            {"$setElementOrder/finalizers": ["x/c", "x/b"], "finalizers": ["x/c"]},
            ["x/c", "x/a", "x/b"],
        ),
        (
            "spec.containers",
            {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
            [SIDE, MAIN],
        ),
        (
            "spec.containers",
            {
                "$setElementOrder/containers": [{"name": "side"}, {"name": "new"}],
                "containers": [
                    {"name": "side", "image": "t"},
                    {"name": "new"},
                    {"name": "main", "$patch": "delete"},
                ],
            },
            [{"name": "side", "image": "t"}, {"name": "new"}],
        ),
        ("spec.initContainers", {"$setElementOrder/initContainers": [{"name": "a"}]}, None),
        (
            "spec.initContainers",
            {
                "$setElementOrder/initContainers": [{"name": "a"}, {"name": "b"}],
                "initContainers": [{"name": "b"}],
            },
            [{"name": "b"}],
        ),
        # $retainKeys
        (
            "spec.volumes",
            {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]},
            [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "hostPath": {"path": "/w"}}],
        ),
        ("metadata.labels", {"labels": {"$retainKeys": ["a"], "a": "9", "b": None}}, {"a": "9"}),
    ],
)
def test_directive_is_applied(path: str, patch: Any, expected: Any) -> None:
    assert field_after_patch(path, patch) == expected


UNSORTED = "The order in patch list:\n[x/c]\n doesn't match $setElementOrder list:\n[x/a]\n"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"$patch": "bogus"}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        (
            {"labels": {"$patch": "merge", "a": "b"}},
            "unknown patch type: merge in map: map[$patch:merge a:b]",
        ),
        (
            {"labels": {"$patch": 5, "c": None, "d": {"e": [1, True, "x"]}}},
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 c:<nil> d:map[e:[1 true x]]]",
        ),
        ({"annotations": {"$patch": "bogus"}}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        (
            {"ownerReferences": [{"$patch": "bogus", "uid": "u"}]},
            "unknown patch type: bogus in map: map[$patch:bogus uid:u]",
        ),
        (
            {"ownerReferences": [{"$patch": "merge", "uid": "u"}]},
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"ownerReferences": [{"$patch": "delete", "name": "n"}]},
            "map: map[$patch:delete name:n] does not contain declared merge key: uid",
        ),
        ({"ownerReferences": [{"name": "n"}]}, "map: map[name:n] does not contain declared merge key: uid"),
        (
            {"ownerReferences": ["x"]},
            "list element types are not identical: [[map[apiVersion:v1 kind:Node name:n uid:u]] [x]]",
        ),
        ({"ownerReferences": [{"uid": {}}]}, "cannot merge lists without merge key for struct"),
        ({"finalizers": [1]}, "list element types are not identical: [[x/a x/b] [1]]"),
        (
            {"labels": {"a": {"b": "c"}}, "finalizers": [["x"]]},
            "list element types are not identical: [[x/a x/b] [[x]]]",
        ),
        ({"$setElementOrder/finalizers": ["x/a"], "finalizers": ["x/c"]}, UNSORTED),
        ({"$setElementOrder/finalizers": 5}, "expected a []interface {}, but received a int64"),
        ({"$setElementOrder/finalizers": None}, "expected a []interface {}, but received a %!s(<nil>)"),
        (
            {"$setElementOrder/labels": []},
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        ({"$setElementOrder/annotations": []}, "expected slice or array type, but got: struct"),
        (
            {"$setElementOrder/nope": []},
            'unable to find api field in struct ObjectMeta for the json field "nope"',
        ),
        (
            {"$setElementOrder/ownerReferences": [{"name": "x"}]},
            "map: map[name:x] does not contain declared merge key: uid",
        ),
        (
            {"$setElementOrder/ownerReferences": ["x"], "ownerReferences": [{"uid": "x"}]},
            "expected a map[string]interface {}, but received a string",
        ),
    ],
)
def test_invalid_metadata_patch_is_rejected_without_a_reason(patch: Any, message: str) -> None:
    assert rejection({"metadata": patch}) == (500, "", message)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"$setElementOrder": ["x"]}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": ["x"]}, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveList/ownerReferences": ["x"]}, "invalid patch format of primitive list"),
        ({"$retainKeys": "x"}, "invalid patch format of retainKeys"),
        ({"$retainKeys": [["x"]]}, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["x"], "labels": {"a": "b"}}, "invalid patch format of retainKeys"),
    ],
)
def test_metadata_patch_of_a_wrong_type_is_rejected(patch: Any, message: str) -> None:
    assert rejection({"metadata": patch}) == (400, "BadRequest", message)


@pytest.mark.parametrize(("patch", "kind"), [([], "array"), ("x", "string"), (3, "number"), (True, "bool")])
def test_patch_of_a_wrong_type_is_rejected(patch: Any, kind: str) -> None:
    message = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    assert rejection(patch) == (400, "BadRequest", message)


def test_lists_of_lists_cannot_be_merged() -> None:
    code, reason, message = rejection({"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": []}})
    assert (code, reason) == (422, "Invalid")
    assert message == "the server rejected our request due to an error in our request"


def test_maps_in_maps_cannot_be_merged() -> None:
    """Schemas of a CustomResourceDefinition contain such maps, so kubectl uses another patch type for them."""
    schema = {"properties": {"spec": {"type": "object"}}}
    with pytest.raises(api_errors.ApiError) as raised:
        strategic_merge.strategic_merge_patch(schema, schema, "V1JSONSchemaProps")
    assert raised.value.message == "merging an object in json but data type is not struct, instead is: map"


def test_null_patch_changes_nothing() -> None:
    assert strategic_merge.strategic_merge_patch(POD, None, "V1Pod") == POD


def rejection(patch: Any, obj: dict[str, Any] = POD) -> tuple[int, str, str]:
    with pytest.raises(api_errors.ApiError) as raised:
        strategic_merge.strategic_merge_patch(obj, patch, "V1Pod")
    return raised.value.code, raised.value.reason, raised.value.message


def test_merge_rules_match_a_real_api_server() -> None:
    """The conformance tests record them: tests/cluster/test_discovery.py, `test_openapi_has_merge_extensions`."""
    (recorded,) = json.loads(
        (TRANSCRIPTS / "discovery" / "openapi_has_merge_extensions.json").read_text(encoding="utf-8")
    )
    found = {
        schemas.definition_name(type_name): {
            field: [rule.strategy, *([rule.key] if rule.key else [])] for field, rule in fields.items()
        }
        for type_name, fields in strategic_merge.RULES.items()
    }
    assert found == recorded["value"]


NAMES = st.sampled_from("abcd")
ENVS = st.lists(
    st.builds(lambda name, value: {"name": name, "value": value}, NAMES, st.text("xy", max_size=2)),
    max_size=4,
    unique_by=lambda env: env["name"],
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES}, optional={"image": st.text("xy"), "env": ENVS, "args": st.lists(NAMES)}
    ),
    max_size=4,
    unique_by=lambda container: container["name"],
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "finalizers": st.lists(NAMES, unique=True),
                "labels": st.dictionaries(NAMES, st.text("xy")),
            },
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": CONTAINERS, "tolerations": st.lists(st.just({}))}
        ),
    },
)


FIELDS = [
    *(
        "metadata",
        "spec",
        "finalizers",
        "ownerReferences",
        "labels",
        "containers",
        "env",
        "volumes",
        "args",
        "name",
        "uid",
    ),
    *(
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$setElementOrder",
    ),
    *(
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/args",
        "$deleteFromPrimitiveList/containers",
    ),
]
ODDITIES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from(["a", "b", "delete", "replace", "merge", "name"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=15,
)


@given(ODDITIES, ODDITIES, ODDITIES)
def test_any_patch_is_applied_or_rejected(first: Any, second: Any, patch: Any) -> None:
    with contextlib.suppress(api_errors.ApiError):
        once = strategic_merge.strategic_merge_patch({}, {"metadata": first, "spec": second}, "V1Pod")
        strategic_merge.strategic_merge_patch(once, {"metadata": patch, "spec": patch}, "V1Pod")


@given(PODS)
def test_empty_patch_changes_nothing(pod: dict[str, Any]) -> None:
    assert strategic_merge.strategic_merge_patch(pod, {}, "V1Pod") == pod


@given(PODS)
def test_object_merged_with_itself_is_unchanged(pod: dict[str, Any]) -> None:
    assert strategic_merge.strategic_merge_patch(pod, pod, "V1Pod") == pod


@given(PODS, PODS)
def test_patch_keeps_its_arguments_and_is_deterministic(pod: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((pod, patch))
    once = strategic_merge.strategic_merge_patch(pod, patch, "V1Pod")
    assert strategic_merge.strategic_merge_patch(once, patch, "V1Pod") == once
    assert (pod, patch) == before


@given(CONTAINERS, CONTAINERS)
def test_items_of_a_patch_keep_their_order(old: list[Any], new: list[Any]) -> None:
    pod = {"spec": {"containers": old}}
    result = strategic_merge.strategic_merge_patch(pod, {"spec": {"containers": new}}, "V1Pod")
    names = [container["name"] for container in result["spec"]["containers"]]
    changed = [container["name"] for container in new]
    untouched = [container["name"] for container in old if container["name"] not in changed]
    assert [name for name in names if name in changed] == changed
    assert [name for name in names if name not in changed] == untouched


class CountedText(str):
    """A text that counts comparisons."""

    comparisons = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("key", ["$deleteFromPrimitiveList/finalizers", "$retainKeys"])
def test_number_of_comparisons_grows_linearly(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_patch, "deep_copy", lambda value: value)
    monkeypatch.setattr(CountedText, "comparisons", 0)
    names = [f"x/{number}" for number in range(500)]
    listed: list[Any] = [*map(CountedText, names)]
    metadata: dict[str, Any] = {"finalizers": [*map(CountedText, names)]}
    changed: dict[str, Any] = {key: listed}
    if key == "$retainKeys":
        metadata, changed = {}, {key: listed, **{CountedText(name): "x" for name in names}}
        with contextlib.suppress(api_errors.ApiError):
            strategic_merge.strategic_merge_patch(metadata, changed, "V1ObjectMeta")
    else:
        patch = {"metadata": changed}
        result = strategic_merge.strategic_merge_patch({"metadata": metadata}, patch, "V1Pod")
        assert result["metadata"]["finalizers"] == []
    assert CountedText.comparisons <= 10 * len(names)
