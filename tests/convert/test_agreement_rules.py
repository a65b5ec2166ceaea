"""Intended differences of converted jobs excuse only what their reasons explain."""

from typing import Any

import pytest
from agreement.cases import Case, Happening, Outcome, Progress, Step

from agreement import comparison

TFJOB = "TFJob"
ACTIVE, FAILED, SUCCEEDED = "Active", "Failed", "Succeeded"


def case(kind: str, spec: dict[str, Any], *steps: Step) -> Case:
    return Case(kind.lower(), kind, ({"kind": kind, "spec": spec},), steps)


def tfjob(policy: str, *steps: Step, **run_policy: Any) -> Case:
    return case(
        TFJOB, {"tfReplicaSpecs": {"Worker": {"restartPolicy": policy}}, "runPolicy": run_policy}, *steps
    )


def outcome(
    verdict: str, created: int, *progress: tuple[str, int], role: str = "worker", **more: Any
) -> Outcome:
    course = tuple(Progress(each, {role: count}) for each, count in progress)
    return Outcome(verdict, {role: created}, **{"left": {}, "progress": course, **more})


def step(what: Happening, code: int = 0, role: str = "worker") -> Step:
    return Step(role, 0, what, code)


DELETION = (step(Happening.DELETE), step(Happening.EXIT))
FAILS_AT_ONCE = outcome(FAILED, 1, (ACTIVE, 1), (FAILED, 1), (FAILED, 1), skipped=(1,))
REPLACES = outcome(SUCCEEDED, 2, (ACTIVE, 1), (ACTIVE, 2), (SUCCEEDED, 2))
FAILS_LATER = outcome(FAILED, 1, (ACTIVE, 1), (ACTIVE, 1), (FAILED, 1))
QUEUE = case("Job", {"parallelism": 2}, step(Happening.EXIT, role="job"), step(Happening.EXIT, 1, role="job"))
BY_CODE = {"podFailurePolicy": {"rules": [{"onExitCodes": {"operator": "In", "values": [137]}}]}}
BY_OTHER = {"podFailurePolicy": {"rules": [{"onExitCodes": {"operator": "In", "values": [1]}}]}}
VANISHED = (step(Happening.VANISH, role="job"),)


def of_job(verdict: str, *created: int) -> Outcome:
    *before, _ = ((ACTIVE, each) for each in created)
    return outcome(verdict, created[-1], *before, (verdict, created[-1]), role="job")


@pytest.mark.parametrize(
    ("played", "original", "other", "is_excused"),
    [
        pytest.param(tfjob("Always", *DELETION), FAILS_AT_ONCE, REPLACES, True, id="deleted pod is replaced"),
        pytest.param(tfjob("Never", *DELETION), FAILS_AT_ONCE, REPLACES, False, id="although Never"),
        pytest.param(
            tfjob("Always", *DELETION),
            FAILS_AT_ONCE,
            outcome(SUCCEEDED, 3, (ACTIVE, 1), (ACTIVE, 3), (SUCCEEDED, 3)),
            False,
            id="deleted pod is replaced twice",
        ),
        pytest.param(
            tfjob("Always", *DELETION),
            FAILS_LATER,
            REPLACES,
            False,
            id="pod is replaced before the original fails",
        ),
        pytest.param(
            tfjob("Always", step(Happening.EVICT), step(Happening.EXIT)),
            FAILS_AT_ONCE,
            REPLACES,
            False,
            id="evicted pod is replaced",
        ),
        pytest.param(
            tfjob("Never", step(Happening.VANISH)),
            outcome(SUCCEEDED, 2, (ACTIVE, 1), (ACTIVE, 2)),
            outcome(FAILED, 1, (ACTIVE, 1), (FAILED, 1)),
            True,
            id="vanished pod fails the job",
        ),
        pytest.param(
            tfjob("Always", step(Happening.VANISH)),
            outcome(SUCCEEDED, 2, (ACTIVE, 1), (ACTIVE, 2)),
            outcome(FAILED, 1, (ACTIVE, 1), (FAILED, 1)),
            False,
            id="although Always",
        ),
        pytest.param(QUEUE, of_job(SUCCEEDED, 2, 2, 2), of_job(ACTIVE, 2, 2, 3), True, id="work queue"),
        pytest.param(
            QUEUE, of_job(SUCCEEDED, 2, 2, 2), of_job(ACTIVE, 2, 2, 4), False, id="two pods for one"
        ),
        pytest.param(
            case("Job", {"parallelism": 2, "completions": 2}, *QUEUE.steps),
            of_job(SUCCEEDED, 2, 2, 2),
            of_job(ACTIVE, 2, 2, 3),
            False,
            id="no work queue",
        ),
        pytest.param(
            case("Job", {"completions": 1, **BY_CODE}, *VANISHED),
            of_job(FAILED, 1, 1),
            of_job(ACTIVE, 1, 2),
            True,
            id="no exit code of a vanished pod",
        ),
        pytest.param(
            case("Job", {"completions": 1, **BY_OTHER}, *VANISHED),
            of_job(FAILED, 1, 1),
            of_job(ACTIVE, 1, 2),
            False,
            id="rule about another exit code",
        ),
        pytest.param(
            tfjob("Never", cleanPodPolicy="None"),
            outcome(FAILED, 2, left={"worker": 2}, running={"worker": 1}),
            outcome(FAILED, 2, left={"worker": 1}),
            True,
            id="running pod is stopped",
        ),
        pytest.param(
            tfjob("Never", cleanPodPolicy="None"),
            outcome(FAILED, 2, left={"worker": 2}, running={"worker": 1}),
            outcome(FAILED, 2, left={}),
            False,
            id="ended pod is deleted too",
        ),
        pytest.param(
            tfjob("Never"),
            outcome(FAILED, 3, (ACTIVE, 2), (FAILED, 3), late={"worker": 1}),
            outcome(FAILED, 2, (ACTIVE, 2), (FAILED, 2)),
            True,
            id="pod after the end",
        ),
        pytest.param(
            tfjob("Never"),
            outcome(FAILED, 3, (ACTIVE, 2), (FAILED, 3)),
            outcome(FAILED, 2, (ACTIVE, 2), (FAILED, 2)),
            False,
            id="pod before the end",
        ),
    ],
)
def test_rules_excuse_only_what_they_explain(
    played: Case, original: Outcome, other: Outcome, is_excused: bool
) -> None:
    assert comparison.differences(original, other)
    assert (comparison.unexpected(played, original, other) == []) is is_excused
