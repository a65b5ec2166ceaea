"""`windlass run` from its first moment to its last: a cluster, a session on it, and the last line.

The cluster is one of its own, which ends with it, or that of a daemon, which stays.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.client.errors import ClientError
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.runner import exit_codes, report
from windlass.runner.audience import Audience
from windlass.runner.interrupts import Interrupts
from windlass.runner.local.records import Record
from windlass.runner.report import Line, Topic, Verdict
from windlass.runner.run_plan import Plan, Work

if TYPE_CHECKING:
    from windlass.kubeapi.transport import Transport
    from windlass.runner.session import Site

START_SECONDS = 60.0
"""For so long a cluster may take to answer."""


async def run(work: Work, plan: Plan, data: Path, audience: Audience) -> int:
    """The exit code. Everything that was started has ended when it returns."""
    interrupts = _listening(audience)
    options = ClusterOptions(nodes=plan.nodes, network=plan.network, is_ephemeral=True)
    cluster = LocalCluster(data, options)
    try:
        doing = _on_cluster(work, plan, cluster, interrupts, audience)
        return await told(doing, work, plan, interrupts, audience)
    finally:
        await cluster.stop()


async def run_on(work: Work, plan: Plan, data: Path, record: Record, audience: Audience) -> int:
    """On the cluster of a daemon, which goes on when it returns."""
    interrupts = _listening(audience)
    return await told(
        _on_daemon(work, plan, data, record, interrupts, audience), work, plan, interrupts, audience
    )


def _listening(audience: Audience) -> Interrupts:
    interrupts = Interrupts()
    interrupts.listen()
    audience.attach(asyncio.get_running_loop(), interrupts.request)
    return interrupts


async def told(
    doing: Coroutine[Any, Any, list[Verdict]],
    work: Work,
    plan: Plan,
    interrupts: Interrupts,
    audience: Audience,
) -> int:
    """Until it is done, or nobody wants to wait for it any more."""
    task = asyncio.create_task(doing)
    end = asyncio.create_task(interrupts.end.wait())
    no_hurry = asyncio.create_task(interrupts.no_hurry.wait())
    await asyncio.wait({task, end, no_hurry}, timeout=plan.timeout, return_when=asyncio.FIRST_COMPLETED)
    if no_hurry.done():
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    is_over = task.done()
    for each in (task, end, no_hurry):
        each.cancel()
    await asyncio.gather(task, end, no_hurry, return_exceptions=True)
    if is_over:
        verdicts = task.result()
    elif interrupts.end.is_set():
        verdicts = [_error(work, "ended at once", exit_codes.INTERRUPTED)]
    else:
        late = "completed" if plan.has_jobs else "ready"
        verdicts = [_error(work, f"ended: not {late} after {plan.timeout:g} s", exit_codes.NO_ANSWER)]
    if len(verdicts) > 1:
        verdicts.append(report.summary(work.name, verdicts, datetime.now(UTC)))
    for verdict in verdicts:
        audience.say(verdict)
    return verdicts[-1].exit


async def _on_cluster(
    work: Work, plan: Plan, cluster: LocalCluster, interrupts: Interrupts, audience: Audience
) -> list[Verdict]:
    starting = asyncio.create_task(cluster.start())
    try:
        await asyncio.sleep(0)
        # It brings the controller with it, which takes a while; so do the processes that the cluster has just begun.
        from windlass.runner.fault_injector import Injector
        from windlass.runner.session import Session, Site

        async with asyncio.timeout(START_SECONDS):
            await starting
    except CannotStartError as error:
        return [_error(work, f"the cluster cannot start: {error}", exit_codes.NO_ANSWER)]
    except TimeoutError:
        message = f"the cluster did not start within {START_SECONDS:g} s"
        return [_error(work, message, exit_codes.NO_ANSWER)]

    def inject(transport: "Transport", tell: Callable[[Line], None]) -> Injector:
        prefixes = {job.key: job.prefix for job in work.jobs}
        return Injector(plan.injections, cluster, transport, tell, prefixes)

    _say_notes(cluster.notes, audience)
    site = Site(cluster.data, cluster.socket, cluster.network == "shared")
    fitting = work.for_machine(has_mounts=cluster.has_mounts)
    if not plan.has_jobs:
        return await _companions_alone(fitting, plan, site, interrupts, audience)
    session = Session(
        fitting,
        site,
        interrupts,
        audience,
        reads_logs=plan.reads_logs,
        make_injector=inject if plan.injections else None,
    )
    return await _verdicts(session.run(), work)


async def _on_daemon(
    work: Work, plan: Plan, data: Path, record: Record, interrupts: Interrupts, audience: Audience
) -> list[Verdict]:
    from windlass.runner.session import Session, Site

    _say_notes(record.notes, audience)
    site = Site(data, Path(record.socket), record.network == "shared", has_controller=True)
    fitting = work.for_machine(has_mounts=record.has_mounts)
    if not plan.has_jobs:
        return await _companions_alone(fitting, plan, site, interrupts, audience)
    session = Session(fitting, site, interrupts, audience, reads_logs=plan.reads_logs)
    return await _verdicts(session.run(), work)


async def _companions_alone(
    work: Work, plan: Plan, site: "Site", interrupts: Interrupts, audience: Audience
) -> list[Verdict]:
    from windlass.runner import companions_only

    return await _verdicts(companions_only.run(work, site, interrupts, audience, plan.doors), work)


async def _verdicts(session: Coroutine[Any, Any, list[Verdict]], work: Work) -> list[Verdict]:
    from windlass.runner.session import NoAnswerError, RefusedError

    try:
        return await session
    except RefusedError as error:
        return [_error(work, str(error), exit_codes.USAGE)]
    except NoAnswerError as error:
        return [_error(work, str(error), exit_codes.NO_ANSWER)]
    except ClientError as error:
        return [_error(work, str(error), exit_codes.of_client_error(error))]


def _say_notes(notes: tuple[str, ...], audience: Audience) -> None:
    for note in notes:
        audience.say(Line(Topic.NOTE, datetime.now(UTC), "cluster", "Note", note))


def _error(work: Work, message: str, code: int) -> Verdict:
    return Verdict(Topic.ERROR, datetime.now(UTC), work.name, message, exit=code)
