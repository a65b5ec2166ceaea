"""How `submit` and `run` are asked to look, or not to look, whether the files of a job are there before it starts."""

import click

from windlass.cli import parameters

no_preflight = click.option(
    "--no-preflight", is_flag=True, help="Do not look whether the files of a job are there before it starts."
)
preflight_timeout = click.option(
    "--preflight-timeout",
    metavar="DURATION",
    callback=parameters.some_time,
    help="For so long files may take to be found, such as 30s. [2m]",
)


def seconds(asked: float | None, *, is_wanted: bool) -> float | None:
    """None where nobody looks. Raises UsageError."""
    from windlass.client.prerequisites.plan import PREFLIGHT_SECONDS

    if asked is not None and not is_wanted:
        raise click.UsageError(
            "--preflight-timeout is for a preflight, and --no-preflight says that there is none"
        )
    return (asked or PREFLIGHT_SECONDS) if is_wanted else None
