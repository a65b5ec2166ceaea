"""What a task of a Framework in a cluster is told of itself and of its peers."""

from collections.abc import Awaitable, Callable

import msgspec

from windlass.discovery import environment, files, gangs
from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import AccessError, AnsweredError, ApiError, ForbiddenError, NotFoundError
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CONFIG_MAPS, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus
from windlass.objects import environment as identities
from windlass.wire import codec

Send = Callable[[Request], Awaitable[bytes]]


class Task(msgspec.Struct, frozen=True):
    framework: str
    role: str
    index: int


class UnknownTaskError(Exception):
    """There is no such task, or the cluster does not say. One message."""


async def read(task: Task, namespace: str, kubeconfig: str, context: str) -> dict[str, str]:
    try:
        found = await access.load(kubeconfig, context)
        async with Transport(found, user_agent="windlass-env") as transport:
            return await _variables(transport.send, task, namespace or found.namespace or "default")
    except (AccessError, ApiError, codec.DecodeError) as error:
        raise UnknownTaskError(str(error)) from error


async def _variables(send: Send, task: Task, namespace: str) -> dict[str, str]:
    framework = await _framework(send, task, namespace)
    ports = await _ports(send, framework)
    told = environment.variables_of(framework, ports)
    gang = gangs.gang_of(framework, ports)
    return {
        **_identity(framework, task),
        **told(task.role, task.index),
        **({} if gang is None else files.variables(gang)),
    }


async def _framework(send: Send, task: Task, namespace: str) -> Framework:
    """Of either group: rights on the one in which it is are enough."""
    denied: AnsweredError | None = None
    for group in names.GROUPS:
        try:
            answer = await send(requests.get(frameworks(group), namespace, task.framework))
        except NotFoundError:
            continue
        except ForbiddenError as error:
            denied = error
            continue
        return _with_task(codec.decode_framework(answer), task)
    if denied is not None:
        raise denied
    raise UnknownTaskError(f"there is no Framework {task.framework} in the namespace {namespace}")


def _with_task(framework: Framework, task: Task) -> Framework:
    role = framework.spec.role(task.role)
    if role is not None and task.index < role.task_number:
        return framework
    has = [
        f"{each.name}-0" if each.task_number == 1 else f"{each.name}-0..{each.task_number - 1}"
        for each in framework.spec.task_roles
        if each.task_number
    ]
    raise UnknownTaskError(
        f"{task.framework} has no task {task.role}-{task.index}, it has {', '.join(has) or 'none'}"
    )


async def _ports(send: Send, framework: Framework) -> dict[str, int] | None:
    """Those of its own that the tasks have on a network that they share: that of an embedded cluster, whose user may
    read everything."""
    try:
        answer = await send(
            requests.get(CONFIG_MAPS, framework.namespace, names.config_map_name(framework.name))
        )
    except (NotFoundError, ForbiddenError):
        return None
    return codec.decode_config_map(answer).task_ports


def _identity(framework: Framework, task: Task) -> dict[str, str]:
    """FC_…, once the task has a status."""
    attempt = None if framework.status is None else framework.status.attempt_status
    for role in () if attempt is None else attempt.roles:
        for status in role.task_statuses if role.name == task.role else ():
            if status.index == task.index and attempt is not None:
                return _filled(framework, identities.identity(framework, attempt, role, status), status)
    return {}


def _filled(framework: Framework, known: dict[str, str], status: TaskStatus) -> dict[str, str]:
    """What its containers are told of themselves, with what the kubelet fills in once there is a pod."""
    told = {each["name"]: each.get("value", "") for each in identities.variables(framework.group, known)}
    pod = status.attempt_status.pod_uid
    if not pod:
        del told[names.POD_UID], told[names.TASK_ATTEMPT_INSTANCE_UID]
        return told
    filled = {
        names.POD_UID: pod,
        names.TASK_ATTEMPT_INSTANCE_UID: names.instance_uid(status.attempt_status.id, pod),
    }
    return {**told, **filled}
