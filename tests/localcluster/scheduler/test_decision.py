"""The node chosen for a pod, and the message for an unschedulable one."""

from collections.abc import Iterable
from typing import Any

import pytest

from windlass.localcluster.scheduler import decision, node_resources
from windlass.localcluster.scheduler.decision import Placed, Unschedulable
from windlass.localcluster.scheduler.node_resources import SchedulerCache
from windlass.localcluster.store_types import object_key

Json = dict[str, Any]
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_HELP = "Preemption is not helpful for scheduling"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def choose_node(pod_: Json, nodes: Iterable[Json], pods: Iterable[Json]) -> decision.Outcome:
    cache = SchedulerCache()
    for node_ in nodes:
        cache.update_node(node_)
    for other in pods:
        cache.update_pod(object_key(other["metadata"].get("namespace", ""), other["metadata"]["name"]), other)
    return decision.choose(node_resources.pod_info_of(pod_), cache.node_infos)


def node(name: str = "n", labels: Json | None = None, ready: str = "True", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str = "p", on: str = "", phase: str = "Pending", ports: Any = (), **spec: Any) -> Json:
    requests = spec.pop("requests", {})
    container = {"name": "c", "image": "i", "resources": {"requests": requests}, "ports": [*ports]}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": phase},
    }


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}


def expressions(*requirements: tuple[str, str, list[str]]) -> Json:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in requirements]}


def named(operator: str, *names: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [*names]}]}


def message(*reasons: str, preemption: str = f"1 {NO_HELP}", count: int = 1) -> Unschedulable:
    nowhere = f"0/{count} nodes are available:"
    return Unschedulable(f"{nowhere} {', '.join(reasons)}. preemption: {nowhere} {preemption}.")


def tainted(key: str, value: str = "", effect: str = "NoSchedule") -> Json:
    return node(taints=[{"key": key, "value": value, "effect": effect}])


@pytest.mark.parametrize(
    ("pod_", "node_", "reason"),
    [
        pytest.param(pod(), node(), "", id="anything goes"),
        pytest.param(pod(), node(unschedulable=True), "node(s) were unschedulable", id="cordoned"),
        pytest.param(
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            node(unschedulable=True),
            "",
            id="cordoned and tolerated",
        ),
        pytest.param(
            pod(),
            node(ready="False"),
            "node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
            id="not ready",
        ),
        pytest.param(
            pod(),
            node(ready="Unknown"),
            "node(s) had untolerated taint {node.kubernetes.io/unreachable: }",
            id="not heard of",
        ),
        pytest.param(pod(), tainted("k", "v"), "node(s) had untolerated taint {k: v}", id="taint"),
        pytest.param(pod(), tainted("k"), "node(s) had untolerated taint {k: }", id="taint without value"),
        pytest.param(
            pod(), tainted("k", effect="NoExecute"), "node(s) had untolerated taint {k: }", id="NoExecute"
        ),
        pytest.param(pod(), tainted("k", effect="PreferNoSchedule"), "", id="PreferNoSchedule"),
        pytest.param(
            pod(tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]),
            tainted("k", "v"),
            "",
            id="tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "k", "value": "other"}]),
            tainted("k", "v"),
            "node(s) had untolerated taint {k: v}",
            id="another value tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "k", "value": "v", "effect": "NoExecute"}]),
            tainted("k", "v"),
            "node(s) had untolerated taint {k: v}",
            id="another effect tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "k", "operator": "Exists"}]), tainted("k", "v"), "", id="Exists"
        ),
        pytest.param(pod(tolerations=[{"operator": "Exists"}]), tainted("k", "v"), "", id="all tolerated"),
        pytest.param(pod(nodeSelector={"a": "1"}), node(labels={"a": "1", "b": "2"}), "", id="selected"),
        pytest.param(pod(nodeSelector={"a": "1", "c": "3"}), node(labels={"a": "1"}), MISMATCH, id="half"),
        pytest.param(pod(affinity=affinity()), node(), MISMATCH, id="no term at all"),
        pytest.param(pod(affinity=affinity({})), node(), MISMATCH, id="an empty term"),
        pytest.param(
            pod(affinity=affinity(expressions(("a", "In", ["1"])), expressions(("a", "In", ["2"])))),
            node(labels={"a": "2"}),
            "",
            id="any term",
        ),
        pytest.param(
            pod(affinity=affinity(expressions(("a", "In", ["1"]), ("b", "Exists", [])))),
            node(labels={"a": "1"}),
            MISMATCH,
            id="all of a term",
        ),
        pytest.param(
            pod(nodeSelector={"a": "1"}, affinity=affinity(expressions(("b", "Exists", [])))),
            node(labels={"b": "1"}),
            MISMATCH,
            id="selector and affinity",
        ),
        pytest.param(pod(affinity=affinity(named("In", "n"))), node(), "", id="by name"),
        pytest.param(
            pod(affinity=affinity(named("In", "m"))),
            node(),
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            id="another name",
        ),
        pytest.param(pod(affinity=affinity(named("NotIn", "n"))), node(), MISMATCH, id="not this name"),
        pytest.param(
            pod(affinity=affinity(named("In", "m"), expressions(("a", "DoesNotExist", [])))),
            node(),
            "",
            id="a name or a label",
        ),
        pytest.param(
            pod(nodeSelector={"a": "1"}, requests={"cpu": "9"}),
            tainted("k"),
            "node(s) had untolerated taint {k: }",
            id="first filter wins",
        ),
    ],
)
def test_filters_accept_or_reject_a_single_node(pod_: Json, node_: Json, reason: str) -> None:
    assert choose_node(pod_, [node_], []) == (message(f"1 {reason}") if reason else Placed("n"))


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("In", ["1", "2"], "2", True),
        ("In", ["1"], None, False),
        ("NotIn", ["1"], "2", True),
        ("NotIn", ["1"], "1", False),
        ("NotIn", ["1"], None, True),
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], None, True),
        ("DoesNotExist", [], "1", False),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Gt", ["-5"], "-4", True),
        ("Gt", ["5"], "10", True),
        ("Gt", ["5"], "x", False),
        ("Gt", ["x"], "6", False),
        ("Gt", ["5"], None, False),
        ("Gt", ["5"], "9223372036854775808", False),
        ("Lt", ["5"], "4", True),
        ("Lt", ["5"], "5", False),
        ("Lt", ["5"], "1_0", False),
    ],
)
def test_affinity_operators(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    labels = {} if label is None else {"a": label}
    found = choose_node(
        pod(affinity=affinity(expressions(("a", operator, values)))), [node(labels=labels)], []
    )
    assert isinstance(found, Placed) is holds


@pytest.mark.parametrize(
    ("requests", "others", "expected"),
    [
        pytest.param(pod(requests={"cpu": "4"}), [], Placed("n"), id="all of it"),
        pytest.param(
            pod(requests={"cpu": "4001m"}), [], message("1 Insufficient cpu"), id="more than there ever is"
        ),
        pytest.param(
            pod(requests={"cpu": "2"}),
            [pod("o", on="n", requests={"cpu": "3"})],
            message("1 Insufficient cpu", preemption=f"1 {NO_VICTIMS}"),
            id="more than is left",
        ),
        pytest.param(
            pod(requests={"cpu": "2", "memory": "5Gi", "nvidia.com/gpu": "1"}),
            [pod("o", on="n", requests={"cpu": "3", "memory": "5Gi", "nvidia.com/gpu": "2"})],
            message(
                "1 Insufficient cpu",
                "1 Insufficient memory",
                "1 Insufficient nvidia.com/gpu",
                preemption=f"1 {NO_VICTIMS}",
            ),
            id="everything that is short",
        ),
        pytest.param(
            pod(requests={"example.com/thing": "1"}),
            [],
            message("1 Insufficient example.com/thing"),
            id="what no node has",
        ),
        pytest.param(
            pod(requests={"cpu": "2"}),
            [pod("o", on="n", phase="Succeeded", requests={"cpu": "3"}), pod("f", on="n", phase="Failed")],
            Placed("n"),
            id="what has ended holds nothing",
        ),
        pytest.param(
            pod(requests={"cpu": "2"}), [pod("o", requests={"cpu": "3"})], Placed("n"), id="what has no node"
        ),
        pytest.param(
            pod(),
            [pod(f"o{index}", on="n") for index in range(3)],
            message("1 Too many pods", preemption=f"1 {NO_VICTIMS}"),
            id="too many pods",
        ),
        pytest.param(
            pod(ports=[{"hostPort": 80, "hostIP": "127.0.0.1"}]),
            [pod("o", on="n", ports=[{"hostPort": 80}])],
            message(
                "1 node(s) didn't have free ports for the requested pod ports", preemption=f"1 {NO_VICTIMS}"
            ),
            id="port taken",
        ),
        pytest.param(
            pod(ports=[{"hostPort": 80}]),
            [pod("o", on="n", ports=[{"hostPort": 81}])],
            Placed("n"),
            id="ports",
        ),
        pytest.param(
            pod(requests={"cpu": "2"}, priority=2_000_000_000),
            [pod("o", on="n", requests={"cpu": "3"})],
            message(
                "1 Insufficient cpu",
                preemption="1 Preemption is not supported by the scheduler of this cluster",
            ),
            id="would preempt",
        ),
    ],
)
def test_requests_of_other_pods_are_subtracted(
    requests: Json, others: list[Json], expected: decision.Outcome
) -> None:
    assert choose_node(requests, [node()], others) == expected


def test_message_counts_nodes_by_reason() -> None:
    nodes = [node("a", {"x": "1"}), node("b", {"x": "1"}), node("c"), node("d", unschedulable=True)]
    others = [pod("o", on="a", requests={"cpu": "3"}), pod("q", on="b", requests={"cpu": "3"})]
    assert choose_node(pod(nodeSelector={"x": "1"}, requests={"cpu": "2"}), nodes, others) == message(
        f"1 {MISMATCH}",
        "1 node(s) were unschedulable",
        "2 Insufficient cpu",
        count=4,
        preemption=f"2 {NO_VICTIMS}, 2 {NO_HELP}",
    )


def test_no_nodes_is_unschedulable() -> None:
    assert choose_node(pod(), [], []) == Unschedulable("no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "x"}]}}}, "required pod affinity is"),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "x"}]}}},
            "required pod anti-affinity is",
        ),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topology spread with DoNotSchedule is",
        ),
        ({"resourceClaims": [{"name": "x"}]}, "resource claims are"),
        ({"schedulingGroup": {"podGroupName": "x"}}, "scheduling groups are"),
        ({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1}]}}}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
    ],
)
def test_unsupported_requirements_are_reported(spec: Json, reason: str) -> None:
    expected = f"{reason} not supported by the scheduler of this cluster"
    assert choose_node(pod(**spec), [node()], []) == (message(expected) if reason else Placed("n"))


def test_contradictory_affinity_terms_are_reported() -> None:
    term = {"matchFields": [*named("In", "a")["matchFields"], *named("In", "b")["matchFields"]]}
    found = choose_node(pod(affinity=affinity(term)), [node("a"), node("b")], [])
    assert found == message("pod affinity terms conflict", count=2, preemption=f"2 {NO_HELP}")


def preferring(**weights: int) -> Json:
    terms = [
        {"weight": weight, "preference": expressions((key, "Exists", []))} for key, weight in weights.items()
    ]
    return {"nodeAffinity": {PREFERRED: terms}}


@pytest.mark.parametrize(
    ("requests", "nodes", "others", "expected"),
    [
        pytest.param(pod(), [node("b"), node("a")], [], "a", id="equals by name"),
        pytest.param(
            pod(), [node("a"), node("b")], [pod("o", on="a", requests={"cpu": "1"})], "b", id="the emptier"
        ),
        pytest.param(pod(), [node("a"), node("b")], [pod("o", on="a")], "b", id="one that asks for nothing"),
        pytest.param(
            pod(affinity=preferring(x=1)),
            [node("a"), node("b", {"x": ""})],
            [pod("o", on="b", requests={"cpu": "1"})],
            "b",
            id="the preferred, though fuller",
        ),
        pytest.param(
            pod(affinity=preferring(x=1, y=5)),
            [node("a", {"x": ""}), node("b", {"y": ""})],
            [],
            "b",
            id="weights",
        ),
        pytest.param(
            pod(),
            [node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), node("b")],
            [pod("o", on="b", requests={"cpu": "2"})],
            "b",
            id="where it is not discouraged",
        ),
        pytest.param(
            pod(requests={"cpu": "2"}),
            [node("a"), node("b")],
            [pod("o", on="b", requests={"cpu": "3"})],
            "a",
            id="only where it fits",
        ),
    ],
)
def test_node_with_highest_score_is_chosen(
    requests: Json, nodes: list[Json], others: list[Json], expected: str
) -> None:
    assert choose_node(requests, nodes, others) == Placed(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"schedulerName": "default-scheduler"}, True),
        ({"schedulerName": "other"}, False),
        ({"on": "n"}, False),
        ({"phase": "Failed"}, False),
        ({"schedulingGates": [{"name": "x"}]}, False),
    ],
)
def test_needs_scheduling_only_if_pending_and_ours(changes: Json, expected: bool) -> None:
    assert decision.needs_scheduling(pod(**changes)) is expected
