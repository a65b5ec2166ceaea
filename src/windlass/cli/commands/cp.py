"""The command `windlass cp`. `windlass.client.task_files` implements it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli import cluster_options, name_completion, parameters
from windlass.cli.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from windlass.client.pods import Task

_REMOTE = re.compile(r"([^/:]+/[^/:]+):(.+)", re.DOTALL)


@click.command()
@click.argument("source", metavar="SOURCE", shell_complete=name_completion.tasks)
@click.argument("target", metavar="TARGET", shell_complete=name_completion.tasks)
@parameters.container
@cluster_options.options
def cp(source: str, target: str, container: str, cluster: ClusterOptions) -> None:
    """Copy a file or directory to or from a task. One of SOURCE and TARGET is NAME/ROLE-INDEX:PATH.

    The copy of a directory is called TARGET; if that exists, the files are added to it. The image of the task needs
    tar. After the task has ended, files can still be copied from its persistent volumes.

    \b
        windlass cp digits/worker-0:/output ./out
        windlass cp ./data digits/worker-0:/tmp/data
    """
    # Slow imports are here, so that `windlass --help` stays fast.
    from windlass.client import task_files
    from windlass.client.submit import code_archive

    remote_source, remote_target = _parse(source), _parse(target)
    if remote_source is not None and remote_target is None:
        job, task, path = remote_source
        place = Path(target)
        copied = cluster_options.run(cluster, task_files.download, job, task, path, place, container)
    elif remote_target is not None and remote_source is None:
        job, task, path = remote_target
        copied = cluster_options.run(cluster, task_files.upload, Path(source), job, task, path, container)
    else:
        raise click.UsageError(
            "expected a local path and a path of a task, e.g. `windlass cp digits/worker-0:/output ./out`"
        )
    files = "1 file" if copied.files == 1 else f"{copied.files} files"
    click.echo(f"copied {files} ({code_archive.format_size(copied.size)}) to {target}")


def _parse(text: str) -> "tuple[str, Task, str] | None":
    """Return the job, the task and the path; None for a local path. Raises UsageError."""
    from windlass.client import tasks

    match = _REMOTE.fullmatch(text)
    if match is None or text.startswith((".", "/")):
        return None
    try:
        return (*tasks.parse_task(match[1]), match[2])
    except ValueError as error:
        raise click.UsageError(str(error)) from error
