"""Volumes whose files come from objects: config maps, secrets, fields of the pod, and several of them in one."""

from typing import Any

import pytest
from pods.place import Place
from pods.specs import config_map, container, mounted, secret

SHOW = "cd /data; for f in $(ls); do echo $f $(stat -L -c %a $f) $(cat $f); done"
ITEMS = [{"key": "one", "path": "deep/er/1"}, {"key": "two", "path": "2", "mode": 0o400}]


def volume(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "data", **source}]


@pytest.fixture
def objects(place: Place) -> Place:
    place.create(config_map("words", one="eins", two="zwei"))
    place.create(secret("hidden", one="uno", two="due"))
    return place


CONTENTS = {
    "config-map": ({"configMap": {"name": "words"}}, ["one 644 eins", "two 644 zwei"]),
    "secret": ({"secret": {"secretName": "hidden"}}, ["one 644 uno", "two 644 due"]),
    "mode": ({"configMap": {"name": "words", "defaultMode": 0o640}}, ["one 640 eins", "two 640 zwei"]),
    "secret-mode": (
        {"secret": {"secretName": "hidden", "defaultMode": 0o444}},
        ["one 444 uno", "two 444 due"],
    ),
    "optional": ({"configMap": {"name": "none", "optional": True}}, []),
    "optional-secret": ({"secret": {"secretName": "none", "optional": True}}, []),
    "optional-key": (
        {"configMap": {"name": "words", "optional": True, "items": [{"key": "none", "path": "x"}]}},
        [],
    ),
}


@pytest.mark.parametrize(("source", "lines"), CONTENTS.values(), ids=CONTENTS)
def test_volume_contents(objects: Place, source: dict[str, Any], lines: list[str]) -> None:
    assert objects.start(mounted(SHOW), volumes=volume(**source)).output() == lines


@pytest.mark.parametrize("source", [{"configMap": {"name": "words"}}, {"secret": {"secretName": "hidden"}}])
def test_selected_items_with_paths_and_modes(objects: Place, source: dict[str, Any]) -> None:
    (kind, fields) = next(iter(source.items()))
    script = "cd /data; stat -L -c '%n %a' deep/er/1 2; ls"
    pod = objects.start(mounted(script), volumes=volume(**{kind: {**fields, "items": ITEMS}}))
    assert pod.output() == ["deep/er/1 644", "2 400", "2", "deep"]


def test_binary_data_is_unchanged(place: Place) -> None:
    place.create({**config_map("binary"), "binaryData": {"b": "AP+A/g=="}})
    script = "import pathlib; print(pathlib.Path('/data/b').read_bytes().hex())"
    pod = place.start(mounted(["python3", "-c", script]), volumes=volume(configMap={"name": "binary"}))
    assert pod.output() == ["00ff80fe"]


MISSING = {
    "config-map": ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
    "secret": ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
    "key": (
        {"configMap": {"name": "words", "items": [{"key": "no", "path": "x"}]}},
        "non-existent config key: no",
    ),
}


@pytest.mark.parametrize(("source", "message"), MISSING.values(), ids=MISSING)
def test_pod_waits_for_a_missing_object(objects: Place, source: dict[str, Any], message: str) -> None:
    pod = objects.start(mounted("true"), volumes=volume(**source))
    event = pod.event("FailedMount", message)
    assert event["message"].startswith('MountVolume.SetUp failed for volume "data" : ')
    assert event["type"] == "Warning"
    assert pod.waiting("ContainerCreating").phase == "Pending"


def test_pod_starts_when_the_missing_object_appears(place: Place) -> None:
    pod = place.start(mounted("cat /data/word"), volumes=volume(configMap={"name": "late"}))
    pod.event("FailedMount")
    place.create(config_map("late", word="better than never"))
    assert pod.output() == ["better than never"]


FOLLOW = "while true; do cat /data/word; echo; sleep 0.2; done"


def test_config_map_change_reaches_a_running_pod(place: Place) -> None:
    place.create(config_map("words", word="before", gone="x"))
    pod = place.start(mounted(FOLLOW), volumes=volume(configMap={"name": "words"}))
    pod.says("before")
    changed = {"data": {"word": "after", "gone": None, "new": "y"}}
    place.client.patch(place.path("configmaps", "words"), changed).expect(200)
    pod.says("after", tailLines="2")
    assert pod.execute("ls", "/data").text.split() == ["new", "word"]


def test_secret_change_reaches_a_running_pod(place: Place) -> None:
    place.create(secret("words", word="before"))
    pod = place.start(mounted(FOLLOW), volumes=volume(secret={"secretName": "words"}))
    pod.says("before")
    place.client.patch(place.path("secrets", "words"), {"stringData": {"word": "after"}}).expect(200)
    pod.says("after", tailLines="2")


DOWNWARD = [
    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
    {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
    {"path": "me/name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o400},
    {"path": "me/memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
    {
        "path": "me/cpu",
        "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"},
    },
]


def test_downward_api_volume(place: Place) -> None:
    script = 'cd /data; for f in labels annotations me/name me/memory me/cpu; do echo "$(cat $f)"; done'
    limits = {"limits": {"memory": "256Mi", "cpu": "200m"}}
    pod = place.start(
        mounted(script, resources=limits),
        volumes=volume(downwardAPI={"items": DOWNWARD}),
        metadata={"labels": {"b": "2", "a": "1"}, "annotations": {"note": 'say "hi"'}},
    )
    lines = pod.output()
    assert lines[:2] == ['a="1"', 'b="2"']
    assert 'note="say \\"hi\\""' in lines
    assert lines[-3:] == [pod.name, str(256 * 1024**2), "200"]


def test_label_change_reaches_a_running_pod(place: Place) -> None:
    items = [{"path": "word", "fieldRef": {"fieldPath": "metadata.labels['word']"}}]
    pod = place.start(
        mounted(FOLLOW), volumes=volume(downwardAPI={"items": items}), metadata={"labels": {"word": "before"}}
    )
    pod.says("before")
    pod.patch({"metadata": {"labels": {"word": "after"}}})
    pod.says("after", tailLines="2")


def test_projected_volume_merges_sources(objects: Place) -> None:
    sources = [
        {"configMap": {"name": "words", "items": [{"key": "one", "path": "map/one"}]}},
        {"secret": {"name": "hidden", "items": [{"key": "two", "path": "secret", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "none", "optional": True}},
    ]
    script = "cd /data; stat -L -c '%n %a' map/one secret name; cat map/one secret name"
    pod = objects.start(
        mounted(script), volumes=volume(projected={"sources": sources, "defaultMode": 0o604}), name="me"
    )
    assert pod.output() == ["map/one 604", "secret 400", "name 604", "einsdueme"]


def test_two_containers_see_the_same_files(objects: Place) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    both = [container("cat /data/one", name, volumeMounts=mounts) for name in ("a", "b")]
    pod = objects.start(*both, volumes=volume(configMap={"name": "words"}))
    pod.ended()
    assert [pod.log(container=name) for name in ("a", "b")] == ["eins", "eins"]
