"""The record of a finished attempt. It has no owner, so it outlives the Framework and its pods.

A record contains the Framework as it was at the end of the attempt, so that every view of a Framework can be built
from a record too.
"""

from collections.abc import Iterator

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.base import Sparse
from windlass.model.completion import CompletionType
from windlass.model.framework import Framework
from windlass.model.status import EndedTaskAttempt, RetryOutcome, Timestamp

API_VERSION = f"{names.GANG_GROUP}/{names.VERSION}"


class TaskRetry(Sparse, frozen=True):
    """The decision of the retry policy about the last attempt of a task."""

    role: str
    index: int
    retry: RetryOutcome


class AttemptDetail(Sparse, frozen=True, kw_only=True):
    """The part of a record that is compressed if it is large."""

    framework: Framework
    """The Framework at the end of the attempt, with its spec and status. The status contains the last attempt of each
    task, and the earlier attempts in `earlierTaskAttempts`."""
    task_retries: tuple[TaskRetry, ...] = ()
    """Decisions about the last attempts of tasks. Tasks that ended with the Framework attempt have none."""


class ContainerLog(Sparse, frozen=True, kw_only=True):
    """The end of the log of a failed container."""

    role: str
    index: int
    attempt: int
    """ID of the task attempt."""
    container: str
    text: str


class AttemptRecordSpec(Sparse, frozen=True, kw_only=True):
    framework_name: str
    framework_uid: str
    attempt: int
    """ID of the Framework attempt."""
    start_time: Timestamp
    run_time: Timestamp | None = None
    completion_time: Timestamp
    code: int
    """Completion code of the attempt: 0, an exit code, or a code of the controller."""
    phrase: str
    type: CompletionType
    retry: RetryOutcome
    """The decision of the retry policy about the Framework, with its reason."""
    pod_log_path: str = ""
    """Path of the logs of a task attempt, with its podName and podUID. The embedded cluster serves the logs of deleted
    pods at this path until they exceed its limit; on other clusters, a log exists as long as its pod."""
    container_logs: tuple[ContainerLog, ...] = ()
    """Ends of the logs of failed containers. Only in namespaces that allow the controller to read logs."""
    detail: AttemptDetail | None = None
    """Absent if detailCompressed contains it."""
    detail_compressed: str = ""
    """The detail as base64(gzip(JSON))."""


class AttemptRecord(Sparse, frozen=True):
    """A finished attempt of a Framework."""

    metadata: ObjectMeta
    spec: AttemptRecordSpec
    api_version: str = API_VERSION
    kind: str = names.RECORD_KIND

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def detail(self) -> AttemptDetail:
        """The detail of a record that was made by `decide` or decoded by `wire.attempt_records`, which expands it."""
        if self.spec.detail is None:
            raise ValueError("the detail of the record is compressed")
        return self.spec.detail

    @property
    def framework(self) -> Framework:
        """The Framework at the end of the attempt."""
        return self.detail.framework

    def log_of(self, role: str, index: int, attempt: int, container: str) -> str:
        """Return the end of the log of a failed container; empty if the record does not contain it."""
        key = role, index, attempt, container
        found = (
            log.text
            for log in self.spec.container_logs
            if (log.role, log.index, log.attempt, log.container) == key
        )
        return next(found, "")

    def task_attempts(self) -> Iterator[EndedTaskAttempt]:
        """Yield all attempts of all tasks: those of one task follow each other, the last one at the end."""
        status = self.framework.status
        if status is None:
            return
        retries = {(each.role, each.index): each.retry for each in self.detail.task_retries}
        earlier: dict[tuple[str, int], list[EndedTaskAttempt]] = {}
        for ended in status.earlier_attempts:
            earlier.setdefault((ended.role, ended.index), []).append(ended)
        for role in status.attempt_status.roles:
            for task in role.task_statuses:
                key = role.name, task.index
                yield from earlier.pop(key, ())
                yield EndedTaskAttempt(
                    role=role.name, index=task.index, attempt=task.attempt_status, retry=retries.get(key)
                )
        # Tasks that were removed by a scale-down.
        for removed in earlier.values():
            yield from removed


def record_name(framework_uid: str, attempt: int) -> str:
    """Return the name of the record of an attempt. A second record of the same attempt would have the same name."""
    return f"{framework_uid}-{attempt}"


def pod_log_path(namespace: str, pod_name: str = "{podName}", pod_uid: str = "{podUID}") -> str:
    """Return the path of the logs of a task attempt, or the template of the paths of all."""
    return f"/api/v1/namespaces/{namespace}/pods/{pod_name}/log?uid={pod_uid}"


def record_metadata(framework: Framework, attempt: int) -> ObjectMeta:
    return msgspec.structs.replace(
        ObjectMeta(),
        name=record_name(framework.uid, attempt),
        namespace=framework.namespace,
        labels={
            names.FRAMEWORK_NAME: framework.name,
            names.FRAMEWORK_NAMESPACE: framework.namespace,
            names.FRAMEWORK_UID: framework.uid,
        },
    )
