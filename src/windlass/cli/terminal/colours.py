"""Whether output is coloured, and in which colour a task is: always the same one, so that one finds it again."""

import os
from collections.abc import Mapping, Sequence

import click

AUTO, ALWAYS, NEVER = "auto", "always", "never"

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""Of the terminal's own palette: those that are read on a light background and on a dark one."""
RESET = "\x1b[0m"

option = click.option(
    "--color",
    type=click.Choice([AUTO, ALWAYS, NEVER]),
    default=AUTO,
    show_default=True,
    help="When to color the output. auto: on a terminal, unless NO_COLOR is set.",
)


def is_wanted(choice: str, *, is_terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    given = os.environ if environment is None else environment
    if choice != AUTO:
        return choice == ALWAYS
    is_dumb = given.get("TERM") == "dumb"
    return is_terminal and not given.get("NO_COLOR") and not is_dumb


def of_tasks(tasks: Sequence[str]) -> dict[str, int]:
    """By their order in the job, so that neighbours differ."""
    return {task: _COLOURS[at % len(_COLOURS)] for at, task in enumerate(tasks)}


def painted(text: str, colour: int | None) -> str:
    """None: as it is."""
    return text if colour is None else f"\x1b[{colour}m{text}{RESET}"
