"""`windlass env`: what a task is told of its peers, for a shell."""

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Mapping

import click

_TASK = re.compile(r"(?P<framework>[^/]+)/(?P<role>[a-z0-9]+)-(?P<index>[0-9]{1,5})")


def _fish(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{quoted}'"


def _powershell(name: str, value: str) -> str:
    quoted = value.replace("'", "''")
    return f"$Env:{name} = '{quoted}'"


def _posix(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


_FORMS: Mapping[str, Callable[[str, str], str]] = {"sh": _posix, "fish": _fish, "powershell": _powershell}


@click.command()
@click.argument("task", metavar="NAME/ROLE-INDEX")
@click.option("--namespace", "-n", default="", help="Without it: that of the kubeconfig's context.")
@click.option("--shell", type=click.Choice([*_FORMS, "json"]), default="sh", show_default=True)
@click.option("--kubeconfig", default="", help="The file that says where the cluster is and who you are.")
@click.option("--context", default="", help="Of the kubeconfig.")
def env(task: str, namespace: str, shell: str, kubeconfig: str, context: str) -> None:
    """Print the discovery environment of a task, such as digits/worker-1, for a shell to read.

    eval "$(windlass env digits/worker-1)" makes of this shell one that knows what the task knows.
    """
    found = _TASK.fullmatch(task)
    if found is None:
        raise click.UsageError(f"found {task!r}, expected NAME/ROLE-INDEX, such as digits/worker-1")
    # What is heavy is imported here: `windlass --help` must not pay for it.
    from windlass.cli import env_reading
    from windlass.cli.env_reading import Task

    asked = Task(found["framework"], found["role"], int(found["index"]))
    try:
        variables = asyncio.run(env_reading.read(asked, namespace, kubeconfig, context))
    except env_reading.UnknownTaskError as error:
        raise click.ClickException(str(error)) from error
    if shell == "json":
        click.echo(json.dumps(variables, indent=2))
        return
    for name, value in variables.items():
        click.echo(_FORMS[shell](name, value))
