"""The command `windlass plan`. `windlass.simulate` runs the simulation."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli import fault_options, job_files, json_output, parameters
from windlass.cli.terminal import text as terminal_text
from windlass.jobfile.overrides import Overrides
from windlass.model import names
from windlass.model.framework import Framework
from windlass.runner import exit_codes
from windlass.wire import diagnostics, durations

if TYPE_CHECKING:
    from windlass.simulate.plan.simulation import Outcome, Plan, Rescale

_RESCALE = re.compile(r"([a-z0-9]{1,63})=([0-9]{1,9}) after (.+)")


@click.command(
    cls=parameters.WithArguments,
    epilog="The exit code is 0 whatever the outcome of the job, or 2 for an invalid file or command line. With "
    "--exit-code it is that of `windlass run`: 0 if the job would succeed, its completion code if that is between 1 "
    "and 255, else 125; 124 if the job would not end.",
)
@click.argument("file", metavar="FILE")
@fault_options.option
@click.option(
    "--scale",
    "rescaled",
    metavar="ROLE=NUMBER after DURATION",
    multiple=True,
    help="Change of the number of tasks, as by `windlass scale`, e.g. 'worker=4 after 5m'. The time counts from the "
    "submission. Repeatable.",
)
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
@parameters.overrides
@parameters.output("text", "json")
@click.option(
    "--exit-code", "returns_exit_code", is_flag=True, help="Return the exit code that the job would have."
)
def plan(
    file: str,
    injected: tuple[str, ...],
    rescaled: tuple[str, ...],
    task_times: tuple[str, ...],
    start_time: str,
    endless: tuple[str, ...],
    until: str,
    output: str,
    returns_exit_code: bool,
    overrides: Overrides,
) -> None:
    """Simulate failures and show what the jobs in FILE would do: states, retries, delays, completion code and created
    pods. If FILE is -, it is read from standard input.

    The simulation runs the controller's own decision logic on a virtual clock. It needs no cluster and runs no
    commands.

    \b
        windlass plan job.yaml --inject 'kill worker-1 after 5s'
        windlass plan job.yaml --inject 'exit 3 worker-0 every time' --exit-code
        windlass plan job.yaml --scale 'worker=4 after 5m'
        windlass plan job.yaml --set retry=3 --inject 'exit 1 worker-0 every time'
    """
    from windlass.simulate.plan import simulation
    from windlass.simulate.plan.pods import TaskBehavior

    submissions = job_files.source(
        file, names.DEFAULT_NAMESPACE, overrides, checks_files=False
    ).contents.submissions
    frameworks = [simulation.framework_of(submission) for submission in submissions]
    roles = [{role.name: role.task_number for role in each.spec.task_roles} for each in frameworks]
    role_names = tuple(dict.fromkeys(name for each in roles for name in each))
    rescales = [_parse_rescale(written, role_names, frameworks) for written in rescaled]
    for rescale, tasks in ((rescale, tasks) for rescale in rescales for tasks in roles):
        if rescale.role in tasks:
            tasks[rescale.role] = max(tasks[rescale.role], rescale.tasks)
    injections = fault_options.parse(injected, roles)
    run_times = dict(_parse_task_time(written, role_names) for written in task_times)
    for role in endless:
        _require_role("--endless", role, role_names)
    behavior = TaskBehavior(
        starts_after=_seconds("--start-time", start_time),
        runs_for=run_times.pop("", TaskBehavior().runs_for),
        runs_for_by_role=run_times,
        endless=frozenset(endless),
    )
    limit = _seconds("--until", until)
    plans = [
        simulation.plan(
            framework,
            # Other faults are for other jobs of the file.
            [each for each in injections if tasks.get(each.role, 0) > (each.index or 0)],
            behavior.with_endless(simulation.endless_roles(submission)),
            rescales=[each for each in rescales if each.role in tasks],
            until=limit,
        )
        for submission, framework, tasks in zip(submissions, frameworks, roles, strict=True)
    ]
    for number, each in enumerate(plans):
        if output == "json":
            click.echo(json_output.indented(each))
        else:
            click.echo("\n".join((*([""] if number else []), *lines(each))))
    codes = [_exit_code(each.outcome) for each in plans] if returns_exit_code else []
    sys.exit(next((code for code in codes if code), exit_codes.SUCCESS))


def _parse_task_time(written: str, roles: tuple[str, ...]) -> tuple[str, float]:
    """Return the role, empty for all roles, and the seconds."""
    role, equals, duration = written.rpartition("=")
    if equals:
        _require_role("--task-time", role, roles)
    return role, _seconds("--task-time", duration)


def _parse_rescale(written: str, roles: tuple[str, ...], frameworks: Sequence[Framework]) -> "Rescale":
    from windlass.client import scale
    from windlass.client.errors import InvalidJobError
    from windlass.simulate.plan.simulation import Rescale

    match = _RESCALE.fullmatch(written)
    if match is None:
        raise click.UsageError(f"--scale: found {written!r}, expected e.g. 'worker=4 after 5m'")
    rescale = Rescale(match[1], int(match[2]), _seconds("--scale", match[3]))
    _require_role("--scale", rescale.role, roles)
    for framework in frameworks:
        if framework.spec.role(rescale.role) is not None:
            try:
                scale.plan_scaling(framework, {rescale.role: rescale.tasks})
            except InvalidJobError as error:
                raise click.UsageError(f"--scale: {error}") from error
    return rescale


def _require_role(option: str, role: str, roles: tuple[str, ...]) -> None:
    if role not in roles:
        suggestion = diagnostics.did_you_mean(role, roles)
        raise click.UsageError(f"{option}: unknown role {diagnostics.quoted(role)}. {suggestion}")


def _seconds(option: str, written: str) -> float:
    try:
        return durations.parse(written)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _exit_code(outcome: "Outcome") -> int:
    """Return the exit code that `windlass run` would have."""
    if outcome.code is None:
        return exit_codes.TIMED_OUT
    return exit_codes.of_job(outcome.code, has_succeeded=outcome.succeeded)


def lines(plan: "Plan") -> Iterator[str]:
    """Yield the text output."""
    rows = [
        (f"+{terminal_text.format_duration(event.at)}", event.who or plan.job, event.state, event.what)
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
        verb = "fails" if outcome.code else "succeeds"
        yield f"{plan.job} {verb} after {length}: {outcome.why}"
    yield (
        f"{_count(outcome.attempts, 'attempt')}, {_count(outcome.pods, 'pod')} created. Retries of the job: "
        f"{retries.counted} counted toward the limit, {retries.uncounted} not counted; "
        f"of single tasks: {retries.tasks}"
    )
    for each in outcome.never:
        yield f"{'rescale' if '=' in each else 'fault'} that never occurred: {each}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
