"""Node affinity of tasks whose folders exist only on some nodes."""

from typing import Any

import pytest

from windlass.model.base import Json
from windlass.model.job import Job, Role, Volume
from windlass.render import documents
from windlass.render.framework import builder, pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OURS = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
THEIRS = {"key": "gpu", "operator": "Exists"}


def job(*nodes: tuple[str, ...], **fields: Any) -> Job:
    volumes = {f"v{at}": Volume(at=f"/v{at}", host_path="/srv", nodes=each) for at, each in enumerate(nodes)}
    return Job(name="a", command="b", roles={"worker": Role(tasks=2)}, volumes=volumes, **fields)


INTERSECTIONS: dict[str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...] | None]] = {
    "no nodes": (((), ()), None),
    "one volume with nodes": (((), ("n2", "n1")), ("n2", "n1")),
    "two volumes with nodes": ((("n1", "n2", "n3"), ("n3", "n1")), ("n1", "n3")),
    "the same twice": ((("n1", "n1"),), ("n1",)),
}


@pytest.mark.parametrize(("nodes", "expected"), INTERSECTIONS.values(), ids=INTERSECTIONS.keys())
def test_nodes_have_all_folders(nodes: tuple[tuple[str, ...], ...], expected: Any) -> None:
    assert pods.nodes_with_folders(job(*nodes)) == expected


PODS: dict[str, tuple[Json, Json]] = {
    "none of its own": (
        {},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OURS]}]}}},
    ),
    "terms of its own": (
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [THEIRS]}, {"matchFields": []}]}
            }
        },
        {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [THEIRS, OURS]},
                        {"matchFields": [], "matchExpressions": [OURS]},
                    ]
                }
            }
        },
    ),
    "others": (
        {"podAffinity": {"x": 1}, "nodeAffinity": {"preferred": []}},
        {
            "podAffinity": {"x": 1},
            "nodeAffinity": {
                "preferred": [],
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OURS]}]},
            },
        },
    ),
}


@pytest.mark.parametrize(("own", "expected"), PODS.values(), ids=PODS.keys())
def test_node_affinity_of_pod_is_kept(own: Json, expected: Json) -> None:
    made = builder.framework(job(("n1", "n2"), pod={"spec": {"affinity": own}} if own else {}))
    assert made["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["affinity"] == expected


def test_host_path_without_nodes_is_a_warning() -> None:
    text = (
        "name: a\ncommand: b\nvolumes: {{v: {{hostPath: /srv, at: /v{}}}}}\nroles: {{worker: {{tasks: 2}}}}"
    )
    (diagnostic,) = documents.read(text.format("").encode(), "a.yaml").diagnostics
    assert "`nodes: [...]` of the volume" in diagnostic.message
    assert documents.read(text.format(", nodes: [n1]").encode(), "a.yaml").diagnostics == ()
