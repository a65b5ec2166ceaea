"""One walk over all tasks: each follows its pod, then is retried, completed or ended."""

from datetime import datetime

import msgspec

from windlass.decide import deletion, rescale, task_lifecycle
from windlass.decide.builder import Draft
from windlass.decide.types import CreatePod, ReasonKind
from windlass.model.completion import CompletionCode
from windlass.model.framework import RetryPolicySpec
from windlass.model.states import COMPLETED, CREATION_PENDING
from windlass.model.status import TaskRoleStatus, TaskStatus

SCALED_AWAY = "The spec does not want the task any more"
A_FEW = 8
"""So many names that others have taken hold up no other task."""
ATTEMPT_ENDED = "The Framework attempt has ended before the task did"


def over_active_attempt(draft: Draft) -> None:
    """Rescale, follow, retry: what happens while the attempt is wanted."""
    attempt_id = draft.status.attempt_status.id
    roles = rescale.mark(draft.framework, draft.status.attempt_status.roles, attempt_id, draft.now)
    policies = {spec.name: spec.task.retry_policy for spec in draft.spec.task_roles}

    def advance(role: str, task: TaskStatus) -> TaskStatus:
        if task_lifecycle.is_settled(draft, task):
            return task
        if task.deletion_pending:
            task = task_lifecycle.follow_to_the_end(
                draft, role, task, CompletionCode.DELETE_TASK_REQUESTED, SCALED_AWAY
            )
        else:
            task = task_lifecycle.follow(draft, role, task)
        return task_lifecycle.retry_or_complete(draft, role, task, policies.get(role, RetryPolicySpec()))

    roles = _mapped(roles, advance)
    roles, ended = rescale.settle(draft.framework, roles, attempt_id, draft.now)
    for role, task in ended:
        draft.explain_end_of_task(
            ReasonKind.TASK_DELETED, f"Task {role}-{task.index} was scaled away", role, task
        )
    draft.with_roles(roles)


def over_ending_attempt(draft: Draft) -> None:
    """The attempt is decided: the tasks that had not completed end with it, and none is retried."""
    if are_all_completed(draft):
        return

    def end(role: str, task: TaskStatus) -> TaskStatus:
        if task.is_completed:
            return task
        task = task_lifecycle.follow_to_the_end(
            draft, role, task, CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, ATTEMPT_ENDED
        )
        return task_lifecycle.complete(draft, task)

    draft.with_roles(_mapped(draft.status.attempt_status.roles, end))


def are_all_completed(draft: Draft) -> bool:
    return all(
        task.state is COMPLETED for role in draft.status.attempt_status.roles for task in role.task_statuses
    )


def _mapped(roles: tuple[TaskRoleStatus, ...], step: "task_lifecycle.Step") -> tuple[TaskRoleStatus, ...]:
    """The same roles, and the same tuple of them, where no task changed."""
    mapped = []
    for role in roles:
        tasks = [step(role.name, task) for task in role.task_statuses]
        is_unchanged = all(map(_is_same, tasks, role.task_statuses))
        mapped.append(role if is_unchanged else msgspec.structs.replace(role, task_statuses=tuple(tasks)))
    return roles if all(map(_is_same, mapped, roles)) else tuple(mapped)


def _is_same(new: object, old: object) -> bool:
    return new is old


def act_on_pods(draft: Draft) -> None:
    """Create the pods that are missing, delete those that have to go."""
    pods = draft.observed.pods
    claimed: set[str] = set()
    missing: list[tuple[str, TaskStatus]] = []
    for role in draft.status.attempt_status.roles:
        for task in role.task_statuses:
            attempt = task.attempt_status
            if task.state is CREATION_PENDING:
                # Somebody may have its name: a stranger, or a pod of ours on its way out.
                if not task.deletion_pending and attempt.pod_name not in pods:
                    missing.append((role.name, task))
                continue
            pod = pods.get(attempt.pod_name)
            if pod is None or pod.uid != attempt.pod_uid:
                continue
            claimed.add(pod.uid)
            if task.state.is_ending:
                deletion.delete_pod(draft, pod)
    _create_pods(draft, missing, existing=len(claimed))
    if len(claimed) < len(pods):
        deletion.delete_strays(draft, claimed)


def _create_pods(draft: Draft, missing: list[tuple[str, TaskStatus]], existing: int) -> None:
    """All at once, as long as none was turned down.

    From then on no more may be waiting for their next try than there are pods already, and a few if there are none: a
    quota that is used up is asked about by a few pods, later each time, and not by thousands. Those that were turned
    down come first, so that a refusal that concerns all does not begin anew with each name.
    """
    postponed = draft.observed.outcomes.postponed
    fresh: list[CreatePod] = []
    due: list[tuple[datetime, CreatePod]] = []
    waiting = 0
    for role, task in missing:
        until = postponed.get(task.attempt_status.pod_name)
        if until is None:
            fresh.append(CreatePod(role, task.index))
        elif draft.is_past(until):
            due.append((until, CreatePod(role, task.index)))
        else:
            waiting += 1
    if due or waiting:
        due.sort(key=lambda entry: entry[0])
        more = max(0, max(A_FEW, existing) - waiting)
        fresh = [*(creation for _, creation in due), *fresh][:more]
    for creation in fresh:
        draft.act(creation)
