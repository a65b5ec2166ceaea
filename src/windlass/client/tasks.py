"""Parse the names of tasks (`worker-1`, `digits/worker-1`), and find the tasks of a job and their pods."""

import re
from collections.abc import Iterable

import msgspec

from windlass.client import lookup
from windlass.client import pods as views
from windlass.client.connection import Connection
from windlass.client.errors import ObjectNotFoundError
from windlass.client.pods import Pod, Task
from windlass.kubeapi.resources import PODS
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus

EXPECTED = "NAME/ROLE-INDEX, e.g. digits/worker-1"

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})-(?P<index>[0-9]{1,5})")
_ROLE = re.compile(r"[a-z0-9]{1,63}")


class TaskSelector(msgspec.Struct, frozen=True):
    """Selects tasks of a job: one, those of a role, or all."""

    role: str = ""
    index: int | None = None

    @property
    def is_one(self) -> bool:
        return self.index is not None

    def matches(self, task: Task) -> bool:
        return self.role in ("", task.role) and self.index in (None, task.index)


def parse_task(written: str) -> tuple[str, Task]:
    """Parse `digits/worker-1` into the job and the task. Raises ValueError."""
    job, _, name = written.partition("/")
    found = _TASK.fullmatch(name)
    if not job or found is None:
        raise ValueError(f"found {written!r}, expected {EXPECTED}")
    return job, Task(found["role"], int(found["index"]))


def parse_selector(written: str, task: str = "") -> tuple[str, TaskSelector]:
    """Parse `digits`, `digits/worker` or `digits/worker-1`, or the job and the task separately. Raises ValueError."""
    job, _, name = written.partition("/")
    if name and task:
        raise ValueError(f"found {name} and {task}, expected one task")
    name = name or task
    if not job:
        raise ValueError(f"found {written!r}, expected the name of a job")
    if not name:
        return job, TaskSelector()
    found = _TASK.fullmatch(name)
    if found is not None:
        return job, TaskSelector(found["role"], int(found["index"]))
    if _ROLE.fullmatch(name):
        return job, TaskSelector(name)
    raise ValueError(f"found {name!r}, expected a task, e.g. worker-1, or a role, e.g. worker")


def require_tasks(framework: Framework, selector: TaskSelector) -> None:
    """Raises ObjectNotFoundError if the job does not have the selected tasks."""
    if not selector.role:
        return
    role = framework.spec.role(selector.role)
    wanted = 0 if selector.index is None else selector.index
    is_in_spec = role is not None and wanted < role.task_number
    is_in_status = any(
        task.role == selector.role and selector.index in (None, task.index) for task, _ in statuses(framework)
    )
    if is_in_spec or is_in_status:
        return
    meant = selector.role if selector.index is None else str(Task(selector.role, selector.index))
    raise ObjectNotFoundError(
        f"{framework.name} has no task {meant}; its tasks are {describe_tasks(framework)}"
    )


def task_names(framework: Framework) -> tuple[str, ...]:
    """Return the names of all tasks of the spec, in its order."""
    return tuple(
        names.host_name(role.name, index)
        for role in framework.spec.task_roles
        for index in range(role.task_number)
    )


def describe_tasks(framework: Framework) -> str:
    """Return the tasks in a short form: `ps-0, worker-0..3`."""
    has = [
        f"{role.name}-0" if role.task_number == 1 else f"{role.name}-0..{role.task_number - 1}"
        for role in framework.spec.task_roles
        if role.task_number
    ]
    return ", ".join(has) or "none"


def statuses(framework: Framework) -> list[tuple[Task, TaskStatus]]:
    """Return the task statuses of the current attempt; none before the controller has processed the job."""
    if framework.status is None:
        return []
    return [
        (Task(role.name, task.index), task)
        for role in framework.status.attempt_status.roles
        for task in role.task_statuses
    ]


def status_of(framework: Framework, task: Task) -> TaskStatus | None:
    return next((status for each, status in statuses(framework) if each == task), None)


# Pods


def pod_selector(framework: Framework) -> str:
    """Return the label selector of the job's pods."""
    return f"{names.FRAMEWORK_NAME}={framework.name}"


async def list_pods(
    connection: Connection, framework: Framework, selector: TaskSelector | None = None
) -> list[Pod]:
    """Return the existing pods, ordered by role as in the spec and by index."""
    listed = await lookup.list_objects(connection, PODS, connection.namespace, pod_selector(framework))
    return select_pods(framework, map(views.decode, listed), selector or TaskSelector())


def select_pods(framework: Framework, found: Iterable[Pod], selector: TaskSelector) -> list[Pod]:
    order = {role.name: at for at, role in enumerate(framework.spec.task_roles)}
    mine = [pod for pod in found if pod.is_of(framework) and selector.matches(pod.task)]
    return sorted(mine, key=lambda pod: (order.get(pod.task.role, len(order)), pod.task.role, pod.task.index))


def require_container(pod: Pod, asked: str) -> str:
    """Return the named or the default container. Raises ObjectNotFoundError."""
    if not asked:
        return pod.default_container
    if asked in pod.container_names:
        return asked
    raise ObjectNotFoundError(
        f"{pod.task} has no container {asked}; its containers are {', '.join(pod.container_names) or 'none'}"
    )


def waiting_reason(pod: Pod, container: str) -> str:
    """Return why a container has not started, as reported by the scheduler or the kubelet; empty if unknown."""
    status = pod.status_of(container)
    waiting = None if status is None else status.state.waiting
    if waiting is not None and waiting.reason not in ("", "PodInitializing", "ContainerCreating"):
        return ": ".join(part for part in (waiting.reason, waiting.message) if part)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return ": ".join(part for part in (condition.reason, condition.message) if part)
    for init in pod.status.init_container_statuses:
        if init.state.waiting is not None and init.state.waiting.message:
            return f"init container {init.name}: {init.state.waiting.reason}: {init.state.waiting.message}"
        if init.is_running:
            return f"its init container {init.name} is running"
    return waiting.reason if waiting is not None else ""
