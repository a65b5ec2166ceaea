"""Actions on jobs, in the words of the commands: stop, suspend, resume, delete and run again."""

import asyncio

from windlass.client import delete, lifecycle, run_again
from windlass.client.connection import Connection
from windlass.k8s.formats import is_object_name
from windlass.web import problems
from windlass.web.calls import Call
from windlass.web.schema import Action, ActionRequest, ActionResult, ActionResults, JobKey

MAX_JOBS = 1_000
MAX_CONCURRENT = 10


async def act(call: Call) -> ActionResults:
    request = await call.body(ActionRequest)
    if len(request.jobs) > MAX_JOBS:
        raise problems.invalid(f"jobs: {len(request.jobs)} are too many: at most {MAX_JOBS} at once")
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def act_on(job: JobKey) -> ActionResult:
        async with slots:
            return await _result(call, request.action, job)

    return ActionResults(results=await asyncio.gather(*map(act_on, request.jobs)))


async def _result(call: Call, action: Action, job: JobKey) -> ActionResult:
    key = {"namespace": job.namespace, "name": job.name}
    try:
        if not (is_object_name(job.namespace) and is_object_name(job.name)):
            raise problems.invalid("this is not a name of Kubernetes")
        message, created = await _act(call.viewer.at(job.namespace), action, job.name)
    except Exception as error:
        problem = problems.from_error(error, call.viewer.connection)
        if problem is None:
            raise
        return ActionResult(**key, ok=False, message=problem.message)
    return ActionResult(**key, ok=True, message=message, created_name=created)


async def _act(connection: Connection, action: Action, name: str) -> tuple[str, str | None]:
    """Return a message, and the name of a created job."""
    match action:
        case Action.STOP:
            return (await lifecycle.stop(connection, name)).message, None
        case Action.SUSPEND:
            return (await lifecycle.suspend(connection, name)).message, None
        case Action.RESUME:
            return (await lifecycle.resume(connection, name)).message, None
        case Action.DELETE:
            deletion = await delete.request_deletion(connection, name)
            kept = deletion.kept_storage
            message = f"deleting {name}"
            return (
                f"{message}. {delete.kept_storage_message(kept, connection.namespace)}" if kept else message,
                None,
            )
        case Action.RUN_AGAIN:
            created = (await run_again.run_again(connection, name)).name
            return f"{created} submitted: a copy of {name}", created
