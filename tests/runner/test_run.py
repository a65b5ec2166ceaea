"""The timeout of a run."""

import asyncio
import io
from datetime import UTC, datetime

import pytest

from windlass.cli.terminal.output import Output, Style
from windlass.client.submit.plan import SubmitPlan
from windlass.runner import run
from windlass.runner.interrupts import Interrupts
from windlass.runner.options import RunOptions
from windlass.runner.report import Topic, Verdict

SECONDS = 0.05


@pytest.mark.parametrize(("is_in_time", "code"), [(True, 3), (False, 124)])
def test_timeout_applies_to_jobs_but_not_to_kept_companions(is_in_time: bool, code: int) -> None:
    async def exit_code() -> int:
        interrupts = Interrupts()

        async def work() -> list[Verdict]:
            if is_in_time:
                interrupts.without_timeout.set()
            await asyncio.sleep(4 * SECONDS)
            return [Verdict(Topic.COMPLETED, datetime.now(UTC), "job", "has completed", exit=3)]

        reporter = Output(io.BytesIO(), Style())
        try:
            options = RunOptions(timeout=SECONDS)
            return await run.run_with_timeout(work(), SubmitPlan(()), options, interrupts, reporter)
        finally:
            reporter.finish()

    assert asyncio.run(exit_code()) == code
