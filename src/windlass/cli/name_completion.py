"""Complete the names of jobs and tasks with a query to the cluster.

If the cluster does not respond soon or reports an error, there are no completions.
"""

import asyncio
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from windlass.cli import cluster_options

if TYPE_CHECKING:
    from windlass.model.framework import Framework

TIMEOUT_SECONDS = 2.0


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the name of a job."""
    names = [item.name for item in _frameworks(ctx)]
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]


def tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete the name of a job, or of a task after a slash."""
    job, slash, task = incomplete.partition("/")
    frameworks = _frameworks(ctx)
    if not slash:
        names = sorted({item.name for item in frameworks if item.name.startswith(incomplete)})
        if len(names) != 1:
            return [CompletionItem(f"{name}/") for name in names]
        # A shell adds a space after a single completion: return the tasks instead.
        job = names[0]
    return [CompletionItem(f"{job}/{name}") for name in _tasks(frameworks, job) if name.startswith(task)]


def tasks_of_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete a task of the job in the previous argument."""
    job = ctx.params.get("name")
    names = _tasks(_frameworks(ctx), job) if isinstance(job, str) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _tasks(frameworks: "list[Framework]", job: str) -> list[str]:
    from windlass.client import tasks as client_tasks

    return [name for item in frameworks if item.name == job for name in client_tasks.task_names(item)]


def _frameworks(ctx: click.Context) -> "list[Framework]":
    """Return the Frameworks of the namespace; none after an error."""
    try:
        return asyncio.run(_list_frameworks(ctx))
    except Exception:
        return []


async def _list_frameworks(ctx: click.Context) -> "list[Framework]":
    from windlass.client import connection as connections
    from windlass.client import lookup
    from windlass.model.framework import Framework

    kubeconfig, context, namespace = (
        ctx.params.get(name) or "" for name in ("kubeconfig", "context", "namespace")
    )
    is_local = bool(ctx.params.get("is_local"))
    options = (
        cluster_options.selected_kubeconfig(kubeconfig, context, is_local=is_local),
        context,
        namespace,
    )
    async with asyncio.timeout(TIMEOUT_SECONDS), connections.connected(*options) as connection:
        listed = await lookup.list_frameworks(connection)
    return [item for item in listed if isinstance(item, Framework)]
