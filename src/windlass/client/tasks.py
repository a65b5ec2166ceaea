"""The tasks of a job by their names (`worker-1`, `digits/worker-1`), and the pods that run them."""

import re
from collections.abc import Iterable

import msgspec

from windlass.client import lookup
from windlass.client import pods as views
from windlass.client.connection import Connection
from windlass.client.errors import NotThereError
from windlass.client.pods import Pod, Task
from windlass.kubeapi.resources import PODS
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus

EXPECTED = "NAME/ROLE-INDEX, such as digits/worker-1"

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})-(?P<index>[0-9]{1,5})")
_ROLE = re.compile(r"[a-z0-9]{1,63}")


class TaskSelector(msgspec.Struct, frozen=True):
    """Which tasks of a job are meant: one, those of a role, or all."""

    role: str = ""
    index: int | None = None

    @property
    def is_one(self) -> bool:
        return self.index is not None

    def holds(self, task: Task) -> bool:
        return self.role in ("", task.role) and self.index in (None, task.index)


def parse_task(written: str) -> tuple[str, Task]:
    """The job and the task of `digits/worker-1`. Raises ValueError."""
    job, _, name = written.partition("/")
    found = _TASK.fullmatch(name)
    if not job or found is None:
        raise ValueError(f"found {written!r}, expected {EXPECTED}")
    return job, Task(found["role"], int(found["index"]))


def parse_choice(written: str, task: str = "") -> tuple[str, TaskSelector]:
    """Of `digits`, `digits/worker`, `digits/worker-1`, or of the name and the task apart. Raises ValueError."""
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
    raise ValueError(f"found {name!r}, expected a task, such as worker-1, or a role, such as worker")


def require_tasks(framework: Framework, choice: TaskSelector) -> None:
    """Raises NotThereError when the job has no such tasks."""
    if not choice.role:
        return
    role = framework.spec.role(choice.role)
    wanted = 0 if choice.index is None else choice.index
    is_in_spec = role is not None and wanted < role.task_number
    is_in_status = any(
        task.role == choice.role and choice.index in (None, task.index) for task, _ in statuses(framework)
    )
    if is_in_spec or is_in_status:
        return
    meant = choice.role if choice.index is None else str(Task(choice.role, choice.index))
    raise NotThereError(f"{framework.name} has no task {meant}, it has {describe_tasks(framework)}")


def task_names(framework: Framework) -> tuple[str, ...]:
    """All that it is to have, in the order of the spec."""
    return tuple(
        names.host_name(role.name, index)
        for role in framework.spec.task_roles
        for index in range(role.task_number)
    )


def describe_tasks(framework: Framework) -> str:
    """`ps-0, worker-0..3`."""
    has = [
        f"{role.name}-0" if role.task_number == 1 else f"{role.name}-0..{role.task_number - 1}"
        for role in framework.spec.task_roles
        if role.task_number
    ]
    return ", ".join(has) or "none"


def statuses(framework: Framework) -> list[tuple[Task, TaskStatus]]:
    """Of the current attempt, in the order of the status. None before the controller has seen the job."""
    if framework.status is None:
        return []
    return [
        (Task(role.name, task.index), task)
        for role in framework.status.attempt_status.roles
        for task in role.task_statuses
    ]


def status_of(framework: Framework, task: Task) -> TaskStatus | None:
    return next((status for each, status in statuses(framework) if each == task), None)


# The pods that run them


def pod_selector(framework: Framework) -> str:
    """The labels by which its pods are found."""
    return f"{names.FRAMEWORK_NAME}={framework.name}"


async def list_pods(
    connection: Connection, framework: Framework, choice: TaskSelector | None = None
) -> list[Pod]:
    """Those that are there, in the order of the roles in the spec and of the indices."""
    listed = await lookup.list_objects(connection, PODS, connection.namespace, pod_selector(framework))
    return select_pods(framework, map(views.decode, listed), choice or TaskSelector())


def select_pods(framework: Framework, found: Iterable[Pod], choice: TaskSelector) -> list[Pod]:
    order = {role.name: at for at, role in enumerate(framework.spec.task_roles)}
    mine = [pod for pod in found if pod.is_of(framework) and choice.holds(pod.task)]
    return sorted(mine, key=lambda pod: (order.get(pod.task.role, len(order)), pod.task.role, pod.task.index))


def require_container(pod: Pod, asked: str) -> str:
    """The container that is meant. Raises NotThereError."""
    if not asked:
        return pod.default_container
    if asked in pod.container_names:
        return asked
    raise NotThereError(
        f"{pod.task} has no container {asked}, it has {', '.join(pod.container_names) or 'none'}"
    )


def waiting_reason(pod: Pod, container: str) -> str:
    """Why a container has not run yet, in the words of the scheduler or of the node; empty if nobody says."""
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
            return f"its init container {init.name} runs"
    return waiting.reason if waiting is not None else ""
