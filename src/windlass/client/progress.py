"""The progress that a running job reports in its log, for a list of many jobs: one short request per job."""

from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ResponseError
from windlass.model import names
from windlass.wire import progress
from windlass.wire.progress import Progress

TAIL_LINES = 100
MAX_BYTES = 64 * 1024


async def read_latest(connection: Connection, job: str, role: str, index: int = 0) -> Progress | None:
    """Return the last progress in the last lines of a task's log; None if there is none or it cannot be read."""
    request = requests.log(
        connection.namespace,
        names.pod_name(job, role, index),
        tailLines=str(TAIL_LINES),
        limitBytes=str(MAX_BYTES),
    )
    try:
        data = await connection.send(request)
    except (ClientError, ResponseError):
        return None
    return next((found for _, found in reversed(list(progress.parse_lines(data)))), None)


def describe(found: Progress) -> str:
    """Return e.g. `120/300 loss=0.31`."""
    values = [f"{name}={value}" for name, value in found.values.items()]
    return " ".join((f"{found.step}/{found.total}" if found.total else str(found.step), *values))
