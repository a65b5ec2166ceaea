"""How click reads parameters that several commands take."""

import re

import click

from windlass.model import names
from windlass.wire import diagnostics, durations


def duration(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """90, 90s, 15m, 1h30m → seconds."""
    if value is None:
        return None
    try:
        return durations.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def some_time(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A duration that is longer than nothing."""
    length = duration(context, parameter, value)
    if length == 0:
        raise click.BadParameter(f"found {value!r}, expected more than nothing", param=parameter)
    return length


def namespace(_: click.Context, parameter: click.Parameter, value: str) -> str:
    """Empty: nobody has said one."""
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
