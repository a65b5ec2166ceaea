"""How click reads parameters that several commands take."""

import click

from windlass.wire import durations


def duration(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """90, 90s, 15m, 1h30m → seconds."""
    if value is None:
        return None
    try:
        return durations.seconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def some_time(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A duration that is longer than nothing."""
    length = duration(context, parameter, value)
    if length == 0:
        raise click.BadParameter(f"found {value!r}, expected more than nothing", param=parameter)
    return length
