"""JSONPaths of printer columns. The expected results are those of kube-apiserver."""

from typing import Any

import pytest

from windlass.localcluster.apiserver.printing import jsonpath

_OBJECT = {
    "metadata": {"annotations": {"a.b/c": "dotted"}},
    "spec": {
        "text": "x",
        "none": None,
        "map": {"z": 1, "y": 2},
        "list": ["a", "b", "c"],
        "items": [{"k": "one", "v": 1, "in": []}, {"k": "three", "v": 3, "w": 0, "in": [7]}],
    },
    "status": {
        "conditions": [
            {"type": "Other", "status": "False", "on": False},
            {"type": "Ready", "status": "True", "on": True, "say": 'a "b"'},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.text", ["x"]),
        ("$.spec.text", ["x"]),
        (".spec.none", [None]),
        (".spec.missing.deeper", []),
        (".spec.none.deeper", []),
        (".spec.text.deeper", []),
        (".", []),
        (r".metadata.annotations.a\.b/c", ["dotted"]),
        (r".metadata.annotations['a\.b/c']", ["dotted"]),
        (".metadata.annotations['a.b/c']", []),
        (".spec['map'].z", [1]),
        (".spec['map.z']", [1]),
        (".spec.map.*", [1, 2]),
        (".spec.list[0]", ["a"]),
        (".spec.list[-1]", ["c"]),
        (".spec.list[3]", []),
        (".spec.list[-4]", []),
        (".spec.list[1:]", ["b", "c"]),
        (".spec.list[-3:-1]", ["a", "b"]),
        (".spec.list[0:3:2]", ["a", "c"]),
        (".spec.list[*]", ["a", "b", "c"]),
        (".spec.list.*", ["a", "b", "c"]),
        (".spec.none[0]", []),
        (".spec.map[0]", []),
        (".spec.map[*]", []),
        (".spec.items[*].k", ["one", "three"]),
        (".spec.items[*].missing", []),
        # One mismatch makes the whole result empty.
        (".spec.items[*].in[0]", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        ('.status.conditions[?(@.type=="None")].status', []),
        (".status.conditions[?(@.on==true)].type", ["Ready"]),
        ('.status.conditions[?(@.say=="a \\"b\\"")].type', ["Ready"]),
        ('.status.conditions[?(@.type=="a)b")].status', []),
        (".spec.items[?(@.v>2)].k", ["three"]),
        (".spec.items[?(@.v>=1)].k", ["one", "three"]),
        (".spec.items[?(@.v<3)].k", ["one"]),
        (".spec.items[?(@.v<=1)].k", ["one"]),
        (".spec.items[?(@.v==@.v)].k", ["one", "three"]),
        (".spec.items[?(@.w)].k", ["three"]),
        # Not comparable.
        (".spec.items[?(@.v>2.5)].k", []),
        (".spec.items[?(@.k>2)].k", []),
        (".spec.items[?(@.in==1)].k", []),
        (".spec.text[?(@.v>2)].k", []),
        ("[?(@.v>2)]", []),
    ],
)
def test_path_finds_values(path: str, expected: list[Any]) -> None:
    assert jsonpath.parse(path).find(_OBJECT) == expected


@pytest.mark.parametrize(
    "path",
    [
        *("spec", "..spec", ".spec..text", ".spec[", ".spec[x]", ".spec[]", ".spec[0,1]", ".spec['a'"),
        *(".spec[?(@.a=~1)]", ".spec[?(@.a==)]", ".spec[?(@.a==nothing)]", ".a b", "{.spec}"),
    ],
)
def test_invalid_path_raises(path: str) -> None:
    with pytest.raises(ValueError, match=r"JSONPath|operator"):
        jsonpath.parse(path)
