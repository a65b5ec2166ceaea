"""Read the environment variables with which a task finds its peers."""

from collections.abc import Sequence

from windlass.client import lookup, tasks
from windlass.client.connection import Connection
from windlass.client.pods import Task
from windlass.client.tasks import TaskSelector
from windlass.discovery import environment, files, gangs
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import CONFIG_MAPS
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus
from windlass.objects import environment as identities
from windlass.wire import codec


async def read(connection: Connection, job: str, task: Task) -> dict[str, str]:
    """Return the discovery variables of a task. Raises ObjectNotFoundError, and the errors of `Connection.send`."""
    framework = await lookup.find(connection, job)
    tasks.require_tasks(framework, TaskSelector(task.role, task.index))
    ports = await _ports(connection, framework)
    variables_of_task = environment.variables_of(framework, ports)
    gang = gangs.gang_of(framework, ports)
    return {
        **_identity(framework, task),
        **variables_of_task(task.role, task.index),
        **({} if gang is None else files.variables(gang)),
    }


async def _ports(connection: Connection, framework: Framework) -> dict[str, int] | None:
    """Return the port of the first task of each role if the pods share the network of one machine. Return None
    otherwise, or if the ConfigMap cannot be read."""
    name = names.config_map_name(framework.name)
    try:
        answer = await connection.send(requests.get(CONFIG_MAPS, framework.namespace, name))
    except (NotFoundError, ForbiddenError):
        return None
    return codec.decode_config_map(answer).first_ports


def _identity(framework: Framework, task: Task) -> dict[str, str]:
    """Return the FC_… variables; none before the task has a status."""
    attempt = None if framework.status is None else framework.status.attempt_status
    for role in () if attempt is None else attempt.roles:
        for status in role.task_statuses:
            if attempt is not None and (role.name, status.index) == (task.role, task.index):
                identity = identities.identity(framework, attempt, role, status)
                return _values(identities.variables(framework.group, identity), status)
    return {}


def _values(variables: Sequence[Json], status: TaskStatus) -> dict[str, str]:
    """Return the values of the variables. Those that the kubelet sets are missing until there is a pod."""
    pod = status.attempt_status.pod_uid
    instance = names.instance_uid(status.attempt_status.id, pod) if pod else None
    from_kubelet = {names.POD_UID: pod, names.TASK_ATTEMPT_INSTANCE_UID: instance}
    values = {each["name"]: each.get("value", "") for each in variables} | from_kubelet
    return {name: value for name, value in values.items() if value is not None}
