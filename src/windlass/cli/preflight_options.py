"""Options of `submit` and `run` for the preflight, which checks that the required files of a job exist."""

import click

from windlass.cli import parameters

no_preflight = click.option(
    "--no-preflight", is_flag=True, help="Skip the check that a job's required files exist."
)
preflight_timeout = click.option(
    "--preflight-timeout",
    metavar="DURATION",
    callback=parameters.positive_duration,
    help="How long to wait for required files, e.g. 30s (default: 2m).",
)


def seconds(asked: float | None, *, is_wanted: bool) -> float | None:
    """Return the time limit of the preflight; None without one. Raises UsageError."""
    from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS

    if asked is not None and not is_wanted:
        raise click.UsageError("--preflight-timeout and --no-preflight are mutually exclusive")
    return (asked or PREFLIGHT_SECONDS) if is_wanted else None
