"""The option `--inject` of `run` and `plan`, and what is written behind it."""

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


def parse(written: Iterable[str], jobs: Sequence[Mapping[str, int]]) -> tuple[Injection, ...]:
    """`jobs`: how many tasks each role of each job has. Raises UsageError for what cannot be done to any of them."""
    most: dict[str, int] = {}
    for role, tasks in (pair for roles in jobs for pair in roles.items()):
        most[role] = max(tasks, most.get(role, 0))
    try:
        found = tuple(map(fault_injection.parse, written))
        fault_injection.require_tasks(found, most)
    except fault_injection.InjectionError as error:
        raise click.UsageError(f"{OPTION}: {error}") from error
    return found
