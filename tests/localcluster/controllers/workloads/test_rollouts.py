"""One step of a Deployment's rollout."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.localcluster.controllers.workloads import rollouts
from windlass.localcluster.controllers.workloads.rollouts import Bounds, Size


def spec(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%") -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}


@pytest.mark.parametrize(
    ("given_spec", "expected"),
    [
        (spec(4), Bounds(5, 3)),
        (spec(1), Bounds(2, 1)),
        (spec(10), Bounds(13, 8)),
        (spec(3, 0, 1), Bounds(3, 2)),
        (spec(3, 2, 0), Bounds(5, 3)),
        (spec(1, 0, "25%"), Bounds(1, 0)),
        (spec(2, 0, 5), Bounds(2, 0)),
        (spec(0), Bounds(0, 0)),
    ],
)
def test_bounds_round_surge_up_and_unavailable_down(given_spec: dict[str, Any], expected: Bounds) -> None:
    assert rollouts.bounds(given_spec) == expected


def full(wanted: int, available: int | None = None) -> Size:
    return Size(wanted, wanted, wanted if available is None else available)


STEPS: dict[str, tuple[dict[str, Any], Size, dict[str, Size], int, dict[str, int]]] = {
    "the first": (spec(3), Size(0), {}, 3, {}),
    "larger": (spec(5), full(3), {}, 5, {}),
    "smaller": (spec(2), full(3), {}, 2, {}),
    "one above": (spec(3, 1, 0), Size(0), {"a": full(3)}, 1, {"a": 3}),
    "one below": (spec(3, 0, 1), Size(0), {"a": full(3)}, 0, {"a": 2}),
    "one for one": (spec(3, 1, 0), full(1), {"a": full(3)}, 1, {"a": 2}),
    "not before it is available": (spec(3, 1, 0), full(1, 0), {"a": full(3)}, 1, {"a": 3}),
    "what never worked goes at once": (spec(3, 1, 1), full(0), {"a": full(3, 0)}, 1, {"a": 2}),
    "the last": (spec(3, 1, 0), full(3), {"a": full(1)}, 3, {"a": 0}),
    "the oldest first": (spec(3, 1, 1), full(2), {"a": full(1), "b": full(1)}, 2, {"a": 0, "b": 0}),
}


@pytest.mark.parametrize(("given_spec", "new", "former", "size", "sizes"), STEPS.values(), ids=STEPS)
def test_rolling_update_step(
    given_spec: dict[str, Any], new: Size, former: dict[str, Size], size: int, sizes: dict[str, int]
) -> None:
    assert rollouts.rolling_sizes(given_spec, new, former) == (size, sizes)


@given(st.integers(1, 12), st.integers(0, 4), st.integers(0, 4))
def test_every_rollout_ends_within_its_bounds(replicas: int, surge: int, unavailable: int) -> None:
    asked = spec(replicas, surge, unavailable)
    limits = rollouts.bounds(asked)
    new, former = 0, replicas
    for _ in range(3 * replicas + 3):
        new, sizes = rollouts.rolling_sizes(asked, full(new), {"a": full(former)})
        former = sizes["a"]
        assert new + former <= limits.max_pods
        # The new pods of this step may not exist yet.
        assert former + new >= limits.min_available
    assert (new, former) == (replicas, 0)


RECREATED: dict[str, tuple[dict[str, Size], int]] = {
    "the first": ({}, 3),
    "the former has pods": ({"a": full(3)}, 0),
    "they go": ({"a": Size(0, 0, 0, terminating=2)}, 0),
    "they are gone": ({"a": Size(0)}, 3),
}


@pytest.mark.parametrize(("former", "expected"), RECREATED.values(), ids=RECREATED)
def test_recreate_waits_until_former_pods_are_gone(former: dict[str, Size], expected: int) -> None:
    assert rollouts.recreate_sizes(spec(3), former) == (expected, dict.fromkeys(former, 0))
