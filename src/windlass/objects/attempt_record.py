"""The record of a finished attempt, from the stored status and the action that writes it."""

import msgspec

from windlass.decide.types import RecordAttempt
from windlass.model.framework import Framework
from windlass.model.history import (
    AttemptDetail,
    AttemptRecord,
    AttemptRecordSpec,
    pod_log_path,
    record_metadata,
)


def attempt_record(framework: Framework, action: RecordAttempt) -> AttemptRecord:
    """Return the record. The status is that of the attempt; it lacks the completion status only if the Framework was
    deleted before the attempt ended."""
    status = framework.status
    if status is None or status.attempt_status.id != action.attempt:
        raise ValueError(f"the status of {framework.name} is not that of attempt {action.attempt}")
    attempt = status.attempt_status
    if attempt.completion_status is None:
        attempt = msgspec.structs.replace(attempt, completion_status=action.completion)
        framework = framework.with_status(msgspec.structs.replace(status, attempt_status=attempt))
    return AttemptRecord(
        metadata=record_metadata(framework, action.attempt),
        spec=AttemptRecordSpec(
            framework_name=framework.name,
            framework_uid=framework.uid,
            attempt=action.attempt,
            start_time=attempt.start_time,
            run_time=attempt.run_time,
            completion_time=action.ended_at,
            code=action.completion.code,
            phrase=action.completion.phrase,
            type=action.completion.type,
            retry=action.retry,
            pod_log_path=pod_log_path(framework.namespace),
            detail=AttemptDetail(framework=framework, task_retries=action.task_retries),
        ),
    )
