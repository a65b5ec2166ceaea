"""Jobs of `windlass render --target plain`: Kubernetes Jobs and StatefulSets with the label of a job, no Framework.

They are converted to a Framework with a status, so that everything that shows a job shows them too. No controller of
Windlass is involved; nothing of this is written to the cluster.
"""

import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from windlass.client import lookup, pods, watch
from windlass.client.connection import Connection
from windlass.client.pods import Condition, Pod
from windlass.k8s.metadata import ObjectMeta
from windlass.kubeapi.errors import ForbiddenError, NotFoundError
from windlass.kubeapi.resources import JOBS, PODS, STATEFUL_SETS, Resource
from windlass.model import completion, names
from windlass.model.base import Json, Sparse
from windlass.model.completion import (
    CompletionCode,
    CompletionTrigger,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec, TaskSpec
from windlass.model.pods import PodPhase
from windlass.model.states import State
from windlass.model.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    RetryPolicyStatus,
    Summary,
    TaskAttemptStatus,
    TaskRoleStatus,
    TaskStatus,
)

API_VERSION = "batch/v1"
"""apiVersion of the converted jobs."""
WATCHED = (JOBS, PODS)
"""The kinds whose changes may change the status of such a job."""
_INDEX = "batch.kubernetes.io/job-completion-index"


class _Template(Sparse, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Json = {}


class _Spec(Sparse, frozen=True):
    completions: int = 1
    replicas: int = 1
    template: _Template = _Template()


class _Status(Sparse, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Workload(Sparse, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()
    kind: str = ""

    @property
    def role(self) -> str:
        return self.spec.template.metadata.labels.get(names.ROLE_LABEL, "")

    @property
    def job_key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.labels.get(names.JOB_LABEL, "")

    def condition(self, name: str) -> Condition | None:
        found = (each for each in self.status.conditions if each.type == name and each.status == "True")
        return next(found, None)


_decode = msgspec.json.Decoder(_Workload).decode


def is_plain(framework: Framework) -> bool:
    return framework.api_version == API_VERSION


def pod_selector(name: str = "") -> str:
    """Return the label selector of the pods of a job, or of all of these jobs."""
    return ",".join((f"{names.JOB_LABEL}={name}" if name else names.JOB_LABEL, names.ROLE_LABEL))


def as_task_pod(pod: Pod) -> Pod:
    """Return the pod with the labels of a task's pod."""
    labels = pod.metadata.labels
    # The last part of the name of a StatefulSet's pod is its index. A Job with one task is not indexed.
    ordinal = pod.name.rpartition("-")[2] if "statefulset.kubernetes.io/pod-name" in labels else "0"
    index = labels.get(_INDEX) or pod.metadata.annotations.get(_INDEX) or ordinal
    task_labels = {names.TASKROLE_NAME: labels.get(names.ROLE_LABEL, ""), names.TASK_INDEX: index}
    metadata = msgspec.structs.replace(
        pod.metadata,
        labels={**labels, names.FRAMEWORK_NAME: labels.get(names.JOB_LABEL, ""), **task_labels},
    )
    return msgspec.structs.replace(pod, metadata=metadata)


async def find(connection: Connection, name: str) -> Framework | None:
    """Return the job of that name, or None."""
    found = await find_all(connection, name)
    return found[0] if found else None


async def find_all(
    connection: Connection, name: str = "", *, in_all_namespaces: bool = False
) -> tuple[Framework, ...]:
    """Return the jobs, sorted by namespace and name. Kinds that the user may not list are left out."""
    namespace = "" if in_all_namespaces else connection.namespace
    selector = f"{names.JOB_LABEL}={name}" if name else names.JOB_LABEL
    workloads: dict[tuple[str, str], list[_Workload]] = defaultdict(list)
    for kind, resource in (("Job", JOBS), ("StatefulSet", STATEFUL_SETS)):
        for body in await _listed(connection, resource, namespace, selector):
            each = msgspec.structs.replace(_decode(body), kind=kind)
            # Other Jobs with the label of a job belong to a Framework, e.g. the one that loads its data.
            if each.role:
                workloads[each.job_key].append(each)
    if not workloads:
        return ()
    by_job: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for body in await _listed(connection, PODS, namespace, pod_selector(name)):
        pod = as_task_pod(pods.decode(body))
        by_job[pod.job_key].append(pod)
    return tuple(_framework(key, workloads[key], by_job[key]) for key in sorted(workloads))


async def watch_job(connection: Connection, framework: Framework) -> AsyncGenerator[Framework | None, None]:
    """Yield the job now and after each change of its pods or Jobs, and None after its deletion."""
    selector = f"{names.JOB_LABEL}={framework.name}"
    async with contextlib.aclosing(
        watch.watch_several(connection, WATCHED, label_selector=selector)
    ) as changes:
        async for _ in changes:
            found = await find(connection, framework.name)
            yield found
            if found is None:
                return


async def _listed(
    connection: Connection, resource: Resource, namespace: str, selector: str
) -> Sequence[msgspec.Raw]:
    try:
        return await lookup.list_objects(connection, resource, namespace, selector)
    except (NotFoundError, ForbiddenError):
        return ()


# Conversion


def _framework(key: tuple[str, str], workloads: Sequence[_Workload], job_pods: Iterable[Pod]) -> Framework:
    namespace, name = key
    first = min(workloads, key=lambda each: _time(each.metadata.creation_timestamp))
    created = _time(first.metadata.creation_timestamp)
    by_task: dict[tuple[str, int], list[Pod]] = defaultdict(list)
    for pod in job_pods:
        by_task[pod.task.role, pod.task.index].append(pod)
    is_over = _is_over(workloads)
    roles = tuple(_role(each, by_task, is_over=is_over) for each in workloads)
    spec = FrameworkSpec(
        task_roles=tuple(
            TaskRoleSpec(
                name=each.role,
                task_number=each.spec.completions if each.kind == "Job" else each.spec.replicas,
                task=TaskSpec(pod={"spec": each.spec.template.spec}),
            )
            for each in workloads
        )
    )
    metadata = ObjectMeta(name=name, namespace=namespace, uid=first.metadata.uid, creation_timestamp=created)
    status = _status(name, created, workloads, roles, spec, is_over=is_over)
    return Framework(api_version=API_VERSION, kind="Job", metadata=metadata, spec=spec, status=status)


def _is_over(workloads: Sequence[_Workload]) -> bool:
    """Return whether a Job failed or all Jobs completed. StatefulSets run until they are deleted."""
    jobs = [each for each in workloads if each.kind == "Job"]
    has_failed = any(each.condition("Failed") for each in jobs)
    return has_failed or (bool(jobs) and all(each.condition("Complete") for each in jobs))


def _role(
    workload: _Workload, by_task: Mapping[tuple[str, int], Sequence[Pod]], *, is_over: bool
) -> TaskRoleStatus:
    is_final = is_over or workload.condition("Failed") is not None
    tasks = [
        _task(index, sorted(found, key=lambda pod: _time(pod.metadata.creation_timestamp)), is_final=is_final)
        for (role, index), found in sorted(by_task.items())
        if role == workload.role
    ]
    return TaskRoleStatus(name=workload.role, task_statuses=tuple(tasks))


def _task(index: int, task_pods: Sequence[Pod], *, is_final: bool) -> TaskStatus:
    """Return the status of a task with its pods, the last of which belongs to its current attempt."""
    pod = task_pods[-1]
    start = _time(pod.metadata.creation_timestamp)
    states: dict[str, State] = {
        PodPhase.RUNNING: State.ATTEMPT_RUNNING,
        PodPhase.SUCCEEDED: State.COMPLETED,
    }
    state = states.get(pod.status.phase, State.ATTEMPT_PREPARING)
    if pod.status.phase == PodPhase.FAILED:
        state = State.COMPLETED if is_final else State.ATTEMPT_COMPLETED
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state.terminated]
    end = max((each.finished_at for each in ended if each.finished_at), default=None) if pod.is_over else None
    has_run = any(status.has_started or status.has_run_before for status in pod.status.container_statuses)
    attempt = TaskAttemptStatus(
        id=len(task_pods) - 1,
        start_time=start,
        run_time=start if has_run else None,
        completion_time=end,
        pod_name=pod.name,
        pod_uid=pod.uid,
        pod_node_name=pod.spec.node_name or None,
        pod_ip=pod.status.pod_ip or None,
        completion_status=_task_completion(pod) if pod.is_over else None,
    )
    return TaskStatus(
        index=index,
        start_time=start,
        completion_time=end if state is State.COMPLETED else None,
        state=state,
        transition_time=end or start,
        retry_policy_status=RetryPolicyStatus(attempt.id, attempt.id),
        attempt_status=attempt,
    )


def _task_completion(pod: Pod) -> TaskAttemptCompletionStatus:
    if pod.status.phase == PodPhase.SUCCEEDED:
        return completion.task_completion(CompletionCode.SUCCEEDED, "")
    containers = tuple(
        ContainerCompletionStatus(
            name=status.name,
            reason=ended.reason,
            message=ended.message,
            signal=ended.signal,
            code=ended.exit_code,
        )
        for status in pod.container_statuses
        if (ended := status.state.terminated) is not None
    )
    ended_pod = PodCompletionStatus(pod.status.reason, pod.status.message, containers)
    code = next((each.code for each in containers if each.code), 0)
    if not code:
        return completion.task_completion(
            CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER, pod.status.message, ended_pod
        )
    return TaskAttemptCompletionStatus(code, "PodFailed", completion.FAILED, "", ended_pod)


def _status(
    name: str,
    created: datetime,
    workloads: Sequence[_Workload],
    roles: Sequence[TaskRoleStatus],
    spec: FrameworkSpec,
    *,
    is_over: bool,
) -> FrameworkStatus:
    tasks = [task for role in roles for task in role.task_statuses]
    has_run = any(task.attempt_status.run_time for task in tasks)
    outcome = _outcome(workloads, roles) if is_over else None
    end = max((task.transition_time for task in tasks), default=created) if is_over else None
    state = State.ATTEMPT_RUNNING if has_run else State.ATTEMPT_PREPARING
    failed = [
        task
        for task in tasks
        if task.is_completed and (ended := task.attempt_status.completion_status) and ended.type.is_failed
    ]
    summary = Summary(
        tasks=sum(role.task_number for role in spec.task_roles),
        running=sum(task.state is State.ATTEMPT_RUNNING for task in tasks),
        succeeded=sum(task.is_completed for task in tasks) - len(failed),
        failed=len(failed),
    )
    attempt = FrameworkAttemptStatus(
        start_time=created,
        completion_time=end,
        config_map_name=f"{name}-cluster",
        completion_status=outcome,
        task_role_statuses=tuple(roles),
    )
    return FrameworkStatus(
        start_time=created,
        completion_time=end,
        state=State.COMPLETED if is_over else state,
        transition_time=end or created,
        attempt_status=attempt,
        summary=summary,
    )


def _outcome(
    workloads: Sequence[_Workload], roles: Sequence[TaskRoleStatus]
) -> FrameworkAttemptCompletionStatus:
    failed = next((each for each in workloads if each.condition("Failed")), None)
    if failed is None:
        return completion.framework_completion(CompletionCode.SUCCEEDED, "")
    condition = failed.condition("Failed") or Condition()
    message = ": ".join(filter(None, (condition.reason, condition.message)))
    tasks = [
        (task.transition_time, task.index, ended.code)
        for role in roles
        if role.name == failed.role
        for task in role.task_statuses
        if (ended := task.attempt_status.completion_status) is not None and ended.type.is_failed
    ]
    if not tasks:
        # E.g. activeDeadlineSeconds: the pods were deleted.
        return FrameworkAttemptCompletionStatus(
            CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER, "JobFailed", completion.FAILED, message
        )
    _, index, code = min(tasks)
    trigger = CompletionTrigger(message, failed.role, index)
    return FrameworkAttemptCompletionStatus(code, "PodFailed", completion.FAILED, message, trigger)


def _time(time: datetime | None) -> datetime:
    return time or datetime.min.replace(tzinfo=UTC)
