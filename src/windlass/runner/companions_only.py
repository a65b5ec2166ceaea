"""Companions without their jobs, on the cluster of a run: until somebody ends them, or none of them can be had."""

from datetime import UTC, datetime

from windlass.kubeapi import access
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.transport import Transport
from windlass.runner import beforehand, exit_codes, objects
from windlass.runner.audience import Audience
from windlass.runner.companions import Companions
from windlass.runner.interrupts import Interrupts
from windlass.runner.report import Topic, Verdict
from windlass.runner.run_plan import Doors, Work
from windlass.runner.session import NoAnswerError, Site, first_of


async def run(
    work: Work, site: Site, interrupts: Interrupts, audience: Audience, doors: Doors
) -> list[Verdict]:
    """How it went. On a cluster that stays, it is over once they are there. Raises as `Session.run` does."""
    interrupts.can_be_graceful = True
    try:
        async with Transport(access.unix(site.socket), user_agent="windlass-run") as transport:
            companions = Companions(transport, audience.say, doors)

            async def go_on() -> None:
                await _start(work, site, transport, audience, companions)
                await companions.until_settled()
                if site.is_ephemeral:
                    interrupts.no_hurry.set()
                    await companions.until_gone()

            try:
                await first_of(go_on(), interrupts.stop.wait())
                return [_verdict(work.name, companions, was_ended=interrupts.stop.is_set())]
            finally:
                await companions.end()
    except ApiError as error:
        raise NoAnswerError(f"the cluster did not do what it was asked for: {error}") from error


async def _start(
    work: Work, site: Site, transport: Transport, audience: Audience, companions: Companions
) -> None:
    # Nobody looks after Frameworks, but a notebook may ask for them.
    await objects.define(transport, work)
    await objects.create_others(transport, work)
    companions.tell_passwords(work)
    companions.open(work.written_companions)
    for job in work.jobs:
        if job.preparation is not None and job.companions:
            async with beforehand.made(
                transport, job, job.preparation, audience.say, is_ephemeral=site.is_ephemeral
            ):
                companions.open(job.companions)


def _verdict(name: str, companions: Companions, *, was_ended: bool) -> Verdict:
    now = datetime.now(UTC)
    if was_ended:
        return Verdict(Topic.COMPANION, now, name, "its companions have ended", exit=exit_codes.SUCCESS)
    if companions.where:
        return Verdict(Topic.COMPANION, now, name, "its companions go on", exit=exit_codes.SUCCESS)
    return Verdict(Topic.ERROR, now, name, "none of its companions could be had", exit=exit_codes.FAILED)
