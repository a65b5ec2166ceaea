"""What can be put in place of NAME or NAME/TASK when somebody presses Tab: asked of the cluster, and given up soon.

Nobody waits for a cluster that does not answer, and nobody reads a message at that moment: then there is nothing to
choose from.
"""

import asyncio
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from windlass.model.framework import Framework

SECONDS = 2.0
"""For so long a cluster may take to answer."""


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The names of jobs."""
    names = [item.name for item in _frameworks(ctx)]
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]


def tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The names of jobs; after a slash, the tasks of that job."""
    job, slash, task = incomplete.partition("/")
    found = _frameworks(ctx)
    if not slash:
        names = sorted({item.name for item in found if item.name.startswith(incomplete)})
        if len(names) != 1:
            return [CompletionItem(f"{name}/") for name in names]
        # A shell puts a space after the only choice, and the task is still to come: those are the choices then.
        job = names[0]
    return [CompletionItem(f"{job}/{name}") for name in _tasks(found, job) if name.startswith(task)]


def tasks_of_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The tasks of the job that was named before."""
    job = ctx.params.get("name")
    names = _tasks(_frameworks(ctx), job) if isinstance(job, str) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _tasks(found: "list[Framework]", job: str) -> list[str]:
    from windlass.client import tasks as of_jobs

    return [name for item in found if item.name == job for name in of_jobs.task_names(item)]


def _frameworks(ctx: click.Context) -> "list[Framework]":
    """Those of the namespace; none when anything is in the way."""
    try:
        return asyncio.run(_listed(ctx))
    except Exception:
        return []


async def _listed(ctx: click.Context) -> "list[Framework]":
    from windlass.client import connection as connections
    from windlass.client import lookup
    from windlass.model.framework import Framework

    given = [ctx.params.get(name) or "" for name in ("kubeconfig", "context", "namespace")]
    async with asyncio.timeout(SECONDS), connections.connected(*given) as found:
        listed = await lookup.list_frameworks(found)
    return [item for item in listed if isinstance(item, Framework)]
