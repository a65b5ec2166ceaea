"""The command `windlass env`."""

import json
import shlex
from collections.abc import Callable, Mapping

import click

from windlass.cli import cluster_options, name_completion
from windlass.cli.cluster_options import ClusterOptions


def _fish(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{quoted}'"


def _powershell(name: str, value: str) -> str:
    quoted = value.replace("'", "''")
    return f"$Env:{name} = '{quoted}'"


def _posix(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


_FORMATTERS: Mapping[str, Callable[[str, str], str]] = {
    "sh": _posix,
    "fish": _fish,
    "powershell": _powershell,
}


@click.command()
@click.argument("name", metavar="NAME", shell_complete=name_completion.tasks)
@click.argument("task", metavar="[TASK]", default="", shell_complete=name_completion.tasks_of_job)
@click.option("--shell", type=click.Choice([*_FORMATTERS, "json"]), default="sh", show_default=True)
@cluster_options.options
def env(name: str, task: str, shell: str, cluster: ClusterOptions) -> None:
    """Print the environment variables for peer discovery, e.g. TF_CONFIG, of TASK, e.g. worker-1, of the job NAME, as
    shell commands or JSON. NAME/TASK is the same.

    To set them in the current shell:

    \b
        eval "$(windlass env digits/worker-1)"
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import env as client_env
    from windlass.client import tasks

    try:
        job, parsed_task = tasks.parse_task(f"{name}/{task}" if task else name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    variables = cluster_options.run(cluster, client_env.read, job, parsed_task)
    if shell == "json":
        click.echo(json.dumps(variables, indent=2))
        return
    for name, value in variables.items():
        click.echo(_FORMATTERS[shell](name, value))
