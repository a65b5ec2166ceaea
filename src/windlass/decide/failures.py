"""Classifies ended pods and failed pod creations: completion code, phrase, type and diagnostics (statements 18 to 23).

The inputs are views of pods and errors of the API server. This module decides neither whether a failure is retried nor
whether a configuration is valid (statement 19 of docs/behaviours.md).
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from windlass.decide.default_failures import DEFAULT_FAILURE_CLASSES, exit_code_pattern
from windlass.k8s import patterns
from windlass.model import completion
from windlass.model.base import Sparse
from windlass.model.completion import (
    CompletionCode,
    ContainerCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.failures import ApiFailure, ContainerPattern, FailureClass, PodPattern
from windlass.model.pods import ContainerStatus, ContainerTerminated, PodPhase, PodView

SUCCEEDED_DIAGNOSTICS = "Pod succeeded"
UNRECOGNIZED_PHRASE = "ContainerUnrecognizedFailed"
MAX_TEXT_BYTES = 200
"""Maximum length of diagnostics and messages in the attempts where they are truncated (A2)."""

PREDEFINED_FAILURE_CLASSES = tuple(
    FailureClass(int(code), completion.phrase_of(code), completion.TYPES[code], (exit_code_pattern(code),))
    for code in (
        CompletionCode.CONTAINER_TRANSIENT_FAILED,
        CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED,
        CompletionCode.CONTAINER_PERMANENT_FAILED,
    )
)
"""Exit codes with a fixed meaning for all containers. No configuration can override them (docs/behaviours.md, 20)."""

_REASON_BY_HTTP_STATUS = {400: "BadRequest", 403: "Forbidden", 413: "RequestEntityTooLarge", 422: "Invalid"}
_COMPLETION_CODE_BY_REASON = {
    "BadRequest": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Forbidden": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Invalid": CompletionCode.POD_CREATION_PERMANENT_ERROR,
    "RequestEntityTooLarge": CompletionCode.POD_CREATION_PERMANENT_ERROR,
}

NOT_STARTED_REASONS = frozenset({"RunContainerError", "CreateContainerError", "CreateContainerConfigError"})
"""Waiting reasons of a container that the kubelet could not start."""
NOT_STARTED_CODE = 128
"""Exit code of a container that could not be started."""
MAX_CACHED_MATCHES = 1000
_Match = tuple[FailureClass | None, str]
"""The first class that matched, if any, and the diagnostics."""
_Container = tuple[str, ContainerCompletionStatus | None]
"""The name of a container and its completion status; None if it neither terminated nor failed to start."""
_Containers = tuple[_Container, ...]
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class MatchedContainer(Sparse, frozen=True):
    """The fields of a container that a pattern matched: the matched part of each text, the signal and the exit code."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int | None = None


class MatchedPod(Sparse, frozen=True):
    """The fields of a pod that a pattern matched, for the diagnostics."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    containers: tuple[MatchedContainer, ...] = ()


class Classifier:
    """The failure classes in their order, with compiled expressions. The first match wins."""

    def __init__(self, configured: Sequence[FailureClass] = DEFAULT_FAILURE_CLASSES) -> None:
        classes = (*PREDEFINED_FAILURE_CLASSES, *configured)
        self._classes = tuple(
            (PodMatcher(pattern), failure) for failure in classes for pattern in failure.pod_patterns
        )
        self._reads_pod_names = any(
            pattern.name_regex for failure in classes for pattern in failure.pod_patterns
        )
        self._cache: dict[tuple[str, str, _Containers], _Match] = {}

    def classify(self, pod: PodView) -> TaskAttemptCompletionStatus:
        """Return the completion status of a task attempt whose pod is Succeeded or Failed."""
        containers = container_completions(pod)
        ended = tuple(container for _, container in containers if container is not None)
        pod_status = PodCompletionStatus(pod.status.reason, pod.status.message, ended)
        if pod.status.phase == PodPhase.SUCCEEDED:
            return completion.task_completion(CompletionCode.SUCCEEDED, SUCCEEDED_DIAGNOSTICS, pod_status)
        failure, diagnostics = (
            self._search(pod.name, pod_status, containers)
            if self._reads_pod_names
            else self._cached_search(pod_status, containers)
        )
        if failure is None:
            return _unmatched(pod, diagnostics, pod_status)
        return TaskAttemptCompletionStatus(
            failure.code, failure.phrase, failure.type, diagnostics, pod_status
        )

    def _cached_search(self, pod_status: PodCompletionStatus, containers: _Containers) -> _Match:
        """Search with a cache: when a gang fails, most of its pods fail alike."""
        key = (pod_status.reason, pod_status.message, containers)
        match = self._cache.get(key)
        if match is None:
            if len(self._cache) >= MAX_CACHED_MATCHES:
                self._cache.clear()
            match = self._cache[key] = self._search("", pod_status, containers)
        return match

    def _search(self, pod_name: str, pod_status: PodCompletionStatus, containers: _Containers) -> _Match:
        for matcher, failure in self._classes:
            matched = matcher.match(pod_name, pod_status, containers)
            if matched is not None:
                return failure, f"PodPattern matched: {_json(matched)}"
        return None, f"PodPattern unmatched: {_json(pod_status)}"


def container_completions(pod: PodView) -> _Containers:
    """Return all containers, init containers first. Those that could not be started have a completion status too."""
    return tuple((container.name, _container_completion(container)) for container in pod.containers)


def _container_completion(container: ContainerStatus) -> ContainerCompletionStatus | None:
    terminated = _terminated_state(container)
    if terminated is None:
        return None
    return ContainerCompletionStatus(
        name=container.name,
        reason=terminated.reason,
        message=terminated.message,
        signal=terminated.signal,
        code=terminated.exit_code,
    )


def _terminated_state(container: ContainerStatus) -> ContainerTerminated | None:
    """Return the terminated state of a container in a completed pod. A container that could not be started may still be
    in the waiting state."""
    waiting = container.state.waiting
    if container.state.terminated is None and waiting is not None and waiting.reason in NOT_STARTED_REASONS:
        return ContainerTerminated(NOT_STARTED_CODE, reason=waiting.reason, message=waiting.message)
    return container.state.terminated


def classify_creation_failure(failure: ApiFailure) -> TaskAttemptCompletionStatus | None:
    """Return the completion status after the creation of a pod failed, or None to retry the creation (behaviour 23)."""
    reason = failure.reason or _REASON_BY_HTTP_STATUS.get(failure.code, "")
    is_about_quota = reason == "Forbidden" and "exceeded quota" in failure.message
    # The request was garbled: the server could not recognize the kind of the object.
    is_garbled = "object provided is unrecognized" in failure.message
    code = _COMPLETION_CODE_BY_REASON.get(reason)
    is_temporary = is_about_quota or is_garbled or _is_controller_forbidden(failure)
    if failure.code == 0 or code is None or is_temporary:
        return None
    return completion.task_completion(code, f"Failed to create Pod: {failure.message}")


def _is_controller_forbidden(failure: ApiFailure) -> bool:
    """Return whether the controller itself may not create pods: a role is missing, or the server has just started and
    does not know the roles yet. The authorizer's message does not contain the name of the pod; the message of an
    admission plugin contains it."""
    return failure.code == 403 and failure.message.startswith("pods is forbidden: User ")


def truncate(completion_status: TaskAttemptCompletionStatus) -> TaskAttemptCompletionStatus:
    """Truncate the diagnostics and messages to MAX_TEXT_BYTES bytes (A2). Return the same object if none is longer."""
    pod = completion_status.pod
    texts = [completion_status.diagnostics]
    if pod is not None:
        texts += [pod.message, *(container.message for container in pod.containers)]
    # A character has at most four bytes. Most attempts need only this quick check.
    if 4 * sum(map(len, texts)) <= MAX_TEXT_BYTES or all(map(_is_short, texts)):
        return completion_status
    replace = msgspec.structs.replace
    if pod is not None:
        containers = tuple(
            replace(container, message=_truncate_text(container.message)) for container in pod.containers
        )
        pod = replace(pod, message=_truncate_text(pod.message), containers=containers)
    return replace(completion_status, diagnostics=_truncate_text(completion_status.diagnostics), pod=pod)


def _is_short(text: str) -> bool:
    return len(text) <= MAX_TEXT_BYTES and (text.isascii() or len(text.encode()) <= MAX_TEXT_BYTES)


def _truncate_text(text: str) -> str:
    if _is_short(text):
        return text
    ellipsis = "…"
    return text.encode()[: MAX_TEXT_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


def _unmatched(
    pod: PodView, diagnostics: str, pod_status: PodCompletionStatus
) -> TaskAttemptCompletionStatus:
    """Return the completion status of a failed pod that no class matches. If containers failed, the code is the exit
    code of the failed container that ended last, or of the first one of those that ended in the same second."""
    ends = [end for container in pod.containers if (end := _terminated_state(container)) is not None]
    failed = [end for end in ends if end.exit_code != 0]
    if not failed:
        code = CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER
        return completion.task_completion(code, diagnostics, pod_status)
    last = max(failed, key=lambda end: end.finished_at or _LONG_AGO)
    return TaskAttemptCompletionStatus(
        last.exit_code, UNRECOGNIZED_PHRASE, completion.FAILED, diagnostics, pod_status
    )


def _json(value: MatchedPod | PodCompletionStatus) -> str:
    return msgspec.json.encode(value).decode()


class _TextMatcher:
    """The compiled expressions of a pattern."""

    __slots__ = ("_searches",)

    def __init__(self, pattern: PodPattern | ContainerPattern) -> None:
        expressions = (
            ("reason", pattern.reason_regex),
            ("message", pattern.message_regex),
            ("name", pattern.name_regex),
        )
        self._searches = [(field, patterns.compile_search(regex)) for field, regex in expressions if regex]

    def match(self, **texts: str) -> dict[str, str] | None:
        """Return the matched part of each text by field; None if an expression does not match."""
        matches = {}
        for field, search in self._searches:
            match = search(texts[field])
            if match is None:
                return None
            matches[field] = match
        return matches


class PodMatcher:
    """A compiled pod pattern."""

    __slots__ = ("_containers", "_texts")

    def __init__(self, pattern: PodPattern) -> None:
        self._texts = _TextMatcher(pattern)
        self._containers = tuple(_ContainerMatcher(container) for container in pattern.containers)

    def match(self, pod_name: str, pod: PodCompletionStatus, containers: _Containers) -> MatchedPod | None:
        texts = self._texts.match(name=pod_name, reason=pod.reason, message=pod.message)
        if texts is None:
            return None
        found = []
        for matcher in self._containers:
            matched = next(filter(None, map(matcher.match, containers)), None)
            if matched is None:
                return None
            if matched != MatchedContainer():
                found.append(matched)
        return MatchedPod(**texts, containers=tuple(found))


class _ContainerMatcher:
    """A compiled container pattern. The numbers are compared first, because that is cheapest."""

    __slots__ = ("_codes", "_reads_termination", "_signals", "_texts")

    def __init__(self, pattern: ContainerPattern) -> None:
        self._texts = _TextMatcher(pattern)
        self._signals = pattern.signal_range
        self._codes = pattern.code_range
        has_ranges = not (self._signals.is_unbounded and self._codes.is_unbounded)
        self._reads_termination = bool(pattern.reason_regex or pattern.message_regex or has_ranges)

    def match(self, container: _Container) -> MatchedContainer | None:
        name, ended = container
        if ended is None:
            texts = None if self._reads_termination else self._texts.match(name=name)
            return None if texts is None else MatchedContainer(**texts, signal=0, code=None)
        if not (self._codes.contains(ended.code) and self._signals.contains(ended.signal)):
            return None
        texts = self._texts.match(name=name, reason=ended.reason, message=ended.message)
        if texts is None:
            return None
        signal = 0 if self._signals.is_unbounded else ended.signal
        code = None if self._codes.is_unbounded else ended.code
        return MatchedContainer(**texts, signal=signal, code=code)
