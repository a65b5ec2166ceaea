"""Each GPU belongs to one pod at a time, and to one logical node."""

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
def test_the_lowest_that_are_free(
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
def test_what_an_annotation_says(
    text: str | None, count: int, of_node: tuple[int, ...], of_pod: tuple[int, ...]
) -> None:
    assert gpus.of_node(annotated(text), count) == of_node
    assert gpus.of_pod(annotated(text), count) == of_pod


def test_what_pods_hold_is_not_given_again() -> None:
    def pod(held: str | None) -> dict[str, Any]:
        requests = {"requests": {gpus.RESOURCE: "1"}}
        return {**annotated(held), "spec": {"containers": [{"name": "c", "resources": requests}]}}

    node = {**annotated("4,5,6"), "status": {"allocatable": {gpus.RESOURCE: "3"}}}
    account = node_resources.account_of(node).with_pod("a", node_resources.asked_by(pod("5")))
    assert account.free_gpus(2) == (4, 6)
    assert account.free_gpus(3) is None
    assert account.without_pod("a").free_gpus(3) == (4, 5, 6)
    # One that came past the scheduler counts, though nobody knows which it uses.
    assert account.with_pod("b", node_resources.asked_by(pod(None))).free(gpus.RESOURCE) == 1
