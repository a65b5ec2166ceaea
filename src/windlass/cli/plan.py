"""`windlass plan`: what would become of a job, told in seconds and without a cluster. Played by `windlass.testing`."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import exit_codes, injecting, lint
from windlass.model.framework import Framework
from windlass.wire import durations, faults
from windlass.wire.injections import Injection

if TYPE_CHECKING:
    from windlass.render.documents import Submission
    from windlass.testing.planned import Outcome, Plan
    from windlass.testing.planned_pods import Habits

DEFAULT_NAMESPACE = "default"
LARGEST_CODE = 255


class Wanted(msgspec.Struct, frozen=True):
    """What the command line says of the tasks, and for how long they are followed."""

    injected: tuple[str, ...]
    task_times: tuple[str, ...]
    start_time: str
    endless: tuple[str, ...]
    until: str


class Job(msgspec.Struct, frozen=True):
    framework: Framework
    endless: frozenset[str]
    """Roles of which its job file says that they never end by themselves."""


@click.command(
    epilog="Exits with 0 however the job would end, with 2 if the file or the command is wrong. With --exit-code, as "
    "`windlass run` would: 0 only for success, the completion code if that is one of 1..255, 125 for any other; 124 if "
    "the job would not end."
)
@click.argument("file", metavar="FILE")
@injecting.option
@click.option(
    "--task-time",
    "task_times",
    metavar="[ROLE=]DURATION",
    multiple=True,
    help="How long a task runs if nothing befalls it, of all roles or of one. Without it: 10m. May be repeated.",
)
@click.option(
    "--start-time", default="2s", show_default=True, help="From the creation of a pod until it runs."
)
@click.option(
    "--endless",
    metavar="ROLE",
    multiple=True,
    help="A role whose tasks never end by themselves, as those of a parameter server do. May be repeated.",
)
@click.option("--until", default="30d", show_default=True, help="Follow a job for no longer than that.")
@click.option("--output", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--exit-code", "is_exit_wanted", is_flag=True, help="Exit as the job would.")
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
    """Say what would become of the jobs in FILE: states, retries, delays, the final code and the pods made. FILE may be
    - for the standard input.

    The controller's own decisions are played on a virtual clock. There is no cluster, and nothing is run.
    """
    wanted = Wanted(injected, task_times, start_time, endless, until)
    plans = _plans(_jobs(file), wanted)
    for number, each in enumerate(plans):
        if form == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(each)).decode())
        else:
            click.echo("\n".join((*([""] if number else []), *lines(each))))
    codes = [exit_code(each.outcome) for each in plans] if is_exit_wanted else []
    sys.exit(next((code for code in codes if code), exit_codes.SUCCESS))


def _jobs(file: str) -> tuple[Job, ...]:
    """Says what is wrong with the file, and goes no further if it is an error."""
    from windlass.render import documents

    try:
        data = lint.read(file)
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    found = documents.read(data, lint.called(file))
    for fault in found.faults:
        click.echo(str(fault), err=True)
    if any(fault.is_error for fault in found.faults):
        sys.exit(exit_codes.USAGE)
    return tuple(map(_job, found.submissions))


def _job(submission: "Submission") -> Job:
    from windlass.render import completion
    from windlass.wire import codec

    framework = codec.decode_framework(msgspec.json.encode(submission.framework()))
    job = submission.job
    endless = () if job is None else (role for role in job.roles if completion.is_endless(job, role))
    return Job(_placed(framework), frozenset(endless))


def _placed(framework: Framework) -> Framework:
    """As it is submitted: in a namespace, and without a status that an earlier life left in the file."""
    metadata = msgspec.structs.replace(framework.metadata, namespace=framework.namespace or DEFAULT_NAMESPACE)
    return msgspec.structs.replace(framework, metadata=metadata, status=None)


def _plans(jobs: Sequence[Job], wanted: Wanted) -> "tuple[Plan, ...]":
    from windlass.testing import planned

    tasks: dict[str, int] = {}
    for role in (role for job in jobs for role in job.framework.spec.task_roles):
        tasks[role.name] = max(role.task_number, tasks.get(role.name, 0))
    injections = injecting.asked_for(wanted.injected, tasks)
    habits = _habits(wanted, tasks)
    until = _seconds("--until", wanted.until)
    return tuple(
        planned.plan(
            job.framework,
            _concerning(job.framework, injections),
            habits.with_endless(job.endless),
            until=until,
        )
        for job in jobs
    )


def _concerning(framework: Framework, injections: Iterable[Injection]) -> list[Injection]:
    """Of several jobs, one that has no such task is left alone."""
    tasks = {role.name: role.task_number for role in framework.spec.task_roles}
    return [each for each in injections if tasks.get(each.role, 0) > (each.index or 0)]


def _habits(wanted: Wanted, roles: Mapping[str, int]) -> "Habits":
    from windlass.testing.planned_pods import Habits

    runs_for, runs_for_of = Habits().runs_for, {}
    for written in wanted.task_times:
        role, equals, length = written.rpartition("=")
        if equals:
            _insist_on_role("--task-time", role, roles)
            runs_for_of[role] = _seconds("--task-time", length)
        else:
            runs_for = _seconds("--task-time", length)
    for role in wanted.endless:
        _insist_on_role("--endless", role, roles)
    return Habits(
        starts_after=_seconds("--start-time", wanted.start_time),
        runs_for=runs_for,
        runs_for_of=runs_for_of,
        endless=frozenset(wanted.endless),
    )


def _insist_on_role(option: str, role: str, roles: Mapping[str, int]) -> None:
    if role not in roles:
        suggestion = faults.did_you_mean(role, tuple(roles))
        raise click.UsageError(f"{option}: there is no role {faults.quoted(role)}. {suggestion}")


def _seconds(option: str, written: str) -> float:
    try:
        return durations.seconds(written)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def exit_code(outcome: "Outcome") -> int:
    """What `windlass run` would exit with."""
    if outcome.code is None:
        return exit_codes.NO_ANSWER
    if outcome.succeeded:
        return exit_codes.SUCCESS
    return outcome.code if 1 <= outcome.code <= LARGEST_CODE else exit_codes.OTHER_CODE


def lines(plan: "Plan") -> Iterator[str]:
    """For people."""
    rows = [(f"+{clock(event.at)}", event.who or plan.job, event.state, event.what) for event in plan.events]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for at, who, state, what in rows:
        yield f"{at:>{widths[0]}}  {who:<{widths[1]}}  {state:<{widths[2]}}  {what}".rstrip()
    yield from _verdict(plan)


def _verdict(plan: "Plan") -> Iterator[str]:
    outcome, retries = plan.outcome, plan.outcome.retries
    if outcome.code is None:
        yield f"{plan.job} does not end: {outcome.why}"
    else:
        length = durations.written(int(outcome.seconds))
        yield f"{plan.job} ends with {outcome.phrase} ({outcome.code}) after {length}. {outcome.why}"
    yield (
        f"{_counted(outcome.attempts, 'attempt')}, {_counted(outcome.pods, 'pod')} made. Retries of the job: "
        f"{retries.counted} counted, {retries.uncounted} not counted; of single tasks: {retries.tasks}"
    )
    for injection in outcome.never:
        yield f"never happened: {injection}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours before them where there are some."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
