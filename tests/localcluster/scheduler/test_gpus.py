"""GPU assignment to pods and logical nodes."""

from typing import Any

import pytest

from windlass.localcluster.scheduler import gpus, node_resources


def annotated(text: str | None) -> dict[str, Any]:
    return {"metadata": {"name": "x", "annotations": {} if text is None else {gpus.ANNOTATION: text}}}


@pytest.mark.parametrize(
    ("count", "owned", "taken", "expected"),
    [
        (1, range(4), (), (0,)),
        (2, range(4), (0, 2), (1, 3)),
        (3, range(4), (0, 2), None),
        (2, (2, 3), (), (2, 3)),
        (1, (2, 3), (0, 2), (3,)),
        (0, (), (), ()),
        (1, (), (), None),
    ],
)
def test_lowest_free_gpus_are_chosen(
    count: int, owned: Any, taken: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    assert gpus.choose(count, owned, taken) == expected


@pytest.mark.parametrize(
    ("text", "count", "of_node", "of_pod"),
    [
        ("2,3", 2, (2, 3), (2, 3)),
        (" 3, 2 ", 2, (2, 3), (2, 3)),
        (None, 2, (0, 1), ()),
        ("", 0, (), ()),
        ("2,3", 1, (0,), ()),
        ("2,2", 2, (0, 1), ()),
        ("2,x", 2, (0, 1), ()),
        ("0", 0, (), ()),
    ],
)
def test_gpu_annotation_is_read_if_its_count_matches(
    text: str | None, count: int, of_node: tuple[int, ...], of_pod: tuple[int, ...]
) -> None:
    assert gpus.of_node(annotated(text), count) == of_node
    assert gpus.annotated(annotated(text), count) == of_pod


def test_assigned_gpus_are_not_assigned_again() -> None:
    def pod(held: str | None) -> dict[str, Any]:
        requests = {"requests": {gpus.RESOURCE: "1"}}
        return {**annotated(held), "spec": {"containers": [{"name": "c", "resources": requests}]}}

    node = {**annotated("4,5,6"), "status": {"allocatable": {gpus.RESOURCE: "3"}}}
    node_info = node_resources.node_info_of(node).with_pod("a", node_resources.requests_of(pod("5")))
    assert node_info.choose_gpus(2) == (4, 6)
    assert node_info.choose_gpus(3) is None
    assert node_info.without_pod("a").choose_gpus(3) == (4, 5, 6)
    # A pod that bypassed the scheduler counts, though its GPUs are unknown.
    assert node_info.with_pod("b", node_resources.requests_of(pod(None))).free(gpus.RESOURCE) == 1
