"""What a pod's end means: its completion code, phrase, type and diagnostics (statements 18 to 23).

Reads views of pods and refusals of the API server, and returns values. Whether something is retried because of them
is decided elsewhere, and so is whether a configuration is sound (statement 19).
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from windlass.decide.default_failures import DEFAULT_FAILURE_CLASSES, exit_code_pattern
from windlass.k8s import patterns
from windlass.model import completion
from windlass.model.api_failure import ApiFailure
from windlass.model.base import Sparse
from windlass.model.completion import (
    CompletionCode,
    ContainerCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.failures import ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.pods import ContainerStatus, ContainerTerminated, PodPhase, PodView

SUCCEEDED_DIAGNOSTICS = "Pod succeeded"
UNRECOGNIZED_PHRASE = "ContainerUnrecognizedFailed"
MAX_TEXT_BYTES = 200
"""How much is kept of each text of a task attempt that is not kept whole (A2)."""

PREDEFINED_FAILURE_CLASSES = tuple(
    FailureClass(int(code), completion.phrase_of(code), completion.TYPES[code], (exit_code_pattern(code),))
    for code in (
        CompletionCode.CONTAINER_TRANSIENT_FAILED,
        CompletionCode.CONTAINER_TRANSIENT_CONFLICT_FAILED,
        CompletionCode.CONTAINER_PERMANENT_FAILED,
    )
)
"""The contract between Windlass and a container: nobody can configure these away (statement 20)."""

_REASONS = {400: "BadRequest", 403: "Forbidden", 413: "RequestEntityTooLarge", 422: "Invalid"}
_CREATION_CODES = {
    "BadRequest": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Forbidden": CompletionCode.POD_CREATION_UNKNOWN_ERROR,
    "Invalid": CompletionCode.POD_CREATION_PERMANENT_ERROR,
    "RequestEntityTooLarge": CompletionCode.POD_CREATION_PERMANENT_ERROR,
}

NOT_STARTED = frozenset({"RunContainerError", "CreateContainerError", "CreateContainerConfigError"})
"""Why a kubelet waits for a container that it could not start."""
NOT_STARTED_CODE = 128
"""The exit code of a container that could not be started, where one is told."""
MAX_CACHED_MATCHES = 1000
_Match = tuple[FailureClass | None, str]
"""The class that matched first, if one did, and the diagnostics."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class MatchedContainer(Sparse, frozen=True):
    """Of a container, what a pattern names: the matched part of each text, and the numbers."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int | None = None


class MatchedPod(Sparse, frozen=True):
    """Of a pod, what a pattern names. It is written into the diagnostics."""

    name: str | None = None
    reason: str = ""
    message: str = ""
    containers: tuple[MatchedContainer, ...] = ()


class Classifier:
    """The failure classes in their order, with all expressions compiled. The first match wins."""

    def __init__(self, configured: Sequence[FailureClass] = DEFAULT_FAILURE_CLASSES) -> None:
        classes = (*PREDEFINED_FAILURE_CLASSES, *with_defaults(configured))
        self._classes = tuple(
            (_PodMatcher(pattern), failure) for failure in classes for pattern in failure.pod_patterns
        )
        self._reads_names = any(pattern.name_regex for failure in classes for pattern in failure.pod_patterns)
        self._cache: dict[PodCompletionStatus, _Match] = {}

    def classify(self, pod: PodView) -> TaskAttemptCompletionStatus:
        """How the task attempt of a pod ended that is Succeeded or Failed."""
        kept = pod_completion(pod)
        if pod.status.phase == PodPhase.SUCCEEDED:
            return completion.task_completion(CompletionCode.SUCCEEDED, SUCCEEDED_DIAGNOSTICS, kept)
        match = self._search(pod.name, kept) if self._reads_names else self._cached_search(kept)
        failure, diagnostics = match
        if failure is None:
            return _unmatched(pod, diagnostics, kept)
        return TaskAttemptCompletionStatus(failure.code, failure.phrase, failure.type, diagnostics, kept)

    def _cached_search(self, kept: PodCompletionStatus) -> _Match:
        """When a gang falls, most of its pods end alike: the expressions are tried on the first of them."""
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
    """The classes as the reference reads them: a container pattern means containers that failed, codes from 1 on."""
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
    """What is worth keeping of a pod that is gone: containers that ended or could not be started, init ones first."""
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
    """How a container of a pod that is over ended. A kubelet may still wait for one that it could not start."""
    waiting = container.state.waiting
    if container.state.terminated is None and waiting is not None and waiting.reason in NOT_STARTED:
        return ContainerTerminated(NOT_STARTED_CODE, reason=waiting.reason, message=waiting.message)
    return container.state.terminated


def classify_creation_failure(failure: ApiFailure) -> TaskAttemptCompletionStatus | None:
    """How a rejected creation of its pod ends a task attempt; None: it does not, try again later (statement 23)."""
    reason = failure.reason or _REASONS.get(failure.code, "")
    is_about_quota = reason == "Forbidden" and "exceeded quota" in failure.message
    # The request arrived in pieces: the server could not tell what kind of object it was.
    is_garbled = "object provided is unrecognized" in failure.message
    code = _CREATION_CODES.get(reason)
    is_temporary = is_about_quota or is_garbled or _is_controller_forbidden(failure)
    if failure.code == 0 or code is None or is_temporary:
        return None
    return completion.task_completion(code, f"Failed to create Pod: {failure.message}")


def _is_controller_forbidden(failure: ApiFailure) -> bool:
    """It may not create pods at all: a role is missing, or the server has just started and does not know its roles yet.
    That is no fault of this pod, which the authorizer does not even name; admission would."""
    return failure.code == 403 and failure.message.startswith("pods is forbidden: User ")


def truncate(ended: TaskAttemptCompletionStatus) -> TaskAttemptCompletionStatus:
    """With its texts cut to `MAX_TEXT_BYTES` bytes each (A2); the same object if none is longer."""
    if _is_short_enough(ended):
        return ended
    pod = ended.pod
    diagnostics = _cut(ended.diagnostics)
    short_pod = None if pod is None else _cut_pod(pod)
    if diagnostics is ended.diagnostics and short_pod is pod:
        return ended
    return msgspec.structs.replace(ended, diagnostics=diagnostics, pod=short_pod)


def _is_short_enough(ended: TaskAttemptCompletionStatus) -> bool:
    """Whether nothing needs cutting, as of most attempts."""
    pod = ended.pod
    if not _is_short(ended.diagnostics) or (pod is not None and not _is_short(pod.message)):
        return False
    return pod is None or all(_is_short(container.message) for container in pod.containers)


def _is_short(text: str) -> bool:
    return len(text) <= MAX_TEXT_BYTES and (text.isascii() or len(text.encode()) <= MAX_TEXT_BYTES)


def _cut_pod(pod: PodCompletionStatus) -> PodCompletionStatus:
    message = _cut(pod.message)
    containers = tuple(_cut_container(container) for container in pod.containers)
    is_same = message is pod.message and all(
        short is container for short, container in zip(containers, pod.containers, strict=True)
    )
    return pod if is_same else msgspec.structs.replace(pod, message=message, containers=containers)


def _cut_container(container: ContainerCompletionStatus) -> ContainerCompletionStatus:
    message = _cut(container.message)
    return container if message is container.message else msgspec.structs.replace(container, message=message)


def _cut(text: str) -> str:
    if _is_short(text):
        return text
    whole = text.encode()
    ellipsis = "…"
    return whole[: MAX_TEXT_BYTES - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


def _failed_only(pattern: ContainerPattern) -> ContainerPattern:
    if pattern.code_range.min is not None:
        return pattern
    return msgspec.structs.replace(pattern, code_range=IntRange(min=1, max=pattern.code_range.max))


def _unmatched(pod: PodView, diagnostics: str, kept: PodCompletionStatus) -> TaskAttemptCompletionStatus:
    """The code of the failed container that ended last; of two that ended at once, the later in order."""
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
    """A pod pattern, compiled. It reads what is kept of a pod: only containers that ended can match."""

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
    """A container pattern, compiled. The numbers are looked at first: they cost least and exclude most."""

    __slots__ = ("codes", "message", "name", "reason", "signals")

    def __init__(self, pattern: ContainerPattern) -> None:
        self.name = _compiled(pattern.name_regex)
        self.reason = _compiled(pattern.reason_regex)
        self.message = _compiled(pattern.message_regex)
        self.signals = pattern.signal_range
        self.codes = pattern.code_range

    def match_any(self, containers: Sequence[ContainerCompletionStatus]) -> MatchedContainer | None:
        for container in containers:
            if (matched := self.match(container)) is not None:
                return matched
        return None

    def match(self, container: ContainerCompletionStatus) -> MatchedContainer | None:
        if not (self.codes.holds(container.code) and self.signals.holds(container.signal)):
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
    """What each expression finds in its text, None where there is no expression; None if one finds nothing."""
    found: list[str | None] = []
    for search, text in searches:
        if search is None:
            found.append(None)
        elif (match := search(text)) is None:
            return None
        else:
            found.append(match)
    return found
