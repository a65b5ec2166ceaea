"""Decide whether to colour the output, and assign a colour to each task."""

import os
from collections.abc import Mapping, Sequence

import click

AUTO, ALWAYS, NEVER = "auto", "always", "never"

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""Colours of the terminal palette that are readable on light and on dark backgrounds."""
RESET = "\x1b[0m"

option = click.option(
    "--color",
    type=click.Choice([AUTO, ALWAYS, NEVER]),
    default=AUTO,
    show_default=True,
    help="When to color the output. auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
)


def is_enabled(choice: str, *, is_terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    variables = os.environ if environment is None else environment
    if choice != AUTO:
        return choice == ALWAYS
    is_dumb = variables.get("TERM") == "dumb"
    return is_terminal and not variables.get("NO_COLOR") and not is_dumb


def assign(tasks: Sequence[str]) -> dict[str, int]:
    """Assign colours by the order of the tasks in the job, so that neighbours differ."""
    return {task: _COLOURS[at % len(_COLOURS)] for at, task in enumerate(tasks)}


def colour(text: str, code: int | None) -> str:
    """Return the text with a colour; unchanged for None."""
    return text if code is None else f"\x1b[{code}m{text}{RESET}"
