"""The probes of a run in virtual time, and the calls of the listener."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from windlass.localcluster.kubelet.probes.prober import Prober
from windlass.localcluster.kubelet.probes.schedule import Kill

Json = dict[str, Any]
CODES = {"+": 0, "-": 1}


class EnoughError(Exception):
    """Ends a run that would go on, when all scripts are played."""


class Stage:
    """Time, the container and the listener in one. Each command answers as the next letter of its script says."""

    def __init__(self, scripts: dict[str, str], deleted_after: float = 1e9) -> None:
        self.now = 0.0
        self._scripts = {name: list(script) for name, script in scripts.items()}
        self._deleted_after = deleted_after
        self.told: list[tuple[float, str]] = []

    def monotonic(self) -> float:
        return 1000 + self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        if not any(self._scripts.values()):
            raise EnoughError
        self.now += seconds

    def pod(self) -> Json:
        gone = {"deletionTimestamp": "2026-01-02T12:00:00Z"} if self.now >= self._deleted_after else {}
        return {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", **gone},
            "spec": {"containers": [{"name": "main"}], "terminationGracePeriodSeconds": 30},
        }

    async def exec(self, argv: Sequence[str], timeout: float) -> tuple[int, bytes]:
        script = self._scripts[argv[0]]
        if not script:
            raise RuntimeError("lost")
        letter = script.pop(0)
        self.told.append((self.now, f"{argv[0]} {letter}"))
        if letter == "?":
            raise OSError("no such command")
        return CODES[letter], b"no"

    async def connect(self, host: str, port: int) -> Any:
        raise NotImplementedError

    def on_change(self, has_started: bool, is_ready: bool) -> None:
        self.told.append((self.now, f"started {has_started}, ready {is_ready}"))

    def on_unhealthy(self, message: str) -> None:
        self.told.append((self.now, message))

    def on_kill(self, kill: Kill) -> None:
        self.told.append((self.now, f"kill in {kill.grace_seconds}: {kill.message}"))


def probe(kind: str, **more: int) -> Json:
    return {f"{kind}Probe": {"exec": {"command": [kind]}, "periodSeconds": 5, **more}}


def played(stage: Stage, *probes: Json, age: float = 0) -> list[tuple[float, str]]:
    container: Json = {"name": "main"}
    for one in probes:
        container |= one
    clock: Json = {"age": timedelta(seconds=age), "monotonic": stage.monotonic, "sleep": stage.sleep}
    prober = Prober(container, stage.pod, stage, stage, **clock)
    try:
        asyncio.run(prober.run())
    except EnoughError:
        stage.told.append((stage.now, "goes on"))
    return stage.told


FAILED = "Liveness probe failed: no"
RESTARTED = "kill in 30: Container main failed liveness probe, will be restarted"


@pytest.mark.parametrize(
    ("scripts", "probes", "expected"),
    [
        pytest.param({}, [], [(0, "started True, ready True")], id="none"),
        pytest.param(
            {"readiness": "-+"},
            [probe("readiness")],
            [
                (0, "started True, ready False"),
                (0, "readiness -"),
                (0, "Readiness probe failed: no"),
                (5, "readiness +"),
                (5, "started True, ready True"),
                (5, "goes on"),
            ],
            id="becomes ready",
        ),
        pytest.param(
            {"readiness": "+-"},
            [probe("readiness", failureThreshold=1, initialDelaySeconds=7)],
            [
                (0, "started True, ready False"),
                (7, "readiness +"),
                (7, "started True, ready True"),
                (12, "readiness -"),
                (12, "Readiness probe failed: no"),
                (12, "started True, ready False"),
                (12, "goes on"),
            ],
            id="is ready no longer",
        ),
        pytest.param(
            {"liveness": "+--"},
            [probe("liveness", failureThreshold=2)],
            [
                (0, "started True, ready True"),
                (0, "liveness +"),
                (5, "liveness -"),
                (5, FAILED),
                (10, "liveness -"),
                (10, FAILED),
                (10, RESTARTED),
            ],
            id="is killed",
        ),
        pytest.param(
            {"liveness": "?-"},
            [probe("liveness", failureThreshold=1, terminationGracePeriodSeconds=3)],
            [
                (0, "started True, ready True"),
                (0, "liveness ?"),
                (0, "Liveness probe errored and resulted in unknown state: no such command"),
                (5, "liveness -"),
                (5, FAILED),
                (5, RESTARTED.replace("30", "3")),
            ],
            id="an error does not count",
        ),
        pytest.param(
            {"startup": "-+", "liveness": "+", "readiness": "+"},
            [probe("startup"), probe("liveness"), probe("readiness")],
            [
                (0, "started False, ready False"),
                (0, "startup -"),
                (0, "Startup probe failed: no"),
                (5, "startup +"),
                (5, "started True, ready False"),
                (5, "readiness +"),
                (5, "started True, ready True"),
                (5, "liveness +"),
                (5, "goes on"),
            ],
            id="the others wait for the start",
        ),
    ],
)
def test_probes_of_a_run(
    scripts: dict[str, str], probes: list[Json], expected: list[tuple[float, str]]
) -> None:
    assert played(Stage(scripts), *probes) == expected


def test_adopted_run_counts_its_age() -> None:
    stage = Stage({"readiness": "+"})
    assert played(stage, probe("readiness", initialDelaySeconds=30), age=28)[1] == (2, "readiness +")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("liveness", []),
        ("startup", []),
        ("readiness", [(5, "readiness -"), (5, "Readiness probe failed: no"), (5, "goes on")]),
    ],
)
def test_terminating_pod_is_not_killed_by_liveness(kind: str, expected: list[tuple[float, str]]) -> None:
    stage = Stage({kind: "-" if kind == "readiness" else "---"}, deleted_after=5)
    told = played(stage, probe(kind, initialDelaySeconds=5, failureThreshold=2))
    assert told[1:] == expected


def test_unexpected_exception_does_not_end_the_prober() -> None:
    told = played(Stage({"readiness": "", "liveness": "-"}), probe("readiness"), probe("liveness"))
    assert (0, "Readiness probe errored and resulted in unknown state: lost") in told
    assert (0, FAILED) in told
