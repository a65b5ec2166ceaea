"""The command `windlass plan`. `windlass.simulate` runs the simulation."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import fault_options, job_files
from windlass.cli.terminal import text as terminal_text
from windlass.model import names
from windlass.model.framework import Framework
from windlass.runner import exit_codes
from windlass.wire import diagnostics, durations
from windlass.wire.fault_injection import Injection

if TYPE_CHECKING:
    from windlass.render.documents import Submission
    from windlass.simulate.plan.pods import TaskBehavior
    from windlass.simulate.plan.simulation import Outcome, Plan


class PlanArguments(msgspec.Struct, frozen=True):
    """Options about the simulated tasks, and the time after which to stop."""

    injected: tuple[str, ...]
    task_times: tuple[str, ...]
    start_time: str
    endless: tuple[str, ...]
    until: str


class Job(msgspec.Struct, frozen=True):
    framework: Framework
    endless: frozenset[str]
    """Roles whose tasks never exit on their own, according to the job file."""


@click.command(
    epilog="The exit code is 0 whatever the outcome of the job, or 2 for an invalid file or command line. With "
    "--exit-code it is that of `windlass run`: 0 if the job would succeed, its completion code if that is between 1 "
    "and 255, else 125; 124 if the job would not end."
)
@click.argument("file", metavar="FILE")
@fault_options.option
@click.option(
    "--task-time",
    "task_times",
    metavar="[ROLE=]DURATION",
    multiple=True,
    help="Run time of a task without faults, for all roles or for one (default: 10m). Repeatable.",
)
@click.option(
    "--start-time",
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="Time from the creation of a pod until it runs.",
)
@click.option(
    "--endless",
    metavar="ROLE",
    multiple=True,
    help="Role whose tasks never exit on their own, e.g. parameter servers. Repeatable.",
)
@click.option(
    "--until",
    default="30d",
    show_default=True,
    metavar="DURATION",
    help="Simulated time after which to stop.",
)
@click.option(
    "--output", "-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--exit-code", "is_exit_wanted", is_flag=True, help="Return the exit code that the job would have."
)
def plan(
    file: str,
    injected: tuple[str, ...],
    task_times: tuple[str, ...],
    start_time: str,
    endless: tuple[str, ...],
    until: str,
    form: str,
    is_exit_wanted: bool,
) -> None:
    """Simulate failures and show what the jobs in FILE would do: states, retries, delays, completion code and created
    pods. - reads standard input.

    The simulation runs the controller's own decisions on a virtual clock. It needs no cluster and runs no commands.

    \b
        windlass plan job.yaml --inject 'kill worker-1 after 5s'
        windlass plan job.yaml --inject 'exit 3 worker-0 every time' --exit-code
    """
    wanted = PlanArguments(injected, task_times, start_time, endless, until)
    submissions = job_files.source(file, names.DEFAULT_NAMESPACE).contents.submissions
    jobs = tuple(map(_job, submissions))
    plans = _plans(jobs, wanted)
    for number, each in enumerate(plans):
        if form == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(each)).decode())
        else:
            click.echo("\n".join((*([""] if number else []), *lines(each))))
    codes = [exit_code(each.outcome) for each in plans] if is_exit_wanted else []
    sys.exit(next((code for code in codes if code), exit_codes.SUCCESS))


def _job(submission: "Submission") -> Job:
    """Render a job as it is submitted, without a status that the file may have."""
    from windlass.client.submit import plan as planner
    from windlass.render.framework import completion
    from windlass.wire import codec

    rendered = planner.render_framework(submission)
    framework = codec.decode_framework(msgspec.json.encode({**rendered, "status": None}))
    job = submission.job
    endless = () if job is None else (role for role in job.roles if completion.is_endless(job, role))
    return Job(framework, frozenset(endless))


def _plans(jobs: Sequence[Job], wanted: PlanArguments) -> "tuple[Plan, ...]":
    from windlass.simulate.plan import simulation

    roles = [{role.name: role.task_number for role in job.framework.spec.task_roles} for job in jobs]
    injections = fault_options.parse(wanted.injected, roles)
    behavior = _task_behavior(wanted, tuple(dict.fromkeys(name for each in roles for name in each)))
    until = _seconds("--until", wanted.until)
    return tuple(
        simulation.plan(
            job.framework,
            _injections_for(job.framework, injections),
            behavior.with_endless(job.endless),
            until=until,
        )
        for job in jobs
    )


def _injections_for(framework: Framework, injections: Iterable[Injection]) -> list[Injection]:
    """Return the faults for tasks of this job. The others are for other jobs of the file."""
    tasks = {role.name: role.task_number for role in framework.spec.task_roles}
    return [each for each in injections if tasks.get(each.role, 0) > (each.index or 0)]


def _task_behavior(wanted: PlanArguments, roles: tuple[str, ...]) -> "TaskBehavior":
    from windlass.simulate.plan.pods import TaskBehavior

    runs_for, runs_for_of = TaskBehavior().runs_for, {}
    for written in wanted.task_times:
        role, equals, length = written.rpartition("=")
        if equals:
            _require_role("--task-time", role, roles)
            runs_for_of[role] = _seconds("--task-time", length)
        else:
            runs_for = _seconds("--task-time", length)
    for role in wanted.endless:
        _require_role("--endless", role, roles)
    return TaskBehavior(
        starts_after=_seconds("--start-time", wanted.start_time),
        runs_for=runs_for,
        runs_for_of=runs_for_of,
        endless=frozenset(wanted.endless),
    )


def _require_role(option: str, role: str, roles: tuple[str, ...]) -> None:
    if role not in roles:
        suggestion = diagnostics.did_you_mean(role, roles)
        raise click.UsageError(f"{option}: unknown role {diagnostics.quoted(role)}. {suggestion}")


def _seconds(option: str, written: str) -> float:
    try:
        return durations.parse(written)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def exit_code(outcome: "Outcome") -> int:
    """Return the exit code that `windlass run` would have."""
    if outcome.code is None:
        return exit_codes.NO_ANSWER
    return exit_codes.of_job(outcome.code, has_succeeded=outcome.succeeded)


def lines(plan: "Plan") -> Iterator[str]:
    """Yield the text output."""
    rows = [
        (f"+{terminal_text.format_clock(event.at)}", event.who or plan.job, event.state, event.what)
        for event in plan.events
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for at, who, state, what in rows:
        yield f"{at:>{widths[0]}}  {who:<{widths[1]}}  {state:<{widths[2]}}  {what}".rstrip()
    yield from _verdict(plan)


def _verdict(plan: "Plan") -> Iterator[str]:
    outcome, retries = plan.outcome, plan.outcome.retries
    if outcome.code is None:
        yield f"{plan.job} does not end: {outcome.why}"
    else:
        length = durations.format_seconds(int(outcome.seconds))
        yield f"{plan.job} ends with {outcome.phrase} ({outcome.code}) after {length}. {outcome.why}"
    yield (
        f"{_counted(outcome.attempts, 'attempt')}, {_counted(outcome.pods, 'pod')} created. Retries of the job: "
        f"{retries.counted} counted, {retries.uncounted} not counted; of single tasks: {retries.tasks}"
    )
    for injection in outcome.never:
        yield f"fault that never occurred: {injection}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
