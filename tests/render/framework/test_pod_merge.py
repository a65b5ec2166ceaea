"""What stands under `pod:`, merged into a template."""

from typing import Any

import pytest

from windlass.k8s import strategic_merge
from windlass.render.framework import pod_merge

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
    "nothing": {},
    "a new field": {"spec": {"hostNetwork": True}},
    "another value": {"spec": {"restartPolicy": "OnFailure"}},
    "a field taken away": {"spec": {"restartPolicy": None}},
    "a field taken away that is not there": {"spec": {"dnsPolicy": None}},
    "a mapping": {"spec": {"nodeSelector": {"b": None, "c": "3"}}},
    "a list that is replaced": {"spec": {"tolerations": [{"key": "b"}]}},
    "a list of words": container({"command": ["c"]}),
    "a field of a container": container({"workingDir": "/x"}),
    "a further container": {"spec": {"containers": [{"name": "other", "image": "j"}]}},
    "another variable": container({"env": [{"name": "B", "value": "3"}]}),
    "a further mount": container({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
    "the same mount": container({"volumeMounts": [{"name": "x", "mountPath": "/data"}]}),
    "the same port": container({"ports": [{"containerPort": 2222, "name": "grpc"}]}),
    "a further volume": {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}},
    "metadata": {"metadata": {"annotations": {"a": "b"}}},
}


def in_order(value: Any) -> Any:
    """Kubernetes puts new items of a merged list first, we last: the order of containers is ours to keep."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((in_order(item) for item in value), key=str)
    return value


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_as_kubernetes_merges(patch: dict[str, Any]) -> None:
    expected = strategic_merge.strategic_merge_patch(POD, patch, "V1PodTemplateSpec")
    assert in_order(pod_merge.merged(POD, patch)) == in_order(expected)


def test_the_task_stays_the_first_container() -> None:
    patch = {"spec": {"containers": [{"name": "other"}, {"name": "main", "image": "k"}]}}
    found = pod_merge.merged(POD, patch)["spec"]["containers"]
    assert [(each["name"], each.get("image")) for each in found] == [("main", "k"), ("other", None)]


def test_a_volume_and_a_variable_are_of_one_kind() -> None:
    """Where Kubernetes would keep half of the old one, and refuse the pod."""
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    variable = container({"env": [{"name": "A", "valueFrom": source}]})
    patch = {"spec": {**variable["spec"], "volumes": [{"name": "data", "emptyDir": {}}]}}
    found = pod_merge.merged(POD, patch)["spec"]
    assert found["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert found["containers"][0]["env"][0] == {"name": "A", "valueFrom": source}


def test_neither_is_changed() -> None:
    before = repr(POD)
    patch = container({"env": [{"name": "A", "value": "9"}], "command": None})
    written = repr(patch)
    pod_merge.merged(POD, patch)
    assert (repr(POD), repr(patch)) == (before, written)
