"""Options of `windlass run`, and the command after `--`."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from windlass.cli import fault_options, parameters
from windlass.cli.command_job import ALL_GPUS, JobOptions
from windlass.jobfile.overrides import Override
from windlass.model.feature_annotations import Runtime

MAX_FAKE_GPUS = 1000
_COMMAND = "windlass.run.command"
_END_OF_OPTIONS = "--"


class RunArguments(msgspec.Struct, frozen=True):
    """Options that do not describe the job, unlike `JobOptions`."""

    nodes: int = 1
    network: str = "auto"
    fake_gpus: int = 0
    output: str = "text"
    timeout: float | None = None
    images: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()
    fields: tuple[Override, ...] = ()
    """Fields of the job file to override: `--set`."""
    logs: bool | None = None
    """Whether to show log lines. None: show them unless the live view is shown."""
    report: Path | None = None
    """File for a report about the jobs."""
    keep: bool = False
    is_local: bool = False
    """Whether to run on the cluster of `windlass local`."""
    companions_only: bool = False
    no_preflight: bool = False
    preflight_timeout: float | None = None
    verbose: bool = False


class WithCommand(click.Command):
    """A click command that splits off the words after `--` before options are parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if _END_OF_OPTIONS in args:
            at = args.index(_END_OF_OPTIONS)
            args, command = args[:at], args[at + 1 :]
            if not command and not ctx.resilient_parsing:
                raise click.UsageError("expected a command or arguments after --", ctx)
            ctx.meta[_COMMAND] = tuple(command)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            is_about_extra_argument = type(error) is click.UsageError and _COMMAND not in ctx.meta
            if not is_about_extra_argument:
                raise
            advice = "write a command after --, e.g. windlass run --workers 2 -- python train.py"
            raise click.UsageError(f"{error.format_message()}: {advice}", ctx) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return (
            ["[OPTIONS]", "FILE [-- ARGUMENTS...] | -- COMMAND..."]
            if self.params
            else super().collect_usage_pieces(ctx)
        )


def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options. The function gets `file`, `command`, `job_options` and the fields of `RunArguments`."""

    @functools.wraps(function)
    @click.pass_context
    def command(
        ctx: click.Context,
        /,
        file: str | None,
        name: str,
        runtime: str | None,
        ps: int | None,
        workers: int | None,
        chief: int | None,
        roles: tuple[str, ...],
        env: tuple[str, ...],
        barrier: bool,
        gpus: int | None,
        cpus: str,
        memory: str,
        **run_arguments: Any,
    ) -> Any:
        numbers = {"chief": chief, "ps": ps, "workers": workers}
        job_options = JobOptions(
            name=name,
            runtime=Runtime(runtime) if runtime is not None else None,
            numbers={option: number for option, number in numbers.items() if number is not None},
            roles=roles,
            env=env,
            has_barrier=barrier,
            gpus=gpus,
            cpus=cpus,
            memory=memory,
        )
        words = ctx.meta.get(_COMMAND, ())
        return function(file=file, command=words, job_options=job_options, **run_arguments)

    for add in reversed(_OPTIONS):
        add(command)
    return command


class _GpuCount(click.IntRange):
    """A number of GPUs, or `all`."""

    name = "number of GPUs"

    def __init__(self) -> None:
        super().__init__(0, 10_000)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return ALL_GPUS if value == "all" else super().convert(value, param, ctx)


_COUNT = click.IntRange(0, 10_000)
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("file", metavar="FILE", required=False),
    click.option(
        "--logs/--no-logs",
        default=None,
        help="Show the tasks' log lines instead of the live table, or hide them.",
    ),
    parameters.output("text", "json"),
    click.option(
        "--report",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write a report about the job to FILE at the end, as `windlass report` does: HTML, or JSON or Markdown if "
        "the name ends with .json or .md. With several jobs, each file name has the name of its job.",
    ),
    click.option(
        "--timeout",
        metavar="DURATION",
        callback=parameters.positive_duration,
        help="Maximum duration of the run or, with --companions-only, until the companions are ready, e.g. 90s "
        "(default: no limit).",
    ),
    parameters.set_option,
    fault_options.option,
    click.option(
        "--keep", is_flag=True, help="Keep the cluster running after the jobs and print how to use it."
    ),
    click.option(
        "--local",
        "is_local",
        is_flag=True,
        help="Run on the cluster of `windlass local`, which is started if necessary and keeps running.",
    ),
    click.option(
        "--companions-only",
        is_flag=True,
        help="Start only the jobs' companions (TensorBoard, Jupyter, hub), until Ctrl-C.",
    ),
    click.option(
        "--nodes",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        metavar="N",
        help="Number of logical nodes.",
    ),
    click.option(
        "--network",
        type=click.Choice(["auto", "isolated", "shared"]),
        default="auto",
        show_default=True,
        help="Network of the pods: their own (isolated) or the host's, with one address per pod (shared).",
    ),
    click.option(
        "--fake-gpus",
        type=click.IntRange(0, MAX_FAKE_GPUS),
        default=0,
        metavar="N",
        help="Number of simulated GPUs that replace those of the machine, to test scheduling. Programs cannot use "
        "them.",
    ),
    click.option(
        "--image",
        "images",
        metavar="NAME=DIR",
        multiple=True,
        help="Local image: a directory bound to an image name. Repeatable.",
    ),
    click.option(
        "--config-map",
        "config_maps",
        metavar="NAME=PATH",
        multiple=True,
        help="ConfigMap to create from a file or a directory. Repeatable.",
    ),
    parameters.no_preflight,
    parameters.preflight_timeout,
    click.option(
        "--verbose", is_flag=True, help="Print the logs of the cluster and the controller to stderr."
    ),
    click.option(
        "--workers",
        type=_COUNT,
        metavar="N",
        help="Number of workers, with -- COMMAND (default: 1, or 0 with --chief or --role).",
    ),
    click.option(
        "--ps", type=_COUNT, metavar="N", help="Number of parameter servers, with -- COMMAND (default: 0)."
    ),
    click.option("--chief", type=_COUNT, metavar="N", help="Number of chiefs, with -- COMMAND (default: 0)."),
    click.option(
        "--role",
        "roles",
        metavar="NAME=N",
        multiple=True,
        help="Additional role and its number of tasks, with -- COMMAND. Repeatable.",
    ),
    click.option(
        "--runtime",
        type=click.Choice([str(runtime) for runtime in Runtime]),
        help="Runtime, which selects the discovery variables, with -- COMMAND (default: tensorflow with --ps, else "
        "inferred from the script).",
    ),
    click.option(
        "--name",
        default="",
        metavar="NAME",
        help="Name of the job, with -- COMMAND (default: the name of the script or program).",
    ),
    click.option(
        "--env",
        metavar="NAME=VALUE",
        multiple=True,
        help="Environment variable of the tasks. Repeatable.",
    ),
    click.option(
        "--gpus",
        type=_GpuCount(),
        metavar="N|all",
        help="Number of GPUs per task except parameter servers, or all: an equal share of this machine's GPUs, with "
        "-- COMMAND (default: none).",
    ),
    click.option("--cpus", default="", metavar="N", help="CPU cores per task, e.g. 2, with -- COMMAND."),
    click.option("--memory", default="", metavar="SIZE", help="Memory per task, e.g. 8Gi, with -- COMMAND."),
    click.option(
        "--barrier",
        is_flag=True,
        help="Start the tasks only when all of them have addresses, with -- COMMAND.",
    ),
)
