"""Policies of a Volcano Job: events and exit codes with the actions that follow, and when the job succeeds.

The policies of the task come first, then those of the job. The first that matches decides. A failure class of the role
stands for each event of its pods, and gives the failure a phrase. Completion rules then select failures by phrase.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from windlass.convert.conversion import Draft, Keys
from windlass.convert.volcano_tasks import Task
from windlass.model.base import Json
from windlass.model.completion import CompletionCode

ANY, FAILED, EVICTED, PENDING = "*", "PodFailed", "PodEvicted", "PodPending"
COMPLETED, RESTARTED = "TaskCompleted", "TaskFailed"
_WITHOUT_EFFECT = {
    "Unknown": "it reports that a gang lost its nodes, and there are no gangs",
    "JobUpdated": "Volcano does not send this event",
}
_EVENTS = (ANY, FAILED, EVICTED, PENDING, COMPLETED, RESTARTED, *_WITHOUT_EFFECT)
RESTART_JOB, RESTART_TASK, RESTART_POD, RESTART_PARTITION = (
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
)
ABORT, TERMINATE, COMPLETE, RESUME = "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob"
_ACTIONS = (RESTART_JOB, RESTART_TASK, RESTART_POD, RESTART_PARTITION, ABORT, TERMINATE, COMPLETE, RESUME)
_ENDING = (ABORT, TERMINATE)
_PERMANENT: Json = {"attributes": ["Permanent"]}
_COUNTED: Json = {"attributes": []}
_TRANSIENT: Json = {"attributes": ["Transient"]}
_DELETED: Json = {
    "codeRanges": [
        {"min": int(CompletionCode.POD_EXTERNAL_DELETED), "max": int(CompletionCode.POD_EXTERNAL_DELETED)}
    ]
}
_POD_FAILED: Json = {
    "codeRanges": [{"min": 1}, {"max": int(CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER)}]
}
"""A failed pod: an exit code, or a reason such as Evicted."""


class Policy(msgspec.Struct, frozen=True):
    events: tuple[str, ...]
    exit_code: int | None
    action: str
    timeout: str | None
    keys: Keys

    def matches(self, event: str) -> bool:
        return event in self.events or ANY in self.events


class Response(msgspec.Struct, frozen=True):
    """The action that follows an event of a task; an empty action is none."""

    event: str
    action: str = ""
    exit_code: int | None = None
    keys: Keys = ()

    @property
    def is_retry(self) -> bool:
        return self.action == RESTART_POD

    def phrase(self, task: Task) -> str:
        """Return the phrase of the failures of a task. Failures that no policy handles are counted at the end."""
        return f"{task.role}{self.event}{self.action}" if self.action else f"{task.role}Failed"


def put_policies(draft: Draft, tasks: Sequence[Task], available: int, retries: int) -> None:
    """Put failure classes, task retries and completion rules."""
    _check(draft, tasks)
    rules: list[Json] = []
    total = sum(task.replicas for task in tasks)
    needed = draft.get("minSuccess")
    if needed is not None:
        if needed > total:
            draft.refuse(
                ("spec", "minSuccess"), f"greater than the number of pods, which is {total}: reduce it"
            )
        rules.append({"name": "minSuccess", "minSucceededTaskCount": needed})
    responses = {task.role: _responses(draft, task) for task in tasks if task.replicas > 0}
    by_role = {task.role: task for task in tasks}
    for role, found in responses.items():
        task = by_role[role]
        _put_failure_classes(draft, task, found)
        _put_pending_deadline(draft, task)
        rules += _completed_rules(draft, task)
    for role, found in responses.items():
        rules += _failed_rules(by_role[role], found)
        rules += _restarted_rules(draft, by_role[role])
    retried = [role for role, found in responses.items() if any(each.is_retry for each in found)]
    if retried:
        limit: Json = {"taskRoles": retried, "minFailedAttemptCount": retries, "type": _PERMANENT}
        rules.append({"name": "maxRetry", **limit})
        if any(each.action == RESTART_JOB for found in responses.values() for each in found):
            draft.note(
                ("spec", "maxRetry"),
                "RestartPod and RestartJob are counted separately here; the original has one counter",
            )
    rules += _final_rules(tasks, available, needed)
    draft.framework({"completionPolicies": rules})


# Reading policies


def _policies(draft: Draft, task: Task) -> Iterator[Policy]:
    """Yield the policies of a task, then those of the job."""
    for given, keys in ((task.body.get("policies"), task.keys), (draft.get("policies"), ("spec",))):
        for at, policy in enumerate(given or ()):
            yield _policy(policy, (*keys, "policies", at))


def _policy(policy: Json, keys: Keys) -> Policy:
    events = tuple(policy.get("events") or ())
    if policy.get("event"):
        events = (*events, policy["event"])
    timeout = policy.get("timeout")
    return Policy(
        tuple(dict.fromkeys(events)),
        policy.get("exitCode"),
        policy.get("action") or "",
        None if timeout is None else str(timeout),
        keys,
    )


def _check(draft: Draft, tasks: Sequence[Task]) -> None:
    """Report what Volcano rejects, and events without effect."""
    lists: list[tuple[Any, Keys]] = [(draft.get("policies"), ("spec",))]
    lists += [(task.body.get("policies"), task.keys) for task in tasks]
    for given, keys in lists:
        seen: set[str | int] = set()
        for at, body in enumerate(given or ()):
            policy = _policy(body, (*keys, "policies", at))
            _check_policy(draft, policy)
            values = (*policy.events, *(() if policy.exit_code is None else (policy.exit_code,)))
            for value in values:
                if value in seen:
                    draft.refuse(policy.keys, f"another policy has {value} already: remove one of them")
            seen.update(values)
        if ANY in seen and len([each for each in seen if isinstance(each, str)]) > 1:
            draft.refuse((*keys, "policies"), "the event * includes all others: remove them, or *")


def _check_policy(draft: Draft, policy: Policy) -> None:
    if policy.action not in _ACTIONS:
        draft.refuse(
            (*policy.keys, "action"), f"found {policy.action!r}, expected one of {', '.join(_ACTIONS)}"
        )
    for event in policy.events:
        if event not in _EVENTS:
            draft.refuse(policy.keys, f"found the event {event}, expected one of {', '.join(_EVENTS)}")
        elif event in _WITHOUT_EFFECT:
            draft.no_effect(policy.keys, f"event {event}: {_WITHOUT_EFFECT[event]}")
    if bool(policy.events) == (policy.exit_code is not None):
        draft.refuse(policy.keys, "expected either event, or events, or exitCode")
    if policy.exit_code == 0:
        draft.refuse((*policy.keys, "exitCode"), "0 is not a failure")
    is_delayed = _seconds(policy.timeout) not in (None, 0.0)
    if is_delayed and policy.events != (PENDING,):
        draft.refuse(
            (*policy.keys, "timeout"), "actions follow at once, except after PodPending: remove the timeout"
        )
    if policy.events == (PENDING,) and policy.timeout is None:
        draft.no_effect(policy.keys, "PodPending has no effect without a timeout, as in the original")


def _seconds(timeout: str | None) -> float | None:
    """Return a duration of Go in seconds."""
    if timeout is None:
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
    total, number, rest = 0.0, "", timeout
    while rest:
        unit = next((each for each in ("ms", "h", "m", "s") if number and rest.startswith(each)), None)
        if unit is None:
            number, rest = number + rest[0], rest[1:]
            continue
        try:
            total += float(number) * units[unit]
        except ValueError:
            return None
        number, rest = "", rest[len(unit) :]
    return total if number in ("", "0") else None


def _action(draft: Draft, policy: Policy | None, task: Task) -> str:
    """Return the action of a policy for a task; empty if it does nothing."""
    if policy is None or policy.action == RESUME:
        return ""
    action, partition = policy.action, task.body.get("partitionPolicy") or {}
    if action == RESTART_PARTITION:
        if partition.get("partitionSize") == 1:
            return RESTART_POD
        if partition.get("totalPartitions") != 1:
            draft.refuse(
                (*policy.keys, "action"),
                f"{action} is not supported for {task.name}: use RestartPod or RestartJob",
            )
            return ""
        action = RESTART_TASK
    if action == RESTART_TASK:
        if task.replicas > 1:
            draft.refuse(
                (*policy.keys, "action"),
                f"{policy.action} restarts all pods of {task.name} and no others, which is not supported: use "
                "RestartPod or RestartJob",
            )
            return ""
        return RESTART_POD
    return action


def _first(draft: Draft, task: Task, event: str) -> Policy | None:
    return next((each for each in _policies(draft, task) if each.matches(event)), None)


def _responses(draft: Draft, task: Task) -> list[Response]:
    """Return the actions that follow failures of the task's pods: deletion first, then exit codes, then any."""
    evicted = _first(draft, task, EVICTED)
    found = [Response(EVICTED, _action(draft, evicted, task), keys=evicted.keys if evicted else ())]
    codes: set[int] = set()
    for policy in _policies(draft, task):
        if policy.matches(FAILED):
            found.append(Response(FAILED, _action(draft, policy, task), keys=policy.keys))
            break
        if policy.exit_code is not None and policy.exit_code not in codes:
            codes.add(policy.exit_code)
            found.append(Response(FAILED, _action(draft, policy, task), policy.exit_code, keys=policy.keys))
    else:
        found.append(Response(FAILED))
    for each in found:
        if each.action == COMPLETE:
            draft.refuse(
                (*each.keys, "action"),
                f"CompleteJob after {each.event} makes a failure the success of the job, which is not supported: use "
                "it after TaskCompleted, or minSuccess",
            )
    return found


# Failure classes and rules


def _put_failure_classes(draft: Draft, task: Task, responses: Sequence[Response]) -> None:
    name = _first_container(task)
    classes = []
    for each in responses:
        fields: Json = {"phrase": each.phrase(task), "type": _PERMANENT}
        if each.is_retry:
            fields["type"] = _COUNTED
        elif each.event == EVICTED and not each.action:
            fields = {"type": _TRANSIENT}
        if each.event == EVICTED:
            fields |= _DELETED
        elif each.exit_code is None:
            fields |= _POD_FAILED
        else:
            exit_code = {"min": each.exit_code, "max": each.exit_code}
            container = {"nameRegex": f"^{name}$", "codeRange": exit_code}
            fields["podPatterns"] = [{"containers": [container]}]
        classes.append(fields)
    retry: Json = {
        "fancyRetryPolicy": True,
        "maxRetryCount": -1 if any(each.is_retry for each in responses) else 0,
        "maxTransientRetryCount": None,
        "retryBackoff": None,
    }
    draft.framework_role(task.role, {"task": {"retryPolicy": retry, "podFailureSpec": classes}})


def _first_container(task: Task) -> str:
    spec: Json = (task.body.get("template") or {}).get("spec") or {}
    containers: list[Json] = spec.get("containers") or [{}]
    return str(containers[0].get("name") or "main")


def _failed_rules(task: Task, responses: Sequence[Response]) -> Iterator[Json]:
    for each in responses:
        if each.action not in (RESTART_JOB, *_ENDING):
            continue
        cause = f"exit code {each.exit_code}" if each.exit_code is not None else each.event
        yield {
            "name": f"{task.name}: {cause}, {each.action}",
            "taskRoles": [task.role],
            "minFailedTaskCount": 1,
            "phrases": [each.phrase(task)],
            "type": _COUNTED if each.action == RESTART_JOB else _PERMANENT,
        }


def _completed_rules(draft: Draft, task: Task) -> Iterator[Json]:
    policy = _first(draft, task, COMPLETED)
    if policy is None or policy.action == RESUME:
        return
    if policy.action == COMPLETE:
        name = f"{task.name}: TaskCompleted, CompleteJob"
        yield {"name": name, "taskRoles": [task.role], "allSucceeded": True}
    else:
        draft.refuse(
            (*policy.keys, "action"),
            f"{policy.action} after TaskCompleted, i.e. after the success of a task, is not supported: use "
            "CompleteJob, or name the other events",
        )


def _restarted_rules(draft: Draft, task: Task) -> Iterator[Json]:
    policy = _first(draft, task, RESTARTED)
    if policy is None or policy.action == RESUME or task.max_restarts < 0:
        return
    if policy.action not in (RESTART_JOB, *_ENDING):
        draft.refuse(
            (*policy.keys, "action"),
            f"{policy.action} after TaskFailed is not supported: use RestartJob or TerminateJob",
        )
        return
    yield {
        "name": f"{task.name}: TaskFailed, {policy.action}",
        "taskRoles": [task.role],
        "minContainerRestartCount": max(1, task.max_restarts),
        "phases": ["Running", "Pending"],
        "type": _COUNTED if policy.action == RESTART_JOB else _PERMANENT,
    }


def _final_rules(tasks: Sequence[Task], available: int, needed: int | None) -> Iterator[Json]:
    """Yield the rules for the end of all pods: too few of them have succeeded."""
    started = [task for task in tasks if task.replicas > 0]
    total = sum(task.replicas for task in tasks)
    final: Json = {"afterAll": True, "type": _PERMANENT}
    is_each_needed = available >= sum(task.min_available for task in tasks)
    for task in started if is_each_needed and available < total else ():
        if task.min_available > 0:
            yield {
                "name": f"{task.name}: minAvailable {task.min_available}",
                **final,
                "minFailedTaskCount": task.replicas - task.min_available + 1,
                "phrases": [Response(FAILED).phrase(task)],
            }
    if needed is not None:
        yield {"name": f"minSuccess {needed}", **final, "minFailedTaskCount": 1}
    elif available > 0 and total > 0:
        failures = max(1, total - available + 1)
        yield {"name": f"minAvailable {available}", **final, "minFailedTaskCount": failures}


def _put_pending_deadline(draft: Draft, task: Task) -> None:
    """Put the timeout of PodPending as the deadline of the job's pending pods."""
    policy = next((each for each in _policies(draft, task) if each.timeout and each.matches(PENDING)), None)
    if policy is None or policy.events != (PENDING,) or policy.action == RESUME:
        return
    seconds = _seconds(policy.timeout)
    if seconds is None:
        draft.refuse((*policy.keys, "timeout"), f"found {policy.timeout}, expected a duration such as 10m")
        return
    if policy.action not in _ENDING:
        draft.refuse(
            (*policy.keys, "action"),
            f"{policy.action} after PodPending is not supported: use TerminateJob or AbortJob",
        )
        return
    present = draft.document.get("pendingDeadline")
    if (policy.keys[1] == "tasks" and len(draft.get("tasks") or ()) > 1) or present not in (None, seconds):
        draft.refuse(policy.keys, "PodPending is supported only in the policies of the job: move it there")
        return
    draft.put(("pendingDeadline",), int(seconds), (*policy.keys, "timeout"))
