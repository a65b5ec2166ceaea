"""Options that several commands have, and parsers of their values."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.model import names
from windlass.wire import diagnostics, durations

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", str, tuple[str, ...])


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
    seconds = duration(context, parameter, value)
    if seconds == 0:
        raise click.BadParameter(f"found {value!r}, expected more than 0", param=parameter)
    return seconds


def namespace(_: click.Context, parameter: click.Parameter, value: T) -> T:
    """Validate one namespace or several. Empty means the default."""
    for name in filter(None, (value,) if isinstance(value, str) else value):
        if not re.fullmatch(names.DNS_LABEL_PATTERN, name):
            expected = "expected lower-case letters, digits and hyphens, with a letter or digit at both ends"
            raise click.BadParameter(f"found {diagnostics.quoted(name)}, {expected}", param=parameter)
    return value


def output(*formats: str) -> Callable[[F], F]:
    """Return the option --output, which the command receives as `output`. The first format is the default."""
    return click.option("--output", "-o", type=click.Choice(formats), default=formats[0], show_default=True)


timeout = click.option(
    "--timeout",
    metavar="DURATION",
    callback=duration,
    help="How long to wait, e.g. 90s or 10m (default: no limit).",
)
no_preflight = click.option(
    "--no-preflight", is_flag=True, help="Skip the check that a job's required files exist."
)
preflight_timeout = click.option(
    "--preflight-timeout",
    metavar="DURATION",
    callback=positive_duration,
    help="How long to wait for required files, e.g. 30s (default: 2m).",
)


def preflight_seconds(timeout: float | None, *, is_skipped: bool) -> float | None:
    """Return the time limit of the preflight, which checks that required files exist; None if it is skipped."""
    from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS

    if timeout is not None and is_skipped:
        raise click.UsageError("--preflight-timeout and --no-preflight are mutually exclusive")
    return None if is_skipped else timeout or PREFLIGHT_SECONDS
