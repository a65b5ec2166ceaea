"""Options that several commands have, and parsers of their values."""

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.jobfile import overrides as override_parsing
from windlass.jobfile.overrides import Override, Overrides
from windlass.model import names
from windlass.wire import diagnostics, durations

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", str, tuple[str, ...])

_END_OF_OPTIONS, _ARGUMENTS = "--", "windlass.arguments"


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


container = click.option(
    "--container",
    "-c",
    default="",
    metavar="NAME",
    help="Container (default: the default-container annotation of the pod, or its first container).",
)
set_option = click.option(
    "--set",
    "fields",
    metavar="PATH=VALUE",
    multiple=True,
    callback=lambda _, parameter, texts: _parsed(parameter, texts, override_parsing.parse_set),
    help="Field of the job file to override, e.g. roles.worker.tasks=4. The value is YAML. Repeatable.",
)


class WithArguments(click.Command):
    """A command whose words after `FILE --` are appended to the commands of jobs: see `overrides`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if _END_OF_OPTIONS in args[1:]:
            at = args.index(_END_OF_OPTIONS, 1)
            args, ctx.meta[_ARGUMENTS] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS...]"]


def overrides(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --set and --env, which the command receives as `overrides`, with the arguments of `WithArguments`."""

    @set_option
    @click.option(
        "--env",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=lambda _, parameter, texts: _parsed(parameter, texts, override_parsing.parse_env),
        help="Environment variable of all tasks. Repeatable.",
    )
    @functools.wraps(command)
    def with_overrides(
        fields: tuple[Override, ...], variables: tuple[Override, ...], **arguments: Any
    ) -> Any:
        words = click.get_current_context().meta.get(_ARGUMENTS, ())
        return command(overrides=Overrides((*fields, *variables), words), **arguments)

    return with_overrides


def env_override(text: str) -> Override:
    """Parse the value of an option --env. Raises UsageError."""
    try:
        return override_parsing.parse_env(text)
    except ValueError as error:
        raise click.UsageError(f"--env: {error}") from error


def _parsed(
    parameter: click.Parameter, texts: tuple[str, ...], parse: Callable[[str], Override]
) -> tuple[Override, ...]:
    try:
        return tuple(map(parse, texts))
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


out = click.option(
    "--out",
    metavar="FILE",
    callback=lambda _context, _parameter, value: None if value == "-" else value,
    help="Output file, written atomically (default: standard output).",
)
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
