"""Applies the failure classes of a role to a failed task attempt (B2)."""

import functools

import msgspec

from windlass.decide import failures
from windlass.decide.failures import PodMatcher
from windlass.model.completion import CompletionCode, PodCompletionStatus, TaskAttemptCompletionStatus
from windlass.model.failures import TaskFailureClass
from windlass.model.framework import TaskRoleSpec
from windlass.model.pods import PodView

_ENDED_BY_CONTROLLER = frozenset(
    {CompletionCode.FRAMEWORK_ATTEMPT_COMPLETION, CompletionCode.DELETE_TASK_REQUESTED}
)


def reclassify(
    role: TaskRoleSpec | None, pod: PodView | None, completion: TaskAttemptCompletionStatus
) -> TaskAttemptCompletionStatus:
    """Return the completion status with the code, phrase and type of the first class that matches; unchanged if none
    does."""
    classes = role.task.pod_failure_spec if role is not None else ()
    if not classes or not completion.type.is_failed or completion.code in _ENDED_BY_CONTROLLER:
        return completion
    matched = next((each for each in classes if _matches(each, pod, completion)), None)
    if matched is None:
        return completion
    return msgspec.structs.replace(
        completion,
        code=completion.code if matched.code is None else matched.code,
        phrase=matched.phrase or completion.phrase,
        type=matched.type,
    )


def _matches(failure: TaskFailureClass, pod: PodView | None, completion: TaskAttemptCompletionStatus) -> bool:
    return (
        (not failure.code_ranges or any(codes.contains(completion.code) for codes in failure.code_ranges))
        and (
            not failure.condition_types
            or (pod is not None and any(map(pod.has_condition, failure.condition_types)))
        )
        and (not failure.pod_patterns or (pod is not None and _matches_pattern(failure, pod)))
    )


def _matches_pattern(failure: TaskFailureClass, pod: PodView) -> bool:
    status = PodCompletionStatus(pod.status.reason, pod.status.message)
    containers = failures.container_completions(pod)
    return any(matcher.match(pod.name, status, containers) is not None for matcher in _matchers(failure))


@functools.lru_cache(maxsize=256)
def _matchers(failure: TaskFailureClass) -> tuple[PodMatcher, ...]:
    return tuple(map(PodMatcher, failure.pod_patterns))
