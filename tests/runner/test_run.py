"""How long a run is waited for."""

import asyncio
import io
from datetime import UTC, datetime

import pytest

from windlass.cli.terminal.output import Output, Style
from windlass.runner import run
from windlass.runner.interrupts import Interrupts
from windlass.runner.report import Topic, Verdict
from windlass.runner.run_plan import Plan, Work

SECONDS = 0.05


@pytest.mark.parametrize(("is_in_time", "code"), [(True, 3), (False, 124)])
def test_the_timeout_is_for_jobs_and_not_for_companions_that_outlive_them(
    is_in_time: bool, code: int
) -> None:
    async def told() -> int:
        interrupts = Interrupts()

        async def work() -> list[Verdict]:
            if is_in_time:
                interrupts.no_hurry.set()
            await asyncio.sleep(4 * SECONDS)
            return [Verdict(Topic.COMPLETED, datetime.now(UTC), "job", "has completed", exit=3)]

        audience = Output(io.BytesIO(), Style())
        try:
            return await run.told(work(), Work(()), Plan(timeout=SECONDS), interrupts, audience)
        finally:
            audience.finish()

    assert asyncio.run(told()) == code
