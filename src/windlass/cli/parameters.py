"""Parsers of parameters that several commands have."""

import re

import click

from windlass.model import names
from windlass.wire import diagnostics, durations


def duration(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Parse a duration (90, 90s, 15m, 1h30m) into seconds."""
    if value is None:
        return None
    try:
        return durations.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def positive_duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Parse a duration greater than 0."""
    length = duration(context, parameter, value)
    if length == 0:
        raise click.BadParameter(f"found {value!r}, expected more than 0", param=parameter)
    return length


def namespace(_: click.Context, parameter: click.Parameter, value: str) -> str:
    """Validate a namespace. Empty means the default."""
    if value and not re.fullmatch(names.DNS_LABEL_PATTERN, value):
        expected = "expected lower-case letters, digits and hyphens, with a letter or digit at both ends"
        raise click.BadParameter(f"found {diagnostics.quoted(value)}, {expected}", param=parameter)
    return value


timeout = click.option(
    "--timeout",
    metavar="DURATION",
    callback=duration,
    help="How long to wait, e.g. 90s or 10m (default: no limit).",
)
