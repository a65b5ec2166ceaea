"""Parse the names of tasks (`worker-1`, `digits/worker-1`), and find the tasks of a job and their pods."""

import re

import msgspec

from windlass.client import lookup, plain_jobs, pods
from windlass.client.connection import Connection
from windlass.client.errors import ObjectNotFoundError
from windlass.client.pods import Pod, Task
from windlass.kubeapi.resources import PODS
from windlass.model import names
from windlass.model.framework import Framework
from windlass.model.status import TaskStatus

TASK_FORMAT = "NAME/ROLE-INDEX, e.g. digits/worker-1"

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})-(?P<index>[0-9]{1,5})")
_ROLE = re.compile(r"[a-z0-9]{1,63}")


class TaskSelector(msgspec.Struct, frozen=True):
    """Selects tasks of a job: one, those of a role, or all, and those that other selectors select."""

    role: str = ""
    index: int | None = None
    others: tuple["TaskSelector", ...] = ()

    @property
    def selects_one_task(self) -> bool:
        return self.index is not None and not self.others

    def __str__(self) -> str:
        """Return the task or the role; empty for all tasks."""
        first = self.role if self.index is None else str(Task(self.role, self.index))
        return ", ".join((first, *map(str, self.others)))

    def matches(self, task: Task) -> bool:
        is_first = self.role in ("", task.role) and self.index in (None, task.index)
        return is_first or any(each.matches(task) for each in self.others)

    def matches_label(self, label: str) -> bool:
        """Return whether the task, or a task of the role, with this name is selected."""
        found = _TASK.fullmatch(label)
        if found is not None:
            return self.matches(Task(found["role"], int(found["index"])))
        return any(each.role in ("", label) for each in (self, *self.others))


def parse_task(text: str) -> tuple[str, Task]:
    """Parse `digits/worker-1` into the job and the task. Raises ValueError."""
    job, _, name = text.partition("/")
    found = _TASK.fullmatch(name)
    if not job or found is None:
        raise ValueError(f"found {text!r}, expected {TASK_FORMAT}")
    return job, Task(found["role"], int(found["index"]))


def parse_selector(text: str, task: str = "") -> tuple[str, TaskSelector]:
    """Parse `digits`, `digits/worker` or `digits/worker-1`, or the job and the task separately. Raises ValueError."""
    job, _, name = text.partition("/")
    if name and task:
        raise ValueError(f"found {name} and {task}, expected one task")
    name = name or task
    if not job:
        raise ValueError(f"found {text!r}, expected the name of a job")
    if not name:
        return job, TaskSelector()
    found = _TASK.fullmatch(name)
    if found is not None:
        return job, TaskSelector(found["role"], int(found["index"]))
    if _ROLE.fullmatch(name):
        return job, TaskSelector(name)
    raise ValueError(f"found {name!r}, expected a task, e.g. worker-1, or a role, e.g. worker")


def parse_selectors(text: str) -> TaskSelector:
    """Parse tasks and roles, separated by commas, e.g. `worker,ps-0`; all tasks if it is empty. Raises ValueError."""
    found = [parse_selector("job", each)[1] for each in text.split(",") if each]
    return msgspec.structs.replace(found[0], others=tuple(found[1:])) if found else TaskSelector()


def require_tasks(framework: Framework, selector: TaskSelector) -> None:
    """Raise ObjectNotFoundError if the job does not have the selected tasks."""
    for each in selector.others:
        require_tasks(framework, each)
    if not selector.role:
        return
    role = framework.spec.role(selector.role)
    is_in_spec = role is not None and (selector.index or 0) < role.task_number
    first = TaskSelector(selector.role, selector.index)
    is_in_status = any(first.matches(task) for task, _ in statuses(framework))
    if not is_in_spec and not is_in_status:
        raise ObjectNotFoundError(
            f"{framework.name} has no task {first}; its tasks are {describe_tasks(framework)}"
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
    ranges = [
        f"{role.name}-0" if role.task_number == 1 else f"{role.name}-0..{role.task_number - 1}"
        for role in framework.spec.task_roles
        if role.task_number
    ]
    return ", ".join(ranges) or "none"


def statuses(framework: Framework) -> list[tuple[Task, TaskStatus]]:
    """Return the task statuses of the current attempt; none before the controller has processed the job."""
    if framework.status is None:
        return []
    return [
        (Task(role.name, task.index), task)
        for role in framework.status.attempt_status.roles
        for task in role.task_statuses
    ]


# Pods


def pod_selector(framework: Framework) -> str:
    """Return the label selector of the job's pods."""
    if plain_jobs.is_plain(framework):
        return plain_jobs.pod_selector(framework.name)
    return f"{names.FRAMEWORK_NAME}={framework.name}"


def decode_pod(framework: Framework, body: msgspec.Raw) -> Pod:
    """Return a pod of the job."""
    pod = pods.decode(body)
    return plain_jobs.as_task_pod(pod) if plain_jobs.is_plain(framework) else pod


async def list_pods(
    connection: Connection, framework: Framework, selector: TaskSelector | None = None
) -> list[Pod]:
    """Return the existing pods of the selected tasks, ordered by role as in the spec and by index."""
    listed = await lookup.list_objects(connection, PODS, connection.namespace, pod_selector(framework))
    selected = selector or TaskSelector()
    found = [
        pod
        for body in listed
        for pod in (decode_pod(framework, body),)
        if pod.may_belong_to(framework) and selected.matches(pod.task)
    ]
    order = {role.name: at for at, role in enumerate(framework.spec.task_roles)}
    return sorted(
        found, key=lambda pod: (order.get(pod.task.role, len(order)), pod.task.role, pod.task.index)
    )


def require_container(pod: Pod, name: str) -> str:
    """Return the name of this container, or of the default one if `name` is empty. Raises ObjectNotFoundError."""
    if not name:
        return pod.default_container
    if name in pod.container_names:
        return name
    raise ObjectNotFoundError(
        f"{pod.task} has no container {name}; its containers are {', '.join(pod.container_names) or 'none'}"
    )
