"""Merging the `pod:` field of a job file into a pod template."""

from typing import Any

import pytest

from windlass.k8s import strategic_merge

POD: dict[str, Any] = {
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"a": "1", "b": "2"},
        "tolerations": [{"key": "a"}],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "command": ["a", "b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 2222}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "nfs": {"server": "s", "path": "/p"}}],
    }
}


def container(patch: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **patch}]}}


PATCHES: dict[str, dict[str, Any]] = {
    "empty": {},
    "new field": {"spec": {"hostNetwork": True}},
    "changed field": {"spec": {"restartPolicy": "OnFailure"}},
    "removed field": {"spec": {"restartPolicy": None}},
    "removed absent field": {"spec": {"dnsPolicy": None}},
    "map": {"spec": {"nodeSelector": {"b": None, "c": "3"}}},
    "replaced list": {"spec": {"tolerations": [{"key": "b"}]}},
    "list of strings": container({"command": ["c"]}),
    "container field": container({"workingDir": "/x"}),
    "new container": {"spec": {"containers": [{"name": "other", "image": "j"}]}},
    "changed variable": container({"env": [{"name": "B", "value": "3"}]}),
    "new mount": container({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
    "changed mount": container({"volumeMounts": [{"name": "x", "mountPath": "/data"}]}),
    "changed port": container({"ports": [{"containerPort": 2222, "name": "grpc"}]}),
    "new volume": {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}},
    "metadata": {"metadata": {"annotations": {"a": "b"}}},
}


def in_order(value: Any) -> Any:
    """Sort lists: Kubernetes puts new items of a merged list first, Windlass puts them last."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((in_order(item) for item in value), key=str)
    return value


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_result_equals_strategic_merge_patch_except_for_order(patch: dict[str, Any]) -> None:
    expected = strategic_merge.strategic_merge_patch(POD, patch, "V1PodTemplateSpec")
    assert in_order(strategic_merge.merge_pod_template(POD, patch)) == in_order(expected)


def test_main_container_stays_first() -> None:
    patch = {"spec": {"containers": [{"name": "other"}, {"name": "main", "image": "k"}]}}
    found = strategic_merge.merge_pod_template(POD, patch)["spec"]["containers"]
    assert [(each["name"], each.get("image")) for each in found] == [("main", "k"), ("other", None)]


def test_volume_or_variable_replaces_one_of_the_same_name() -> None:
    """Kubernetes would merge both and reject the pod."""
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    variable = container({"env": [{"name": "A", "valueFrom": source}]})
    patch = {"spec": {**variable["spec"], "volumes": [{"name": "data", "emptyDir": {}}]}}
    found = strategic_merge.merge_pod_template(POD, patch)["spec"]
    assert found["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert found["containers"][0]["env"][0] == {"name": "A", "valueFrom": source}


def test_arguments_do_not_change() -> None:
    before = repr(POD)
    patch = container({"env": [{"name": "A", "value": "9"}], "command": None})
    written = repr(patch)
    strategic_merge.merge_pod_template(POD, patch)
    assert (repr(POD), repr(patch)) == (before, written)
