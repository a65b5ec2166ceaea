"""Suspension: executionType Create (statement 35 of docs/behaviours.md) and spec.suspend (difference A3 there)."""

import msgspec

from windlass.decide.builder import DecisionBuilder
from windlass.model.completion import CompletionCode, FrameworkAttemptCompletionStatus, framework_completion
from windlass.model.framework import ExecutionType, FrameworkSpec


def is_held(spec: FrameworkSpec) -> bool:
    """Return whether the next attempt has to wait. executionType Create and Stop override suspend."""
    return spec.execution_type is ExecutionType.CREATE or is_suspended(spec)


def is_suspended(spec: FrameworkSpec) -> bool:
    return spec.suspend and spec.execution_type is ExecutionType.START


def suspension(spec: FrameworkSpec) -> FrameworkAttemptCompletionStatus | None:
    if not is_suspended(spec):
        return None
    return framework_completion(CompletionCode.FRAMEWORK_SUSPENDED, "spec.suspend is true")


def start_hold(builder: DecisionBuilder) -> None:
    """Record when the Framework was suspended or held by executionType Create, unless that is already recorded.

    This time does not count towards activeDeadlineSeconds.
    """
    holding = builder.status.holding
    if holding.since is None:
        builder.status = msgspec.structs.replace(
            builder.status, holding=msgspec.structs.replace(holding, since=builder.now)
        )


def end_hold(builder: DecisionBuilder) -> None:
    holding = builder.status.holding
    if holding.since is None:
        return
    held_sec = int((builder.now - holding.since).total_seconds())
    builder.status = msgspec.structs.replace(
        builder.status,
        holding=msgspec.structs.replace(holding, since=None, total_sec=holding.total_sec + max(0, held_sec)),
    )
