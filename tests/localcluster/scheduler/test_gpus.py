"""GPU assignment to pods and logical nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from windlass.localcluster.scheduler import gpus, node_resources
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.localcluster.scheduler.node_resources import NodeInfo

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
FOUR = tuple(Gpu(each) for each in "abcd")
MIXED = (Gpu("a"), Gpu("m", MIG), Gpu("n", MIG))


def annotated(text: str | None, **annotations: str) -> dict[str, Any]:
    given = annotations if text is None else {gpus.ANNOTATION: text, **annotations}
    return {"metadata": {"name": "x", "annotations": given}}


@pytest.mark.parametrize(
    ("requested", "owned", "holders", "in_use", "expected"),
    [
        pytest.param({GPU: 1}, FOUR, {}, (), "a", id="the first one"),
        pytest.param({GPU: 2}, FOUR, {"a": [1], "c": [1]}, (), "b,d", id="free ones"),
        pytest.param({GPU: 3}, FOUR, {"a": [1], "c": [1]}, (), None, id="too few"),
        pytest.param({GPU: 2}, FOUR, {}, ("a", "b", "c"), "d,a", id="idle ones before those in use"),
        pytest.param({}, (), {}, (), "", id="none"),
        pytest.param({GPU: 1}, (), {}, (), None, id="no GPUs"),
        pytest.param({MIG: 1}, MIXED, {"m": [1]}, (), f"{MIG}:n", id="MIG instance"),
        pytest.param({GPU: 1, MIG: 2}, MIXED, {}, (), f"a,{MIG}:m,{MIG}:n", id="both"),
        pytest.param({SHARED: 1}, FOUR, {}, (), f"{SHARED}:a", id="first sharer"),
        pytest.param({SHARED: 1}, FOUR, {"c": [2]}, (), f"{SHARED}:c", id="beside another sharer"),
        pytest.param({SHARED: 1}, FOUR, {"c": [3]}, (), f"{SHARED}:a", id="other number of tasks"),
        pytest.param({SHARED: 1}, FOUR, {"a": [2, 2], "b": [1]}, (), f"{SHARED}:c", id="full"),
        pytest.param(
            {SHARED: 2}, FOUR[:2], {"a": [2]}, (), f"{SHARED}:a,{SHARED}:b", id="two different ones"
        ),
        pytest.param({SHARED: 2}, FOUR[:1], {}, (), None, id="never twice the same"),
        pytest.param({GPU: 1, SHARED: 1}, FOUR[:1], {}, (), None, id="not both at once"),
    ],
)
def test_gpus_are_chosen(
    requested: Mapping[str, int],
    owned: Sequence[Gpu],
    holders: Mapping[str, Sequence[int]],
    in_use: Sequence[str],
    expected: str | None,
) -> None:
    chosen = gpus.choose(requested, 2, owned, holders, in_use)
    assert (None if chosen is None else gpus.format_gpus(chosen)) == expected


@pytest.mark.parametrize(
    ("text", "count", "of_node", "of_pod"),
    [
        ("GPU-c,GPU-d", 2, "GPU-c,GPU-d", "GPU-c,GPU-d"),
        (" 3, 2 ", 2, "3,2", "3,2"),
        (None, 2, "0,1", ""),
        ("", 0, "", ""),
        ("2,3", 1, "0", ""),
        ("2,2", 2, "0,1", ""),
        ("0", 0, "", ""),
    ],
)
def test_gpu_annotation_is_read_if_its_count_matches(
    text: str | None, count: int, of_node: str, of_pod: str
) -> None:
    amounts = {GPU: count, "cpu": 4}
    assert gpus.format_gpus(gpus.of_node(annotated(text), amounts)) == of_node
    assert gpus.format_gpus(gpus.annotated(annotated(text), amounts)) == of_pod


@pytest.mark.parametrize(
    ("number", "expected"), [("3", 3), ("", 2), ("0", 2), ("-1", 2), ("many", 2), ("9999", 2)]
)
def test_tasks_per_gpu_of_a_pod(number: str, expected: int) -> None:
    assert gpus.tasks_per_gpu(annotated(None, **{"windlass.dev/tasks-per-gpu": number})) == expected


def test_gpus_in_use_are_read_back() -> None:
    text = gpus.format_in_use({"GPU-a": [12, 34], "GPU-b": [56]})
    assert text == "GPU-a=12 34,GPU-b=56"
    assert gpus.in_use(annotated(None, **{gpus.IN_USE_ANNOTATION: text})) == {"GPU-a", "GPU-b"}
    assert gpus.in_use(annotated(None)) == frozenset()


def pod(held: str | None, number: int = 1, resource: str = GPU, tasks: str = "2") -> dict[str, Any]:
    requests = {"requests": {resource: str(number)}}
    meta = annotated(held, **{"windlass.dev/tasks-per-gpu": tasks})
    return {**meta, "spec": {"containers": [{"name": "c", "resources": requests}]}}


def chosen(node_info: NodeInfo, wanted: dict[str, Any]) -> str | None:
    found = node_info.choose_gpus(node_resources.requests_of(wanted))
    return None if found is None else gpus.format_gpus(found)


def test_assigned_gpus_are_not_assigned_again() -> None:
    node = {**annotated("d,e,f"), "status": {"allocatable": {GPU: "3"}}}
    node_info = node_resources.node_info_of(node).with_pod("a", node_resources.requests_of(pod("e")))
    assert chosen(node_info, pod(None, 2)) == "d,f"
    assert chosen(node_info, pod(None, 3)) is None
    assert chosen(node_info.without_pod("a"), pod(None, 3)) == "d,e,f"
    # A pod that bypassed the scheduler counts, though its GPUs are unknown.
    assert node_info.with_pod("b", node_resources.requests_of(pod(None))).free(GPU) == 1


def test_free_gpus_depend_on_how_they_are_shared() -> None:
    node = {**annotated("a,b"), "status": {"allocatable": {GPU: "2"}}}
    empty = node_resources.node_info_of(node)
    assert (empty.free(GPU), empty.free(SHARED, 2)) == (2, 2)
    one = empty.with_pod("p", node_resources.requests_of(pod(f"{SHARED}:a", resource=SHARED)))
    # The other GPU is free, and the shared one has room for those who share it in the same way.
    assert (one.free(GPU), one.free(SHARED, 2), one.free(SHARED, 3)) == (1, 2, 1)
    full = one.with_pod("q", node_resources.requests_of(pod(f"{SHARED}:a", resource=SHARED)))
    assert (full.free(GPU), full.free(SHARED, 2)) == (1, 1)
    none = full.with_pod("r", node_resources.requests_of(pod("b")))
    assert (none.free(GPU), none.free(SHARED, 2)) == (0, 0)
    assert none.without_pod("p").free(SHARED, 2) == 1
