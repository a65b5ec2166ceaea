"""Classifies failed pods: completion code, phrase, type and diagnostics (statements 18 to 23).

Reads views of pods and errors of the API server, and returns values. Whether a failure is retried is decided
elsewhere, and so is whether a configuration is valid (statement 19).
"""

from collections.abc import Callable, Sequence
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
from windlass.model.failures import ApiFailure, ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.pods import ContainerStatus, ContainerTerminated, PodPhase, PodView

SUCCEEDED_DIAGNOSTICS = "Pod succeeded"
UNRECOGNIZED_PHRASE = "ContainerUnrecognizedFailed"
MAX_TEXT_BYTES = 200
"""Maximum length of each text of a task attempt whose texts are truncated (A2)."""

PREDEFINED_FAILURE_CLASSES = tuple(
    FailureClass(int(code), completion.phrase_of(code), completion.TYPES[code], (exit_code_pattern(code),))
    for code in (
        CompletionCode.CONTAINER_TRANSIENT_FAILED,
        CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED,
        CompletionCode.CONTAINER_PERMANENT_FAILED,
    )
)
"""Exit codes with a fixed meaning for all containers. No configuration can override them (statement 20)."""

_REASONS = {400: "BadRequest", 403: "Forbidden", 413: "RequestEntityTooLarge", 422: "Invalid"}
_CREATION_CODES = {
    "BadRequest": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Forbidden": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Invalid": CompletionCode.POD_CREATION_PERMANENT_ERROR,
    "RequestEntityTooLarge": CompletionCode.POD_CREATION_PERMANENT_ERROR,
}

NOT_STARTED = frozenset({"RunContainerError", "CreateContainerError", "CreateContainerConfigError"})
"""Waiting reasons of a container that the kubelet could not start."""
NOT_STARTED_CODE = 128
"""Exit code of a container that could not be started."""
MAX_CACHED_MATCHES = 1000
_Match = tuple[FailureClass | None, str]
"""The first class that matched, if any, and the diagnostics."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class MatchedContainer(Sparse, frozen=True):
    """The parts of a container that a pattern names: the matched part of each text, and the numbers."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int | None = None


class MatchedPod(Sparse, frozen=True):
    """The parts of a pod that a pattern names. They are written into the diagnostics."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    containers: tuple[MatchedContainer, ...] = ()


class Classifier:
    """The failure classes in their order, with compiled expressions. The first match wins."""

    def __init__(self, configured: Sequence[FailureClass] = DEFAULT_FAILURE_CLASSES) -> None:
        classes = (*PREDEFINED_FAILURE_CLASSES, *with_defaults(configured))
        self._classes = tuple(
            (_PodMatcher(pattern), failure) for failure in classes for pattern in failure.pod_patterns
        )
        self._reads_names = any(pattern.name_regex for failure in classes for pattern in failure.pod_patterns)
        self._cache: dict[PodCompletionStatus, _Match] = {}

    def classify(self, pod: PodView) -> TaskAttemptCompletionStatus:
        """Return the completion status of a task attempt whose pod is Succeeded or Failed."""
        kept = pod_completion(pod)
        if pod.status.phase == PodPhase.SUCCEEDED:
            return completion.task_completion(CompletionCode.SUCCEEDED, SUCCEEDED_DIAGNOSTICS, kept)
        match = self._search(pod.name, kept) if self._reads_names else self._cached_search(kept)
        failure, diagnostics = match
        if failure is None:
            return _unmatched(pod, diagnostics, kept)
        return TaskAttemptCompletionStatus(failure.code, failure.phrase, failure.type, diagnostics, kept)

    def _cached_search(self, kept: PodCompletionStatus) -> _Match:
        """Search with a cache: when a gang fails, most of its pods fail alike."""
        match = self._cache.get(kept)
        if match is None:
            if len(self._cache) >= MAX_CACHED_MATCHES:
                self._cache.clear()
            match = self._cache[kept] = self._search("", kept)
        return match

    def _search(self, pod_name: str, kept: PodCompletionStatus) -> _Match:
        for matcher, failure in self._classes:
            matched = matcher.match(pod_name, kept)
            if matched is not None:
                return failure, f"PodPattern matched: {_json(matched)}"
        return None, f"PodPattern unmatched: {_json(kept)}"


def with_defaults(configured: Sequence[FailureClass]) -> tuple[FailureClass, ...]:
    """Apply the default of the reference: container patterns match failed containers only, codes from 1 on."""
    return tuple(
        msgspec.structs.replace(
            failure,
            pod_patterns=tuple(
                msgspec.structs.replace(
                    pattern, containers=tuple(_failed_only(container) for container in pattern.containers)
                )
                for pattern in failure.pod_patterns
            ),
        )
        for failure in configured
    )


def pod_completion(pod: PodView) -> PodCompletionStatus:
    """Return what the status keeps of a pod: containers that ended or could not be started, init containers first."""
    containers = [
        ContainerCompletionStatus(
            name=container.name,
            reason=ended.reason,
            message=ended.message,
            signal=ended.signal,
            code=ended.exit_code,
        )
        for container in pod.containers
        if (ended := _end(container)) is not None
    ]
    return PodCompletionStatus(pod.status.reason, pod.status.message, tuple(containers))


def _end(container: ContainerStatus) -> ContainerTerminated | None:
    """Return the termination of a container in a completed pod. The kubelet may still wait for one that it could not
    start."""
    waiting = container.state.waiting
    if container.state.terminated is None and waiting is not None and waiting.reason in NOT_STARTED:
        return ContainerTerminated(NOT_STARTED_CODE, reason=waiting.reason, message=waiting.message)
    return container.state.terminated


def classify_creation_failure(failure: ApiFailure) -> TaskAttemptCompletionStatus | None:
    """Return the completion status after a rejected creation of a pod, or None if it is tried again (statement 23)."""
    reason = failure.reason or _REASONS.get(failure.code, "")
    is_about_quota = reason == "Forbidden" and "exceeded quota" in failure.message
    # The request was garbled: the server could not recognize the kind of the object.
    is_garbled = "object provided is unrecognized" in failure.message
    code = _CREATION_CODES.get(reason)
    is_temporary = is_about_quota or is_garbled or _is_controller_forbidden(failure)
    if failure.code == 0 or code is None or is_temporary:
        return None
    return completion.task_completion(code, f"Failed to create Pod: {failure.message}")


def _is_controller_forbidden(failure: ApiFailure) -> bool:
    """Return whether the controller itself may not create pods: a role is missing, or the server has just started and
    does not know its roles yet. The authorizer does not name the pod in this case; admission would."""
    return failure.code == 403 and failure.message.startswith("pods is forbidden: User ")


def truncate(ended: TaskAttemptCompletionStatus) -> TaskAttemptCompletionStatus:
    """Truncate each text to `MAX_TEXT_BYTES` bytes (A2). Return the same object if none is longer."""
    pod = ended.pod
    texts = [ended.diagnostics]
    if pod is not None:
        texts += [pod.message, *(container.message for container in pod.containers)]
    if all(map(_is_short, texts)):
        return ended
    replace = msgspec.structs.replace
    if pod is not None:
        containers = tuple(
            replace(container, message=_truncate_text(container.message)) for container in pod.containers
        )
        pod = replace(pod, message=_truncate_text(pod.message), containers=containers)
    return replace(ended, diagnostics=_truncate_text(ended.diagnostics), pod=pod)


def _is_short(text: str) -> bool:
    return len(text) <= MAX_TEXT_BYTES and (text.isascii() or len(text.encode()) <= MAX_TEXT_BYTES)


def _truncate_text(text: str) -> str:
    if _is_short(text):
        return text
    ellipsis = "…"
    return text.encode()[: MAX_TEXT_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


def _failed_only(pattern: ContainerPattern) -> ContainerPattern:
    if pattern.code_range.min is not None:
        return pattern
    return msgspec.structs.replace(pattern, code_range=IntRange(min=1, max=pattern.code_range.max))


def _unmatched(pod: PodView, diagnostics: str, kept: PodCompletionStatus) -> TaskAttemptCompletionStatus:
    """Use the exit code of the failed container that ended last; of two that ended at the same time, the later in
    order."""
    last_code, last_end = 0, _LONG_AGO
    for container in pod.containers:
        ended = _end(container)
        if ended is None or ended.exit_code == 0:
            continue
        end = ended.finished_at or _LONG_AGO
        if end >= last_end:
            last_code, last_end = ended.exit_code, end
    if last_code == 0:
        code = CompletionCode.POD_FAILED_WITHOUT_FAILED_CONTAINER
        return completion.task_completion(code, diagnostics, kept)
    return TaskAttemptCompletionStatus(last_code, UNRECOGNIZED_PHRASE, completion.FAILED, diagnostics, kept)


def _json(value: MatchedPod | PodCompletionStatus) -> str:
    return msgspec.json.encode(value).decode()


def _compiled(expression: str) -> Callable[[str], str | None] | None:
    return patterns.compile_search(expression) if expression else None


class _PodMatcher:
    """A compiled pod pattern. It reads what the status keeps of a pod: only containers that ended can match."""

    __slots__ = ("containers", "message", "name", "reason")

    def __init__(self, pattern: PodPattern) -> None:
        self.name = _compiled(pattern.name_regex)
        self.reason = _compiled(pattern.reason_regex)
        self.message = _compiled(pattern.message_regex)
        self.containers = tuple(_ContainerMatcher(container) for container in pattern.containers)

    def match(self, pod_name: str, kept: PodCompletionStatus) -> MatchedPod | None:
        if self.containers and not kept.containers:
            return None
        texts = _search_all(
            ((self.name, pod_name), (self.reason, kept.reason), (self.message, kept.message)),
        )
        if texts is None:
            return None
        containers = []
        for matcher in self.containers:
            matched = matcher.match_any(kept.containers)
            if matched is None:
                return None
            containers.append(matched)
        name, reason, message = texts
        return MatchedPod(name, reason or "", message or "", tuple(containers))


class _ContainerMatcher:
    """A compiled container pattern. The numbers are compared first, because that is cheapest."""

    __slots__ = ("codes", "message", "name", "reason", "signals")

    def __init__(self, pattern: ContainerPattern) -> None:
        self.name = _compiled(pattern.name_regex)
        self.reason = _compiled(pattern.reason_regex)
        self.message = _compiled(pattern.message_regex)
        self.signals = pattern.signal_range
        self.codes = pattern.code_range

    def match_any(self, containers: Sequence[ContainerCompletionStatus]) -> MatchedContainer | None:
        return next((matched for matched in map(self.match, containers) if matched is not None), None)

    def match(self, container: ContainerCompletionStatus) -> MatchedContainer | None:
        if not (self.codes.contains(container.code) and self.signals.contains(container.signal)):
            return None
        texts = _search_all(
            (
                (self.reason, container.reason),
                (self.message, container.message),
                (self.name, container.name),
            ),
        )
        if texts is None:
            return None
        reason, message, name = texts
        signal = 0 if self.signals.is_unbounded else container.signal
        return MatchedContainer(name, reason or "", message or "", signal, container.code)


def _search_all(
    searches: tuple[tuple[Callable[[str], str | None] | None, str], ...],
) -> list[str | None] | None:
    """Return the match of each expression in its text, None where there is no expression; None if one does not
    match."""
    found: list[str | None] = []
    for search, text in searches:
        if search is None:
            found.append(None)
        elif (match := search(text)) is None:
            return None
        else:
            found.append(match)
    return found
