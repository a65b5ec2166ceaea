"""At most one leads, whatever happens; and in the end one does."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from elections import Cluster, Fate, Running, pause
from windlass.controller.leader.election import Timings
from windlass.controller.leader.lease import Elector
from windlass.kubeapi.requests import Request


class Chaos:
    """Candidates that stall, die, let go and come back; wall clocks that lie; a network that may do anything."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self.cluster = Cluster(self._fate)
        self.is_calm = False
        self._born = 0

    def _fate(self, _: Request) -> Fate:
        chance = self._random.random()
        if self.is_calm or chance < 0.6:
            return Fate(self._random.uniform(0, 0.2), self._random.uniform(0, 0.2))
        return Fate(
            there=self._random.expovariate(0.3),
            back=self._random.expovariate(0.5),
            arrives=chance < 0.9,
            answers=self._random.random() < 0.7,
            code=500 if chance > 0.85 else 0,
        )

    def _stall(self) -> float:
        if self.is_calm or self._random.random() < 0.95:
            return 0.0
        return self._random.expovariate(0.1)

    def _wall_clock(self) -> Callable[[], datetime]:
        start = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=self._random.uniform(-50, 50))
        rate = self._random.choice([0, 0, 0.5, 1, 2, -1])
        return lambda: start + timedelta(seconds=self.cluster.world.now * rate)

    def candidate(self) -> tuple[Elector, Running]:
        self._born += 1
        duration = self._random.choice([6, 10.5, 15, 20])
        return self.cluster.start(
            f"candidate-{self._born}",
            timings=Timings(duration, duration * 2 / 3, duration / 5),
            now=self._wall_clock(),
            stall=self._stall,
            jitter=self._random.random,
        )

    async def career(self) -> None:
        """One process after the other, on one machine."""
        while True:
            elector, running = self.candidate()
            await pause(self._random.expovariate(0.02))
            if self.is_calm:
                return
            self.cluster.world.kill(running)
            if self._random.random() < 0.5:
                await elector.release()
            await pause(self._random.expovariate(0.2))

    async def somebody_with_kubectl(self) -> None:
        while not self.is_calm:
            await pause(self._random.expovariate(0.05))
            self.cluster.server.touch()


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_never_two_leaders_at_once(first: int) -> None:
    for seed in range(first, first + 50):
        chaos = Chaos(seed)
        world = chaos.cluster.world
        for _ in range(3):
            world.spawn(chaos.career())
        world.spawn(chaos.somebody_with_kubectl())
        world.run(150)
        chaos.is_calm = True
        world.run(90)
        assert sum(elector.remaining() > 0 for elector in chaos.cluster.electors) == 1, f"seed {seed}"
