"""The files of configMap, secret, downwardAPI and projected volumes, and errors."""

import pytest

from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.volumes import files
from windlass.model.base import Json

Expected = dict[str, tuple[bytes, int]]


def _item(key: str, path: str, **more: int) -> Json:
    return {"key": key, "path": path, **more}


def _said(path: str, field: str, **more: int) -> Json:
    return {"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": field}, **more}


def _token(source: Json) -> str:
    return f"TOKEN for {source['audience']}" if "audience" in source else "TOKEN"


def _projected(*sources: Json, mode: int = 0o644) -> Json:
    return {"projected": {"defaultMode": mode, "sources": [*sources]}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (
            {"configMap": {"name": "settings", "defaultMode": 0o644}},
            {
                "level": (b"debug", 0o644),
                "1st": (b"no variable", 0o644),
                "price": (b"5$$(level)", 0o644),
                "blob": (b"\xff\x00\x01", 0o644),
            },
        ),
        (
            {
                "configMap": {
                    "name": "settings",
                    "defaultMode": 0o400,
                    "items": [_item("level", "deep/./level.txt"), _item("blob", "blob", mode=0o755)],
                }
            },
            {"deep/level.txt": (b"debug", 0o400), "blob": (b"\xff\x00\x01", 0o755)},
        ),
        ({"configMap": {"name": "absent", "optional": True}}, {}),
        (
            {
                "configMap": {
                    "name": "other",
                    "optional": True,
                    "items": [_item("absent", "a"), _item("level", "b", mode=0)],
                }
            },
            {"b": (b"info", 0)},
        ),
        (
            {"secret": {"secretName": "login", "items": [_item("raw", "raw")], "defaultMode": 0o600}},
            {"raw": (b"\xff\xfe", 0o600)},
        ),
        ({"secret": {"secretName": "absent", "optional": True}}, {}),
        (
            {
                "downwardAPI": {
                    "items": [
                        _said("labels", "metadata.labels"),
                        _said("annotations", "metadata.annotations", mode=0o400),
                        _said("name", "metadata.name"),
                        _said("note", "metadata.annotations['note']"),
                        {
                            "path": "memory",
                            "resourceFieldRef": {
                                "containerName": "main",
                                "resource": "limits.memory",
                                "divisor": "1Mi",
                            },
                        },
                    ]
                }
            },
            {
                "labels": (b'app="digits"\nrole="worker"', 0o644),
                "annotations": (b'example.com/owner="ann"\nnote="two\\nlines, \\"quoted\\""', 0o400),
                "name": (b"digits-worker-0", 0o644),
                "note": (b'lines, "quoted"\ntwo', 0o644),
                "memory": (b"1536", 0o644),
            },
        ),
        (
            _projected(
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"serviceAccountToken": {"path": "vault", "audience": "vault"}},
                {"configMap": {"name": "settings", "items": [_item("level", "level")]}},
                {"secret": {"name": "login", "items": [_item("user", "user", mode=0o600)]}},
                {"downwardAPI": {"items": [_said("namespace", "metadata.namespace")]}},
                {"secret": {"name": "absent", "optional": True}},
                mode=0o440,
            ),
            {
                "token": (b"TOKEN", 0o440),
                "vault": (b"TOKEN for vault", 0o440),
                "level": (b"debug", 0o440),
                "user": (b"ann", 0o600),
                "namespace": (b"train", 0o440),
            },
        ),
        # Of two files at one path the later wins.
        (
            _projected(
                {"configMap": {"name": "settings", "items": [_item("level", "level")]}},
                {"configMap": {"name": "other"}},
            ),
            {"level": (b"info", 0o644)},
        ),
    ],
)
def test_files(volume: Json, expected: Expected, pod: Json, lookup: Lookup, facts: PodFacts) -> None:
    assert files.has_generated_files(volume)
    found = files.files({"name": "v", **volume}, pod, lookup, facts, _token)
    assert {path: (file.content, file.mode) for path, file in found.items()} == expected


def _at(*paths: str) -> Json:
    return {"configMap": {"name": "other", "items": [_item("level", path) for path in paths]}}


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        ({"configMap": {"name": "absent"}}, 'configmap "absent" not found'),
        ({"secret": {"secretName": "absent"}}, 'secret "absent" not found'),
        (
            {"configMap": {"name": "other", "items": [_item("k", "k")]}},
            "configmap references non-existent config key: k",
        ),
        (
            {"secret": {"secretName": "login", "items": [_item("k", "k")]}},
            "references non-existent secret key: k",
        ),
        (_projected({"configMap": {"name": "absent"}}), 'configmap "absent" not found'),
        (
            _projected(
                {"configMap": {"name": "absent"}},
                {"configMap": {"name": "other"}},
                {"secret": {"name": "absent"}},
                {"configMap": {"name": "absent"}},
            ),
            '[configmap "absent" not found, secret "absent" not found]',
        ),
        (
            _projected({"clusterTrustBundle": {"name": "x"}}),
            "projected source clusterTrustBundle is not supported on this cluster",
        ),
        ({"downwardAPI": {"items": [_said("x", "spec.priority")]}}, "unsupported fieldPath: spec.priority"),
        (
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "x",
                            "resourceFieldRef": {"containerName": "no", "resource": "limits.cpu"},
                        }
                    ]
                }
            },
            "container no not found",
        ),
        (_at(""), 'invalid path: must not be empty: ""'),
        (_at("./"), 'invalid path: must not be empty: "./"'),
        (_at("/etc/passwd"), "invalid path: must be relative path: /etc/passwd"),
        (_at("../up"), "invalid path: must not contain '..': ../up"),
        (_at("a/../../up"), "invalid path: must not contain '..': a/../../up"),
        (_at("..data"), "invalid path: must not start with '..': ..data"),
        (_at("x" * 256), "invalid path: filenames must be less than or equal to 255 characters"),
        (_at("x/" * 2049), "invalid path: must be less than or equal to 4096 characters"),
        (_at("a", "a/b/c"), "invalid path: a/b/c is below a, which is a file"),
    ],
)
def test_invalid_volume_source_is_rejected(
    volume: Json, problem: str, pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    with pytest.raises(SetupError) as refused:
        files.files({"name": "v", **volume}, pod, lookup, facts, _token)
    assert refused.value.reason == "FailedMount"
    assert refused.value.message == f'MountVolume.SetUp failed for volume "v" : {problem}'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain ä 漢", 'a="plain ä 漢"'),
        ("tab\t, bell\a, back\\slash", r'a="tab\t, bell\a, back\\slash"'),
        ("\x01\x7f", r'a="\x01\x7f"'),
        ("\u200b\u00a0", r'a="\u200b\u00a0"'),
        ("\U000e0001", r'a="\U000e0001"'),
    ],
)
def test_downward_annotations_are_quoted(
    value: str, written: str, pod: Json, lookup: Lookup, facts: PodFacts
) -> None:
    pod["metadata"]["annotations"] = {"a": value}
    volume = {"name": "v", "downwardAPI": {"items": [_said("f", "metadata.annotations")]}}
    assert files.files(volume, pod, lookup, facts, _token)["f"].content.decode() == written


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"hostPath": {"path": "/x"}}, {"name": "v"}])
def test_other_volumes_hold_no_files(volume: Json) -> None:
    assert not files.has_generated_files(volume)
