"""The option `--inject` of `run` and `plan`, and the parser of its value."""

from collections.abc import Iterable, Mapping, Sequence

import click

from windlass.wire import fault_injection
from windlass.wire.fault_injection import Injection

OPTION = "--inject"

option = click.option(
    OPTION,
    "injected",
    metavar="FAULT",
    multiple=True,
    help="Fault to inject into a task, e.g. 'kill worker-1 after 5s', 'exit 3 worker-0', 'delete ps-0' or "
    "'delay worker-1 by 30s'. Repeatable.",
)


def parse(texts: Iterable[str], jobs: Sequence[Mapping[str, int]]) -> tuple[Injection, ...]:
    """Parse faults. `jobs` are the numbers of tasks of each job, by role. A task that no job has is an error.

    Raises UsageError.
    """
    max_tasks: dict[str, int] = {}
    for role, tasks in (pair for roles in jobs for pair in roles.items()):
        max_tasks[role] = max(tasks, max_tasks.get(role, 0))
    try:
        found = tuple(map(fault_injection.parse, texts))
        fault_injection.require_tasks(found, max_tasks)
    except fault_injection.InjectionError as error:
        raise click.UsageError(f"{OPTION}: {error}") from error
    return found
