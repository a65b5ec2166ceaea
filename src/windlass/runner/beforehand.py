"""What is there before a job, or before its companions alone: made as `windlass submit` makes it, and told."""

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from windlass.client.connection import Connection
from windlass.client.prerequisites.plan import Preparation
from windlass.kubeapi.transport import Transport
from windlass.runner.report import Line, Topic
from windlass.runner.run_plan import Job

if TYPE_CHECKING:
    from windlass.client.prerequisites.apply import Prepared


@contextlib.asynccontextmanager
async def made(
    transport: Transport,
    job: Job,
    preparation: Preparation,
    tell: Callable[[Line], None],
    *,
    is_ephemeral: bool,
) -> "AsyncIterator[Prepared]":
    """`is_ephemeral`: the cluster goes when the run does. Raises ClientError."""
    from windlass.client.prerequisites import apply as prerequisites_apply

    def say(message: str) -> None:
        tell(Line(Topic.FRAMEWORK, datetime.now(UTC), job.name, "Preparing", message))

    def show(message: str) -> None:
        tell(Line(Topic.COMPANION, datetime.now(UTC), job.name, "Password", message))

    if is_ephemeral and preparation.share is not None:
        say("its nfsServer is a folder of this run: its files go when the run ends, unless --keep keeps them")
    here = Connection(transport, job.namespace, has_answered=True)
    async with prerequisites_apply.prepared(
        here, preparation, say, show=show, is_ephemeral=is_ephemeral
    ) as prepared:
        yield prepared
