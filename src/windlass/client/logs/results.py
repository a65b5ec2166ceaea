"""The values of a job's result line, e.g. of `result: accuracy=0.97 loss=0.1`."""

import contextlib

from windlass.client import jobs, tasks
from windlass.client.connection import Connection
from windlass.client.logs import reader
from windlass.client.logs.container_log import LogOptions
from windlass.wire import progress
from windlass.wire.progress import Value

_LINES = 200
"""Number of last lines in which the result line of a task is searched."""
_FIRST_TASKS = {"chief-0": 0, "worker-0": 1}


async def read(connection: Connection, name: str, task: str = "") -> dict[str, Value]:
    """Return the values of the last result line of a task, or of the first task that has one; empty without one."""
    framework = await jobs.find(connection, name)
    names = (
        [task] if task else sorted(tasks.task_names(framework), key=lambda each: _FIRST_TASKS.get(each, 2))
    )
    for each in names:
        found: dict[str, Value] = {}
        lines = reader.read_by_name(connection, name, each, LogOptions(tail=_LINES))
        async with contextlib.aclosing(lines):
            async for line in lines:
                found = progress.parse_result(line.text) or found
        if found:
            return found
    return {}
