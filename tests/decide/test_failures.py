"""Failure classes (statements 18 to 23) and what is kept of a failure (A2)."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from windlass.decide.default_failures import DEFAULT_FAILURE_CLASSES
from windlass.decide.failures import Classifier, classify_creation_failure, truncate
from windlass.k8s.patterns import PatternError
from windlass.model import completion
from windlass.model.completion import (
    CompletionCode,
    CompletionType,
    ContainerCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from windlass.model.failures import ApiFailure, ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.pods import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    ObjectMetadata,
    PodPhase,
    PodStatusView,
    PodView,
)

START = datetime(2024, 5, 1, tzinfo=UTC)
DEFAULTS = Classifier()


def ended(
    code: int,
    name: str = "main",
    reason: str = "Error",
    message: str = "",
    signal: int = 0,
    at: int | None = 0,
) -> ContainerStatus:
    finished_at = None if at is None else START + timedelta(seconds=at)
    terminated = ContainerTerminated(code, signal, reason, message, finished_at=finished_at)
    return ContainerStatus(name, ContainerState(terminated=terminated))


def waiting(reason: str, message: str = "") -> ContainerStatus:
    return ContainerStatus("main", ContainerState(waiting=ContainerWaiting(reason, message)))


def running(name: str = "main") -> ContainerStatus:
    return ContainerStatus(name)


def pod(
    *containers: ContainerStatus,
    reason: str = "",
    message: str = "",
    init: tuple[ContainerStatus, ...] = (),
    phase: PodPhase = PodPhase.FAILED,
) -> PodView:
    return PodView(
        ObjectMetadata(name="job-worker-0"),
        status=PodStatusView(
            phase=phase,
            reason=reason,
            message=message,
            init_container_statuses=init,
            container_statuses=containers,
        ),
    )


def failure_class(code: int, *patterns: PodPattern) -> FailureClass:
    return FailureClass(code, f"Class{code}", CompletionType(), patterns)


def one(**fields: object) -> Classifier:
    """A classifier with one configured class of one pod pattern."""
    return Classifier([failure_class(-2000, PodPattern(**fields))])  # type: ignore[arg-type]


def diagnosed(result: TaskAttemptCompletionStatus, kind: str = "matched") -> object:
    beginning = f"PodPattern {kind}: "
    assert result.diagnostics.startswith(beginning)
    return json.loads(result.diagnostics.removeprefix(beginning))


# Predefined codes and the defaults


@pytest.mark.parametrize(
    ("code", "phrase", "attributes"),
    [
        (200, "ContainerTransientFailed", ("Transient",)),
        (201, "ContainerTransientConflictFailed", ("Transient", "Conflict")),
        (210, "ContainerPermanentFailed", ("Permanent",)),
    ],
)
def test_predefined_exit_codes_determine_the_completion(
    code: int, phrase: str, attributes: tuple[str, ...]
) -> None:
    result = DEFAULTS.classify(pod(ended(0, "sidecar"), ended(code, message="no luck")))
    assert (result.code, result.phrase, result.type.attributes) == (code, phrase, attributes)
    assert diagnosed(result) == {"containers": [{"name": "main", "message": "no luck", "code": code}]}


def test_succeeded_pod_has_code_0() -> None:
    result = DEFAULTS.classify(
        pod(ended(0, reason="Completed"), init=(ended(0, "barrier", ""),), phase=PodPhase.SUCCEEDED)
    )
    assert (result.code, result.phrase, result.type) == (0, "Succeeded", completion.SUCCEEDED)
    assert result.pod == PodCompletionStatus(
        containers=(
            ContainerCompletionStatus(name="barrier", code=0),
            ContainerCompletionStatus(name="main", reason="Completed", code=0),
        )
    )


@pytest.mark.parametrize(
    ("reason", "code", "phrase", "attributes"),
    [
        ("Evicted", -1000, "PodEvicted", {"Transient", "Platform"}),
        ("NodeLost", -1001, "PodNodeLost", {"Transient", "Platform"}),
        ("Terminated", -1001, "PodNodeLost", {"Transient", "Platform"}),
        ("OutOfcpu", -1002, "PodOutOfNodeResources", {"Transient", "Platform"}),
        ("OutOfnvidia.com/gpu", -1002, "PodOutOfNodeResources", {"Transient", "Platform"}),
        ("Preempting", -1003, "PodPreempted", {"Transient", "Platform"}),
        ("Preempted", -1003, "PodPreempted", {"Transient", "Platform"}),
        ("DeadlineExceeded", -1004, "PodDeadlineExceeded", {"Permanent", "User"}),
        ("Forbidden", -1005, "PodForbidden", {"Permanent", "User"}),
        ("SysctlForbidden", -1005, "PodForbidden", {"Permanent", "User"}),
        ("UnexpectedAdmissionError", -1006, "PodAdmissionFailed", {"Transient", "Platform"}),
        ("NodeAffinity", -1006, "PodAdmissionFailed", {"Transient", "Platform"}),
        ("NodeShutdown", -1006, "PodAdmissionFailed", {"Transient", "Platform"}),
        ("AppArmor", -1006, "PodAdmissionFailed", {"Transient", "Platform"}),
        ("TopologyAffinityError", -1006, "PodAdmissionFailed", {"Transient", "Platform"}),
        ("EvictedSoftly", -300, "PodFailedWithoutFailedContainer", set()),
        ("", -300, "PodFailedWithoutFailedContainer", set()),
    ],
)
def test_default_classes_match_pod_reasons(reason: str, code: int, phrase: str, attributes: set[str]) -> None:
    result = DEFAULTS.classify(pod(running(), reason=reason, message="The node was low on memory."))
    assert (result.code, result.phrase, set(result.type.attributes)) == (code, phrase, attributes)
    assert result.type.is_failed
    if code <= -1000:
        assert diagnosed(result) == {"reason": reason}


@pytest.mark.parametrize(
    ("container", "code", "phrase", "attributes"),
    [
        (ended(137, reason="OOMKilled"), -1200, "ContainerOOMKilled", {"Permanent", "User"}),
        (
            ended(128, reason="StartError", message='exec: "trian": executable file not found in $PATH'),
            -1201,
            "ContainerCommandCannotRun",
            {"Permanent", "User"},
        ),
        (
            ended(127, reason="ContainerCannotRun", message="OCI runtime\nexec /run.sh: Exec format error"),
            -1201,
            "ContainerCommandCannotRun",
            {"Permanent", "User"},
        ),
        (
            ended(128, reason="StartError", message="nvidia-container-cli: initialization error"),
            -1202,
            "ContainerRuntimeFailed",
            {"Transient", "Platform"},
        ),
        (
            ended(
                128,
                reason="StartError",
                message="failed to create containerd task: failed to create shim task: OCI runtime create failed: "
                "runc create failed: unable to start container process: error during container init: "
                "mkdir /etc/passwd: not a directory: unknown",
            ),
            -1203,
            "ContainerStartFailed",
            set(),
        ),
        (
            ended(128, reason="RunContainerError", message="something new"),
            -1203,
            "ContainerStartFailed",
            set(),
        ),
        (
            ended(137, reason="ContainerStatusUnknown"),
            -1204,
            "ContainerStatusUnknown",
            {"Transient", "Platform"},
        ),
        # A kubelet whose runtime was killed fails a pod, and still waits for its container.
        (
            waiting("RunContainerError", "rpc error: code = Unavailable desc = transport is closing"),
            -1202,
            "ContainerRuntimeFailed",
            {"Transient", "Platform"},
        ),
        (waiting("CreateContainerError", "no idea"), -1203, "ContainerStartFailed", set()),
        (waiting("ContainerCreating"), -300, "PodFailedWithoutFailedContainer", set()),
        (
            ended(255, reason="Unknown"),
            -1204,
            "ContainerStatusUnknown",
            {"Transient", "Platform"},
        ),
        (
            ended(127, message="exec: x: no such file or directory"),
            127,
            "ContainerUnrecognizedFailed",
            set(),
        ),
        (ended(130), 130, "ContainerSigIntReceived", {"Transient"}),
        (ended(131), 131, "ContainerSigQuitReceived", {"Transient"}),
        (ended(137), 137, "ContainerSigKillReceived", {"Transient"}),
        (ended(143), 143, "ContainerSigTermReceived", {"Transient"}),
        (ended(132), 132, "ContainerSigIllReceived", {"Permanent"}),
        (ended(135), 135, "ContainerSigBusReceived", {"Permanent"}),
        (ended(136), 136, "ContainerSigFpeReceived", {"Permanent"}),
        (ended(139), 139, "ContainerSigSegvReceived", {"Permanent"}),
        (ended(141), 141, "ContainerSigPipeReceived", {"Permanent"}),
        (ended(134), 134, "ContainerSigAbrtReceived", set()),
        (ended(133), 133, "ContainerUnrecognizedFailed", set()),
    ],
)
def test_default_classes_match_container_terminations(
    container: ContainerStatus, code: int, phrase: str, attributes: set[str]
) -> None:
    result = DEFAULTS.classify(pod(container))
    assert (result.code, result.phrase, set(result.type.attributes)) == (code, phrase, attributes)


def test_default_classes_are_a_valid_configuration() -> None:
    codes = [failure.code for failure in DEFAULT_FAILURE_CLASSES]
    assert len(codes) == len(set(codes))
    assert not any(completion.is_reserved(code) for code in codes)
    assert all(failure.pod_patterns and failure.type.is_failed for failure in DEFAULT_FAILURE_CLASSES)


# Order and matching


@pytest.mark.parametrize(
    ("view", "code"),
    [
        pytest.param(pod(ended(200), reason="Evicted"), 200, id="predefined before configured"),
        pytest.param(pod(ended(201), ended(200)), 200, id="200 before 201"),
        pytest.param(pod(ended(210), ended(201)), 201, id="201 before 210"),
        pytest.param(pod(ended(137), reason="Evicted"), -1000, id="pod before container"),
        pytest.param(pod(ended(143), ended(137, reason="OOMKilled")), -1200, id="reason before code"),
    ],
)
def test_predefined_codes_precede_configured_classes(view: PodView, code: int) -> None:
    assert DEFAULTS.classify(view).code == code


def test_first_configured_match_wins() -> None:
    first = failure_class(-2001, PodPattern(reason_regex="^Lost"), PodPattern(reason_regex="^Odd$"))
    second = failure_class(-2000, PodPattern(reason_regex="^Odd"))
    assert Classifier([first, second]).classify(pod(reason="Odd")).code == -2001
    assert Classifier([second, first]).classify(pod(reason="Odd")).code == -2000
    assert Classifier([first, second]).classify(pod(reason="Oddly")).code == -2000


@pytest.mark.parametrize(
    ("classifier", "view", "matched"),
    [
        (one(), pod(), {}),
        (one(name_regex="-worker-"), pod(), {"name": "-worker-"}),
        (one(name_regex="^worker"), pod(), None),
        (one(reason_regex="(?i)odd"), pod(reason="Odd", message="x"), {"reason": "Odd"}),
        (
            one(reason_regex="^Odd$", message_regex=r"disk \d+"),
            pod(reason="Odd", message="on disk 12."),
            {"reason": "Odd", "message": "disk 12"},
        ),
        (one(reason_regex="^Odd$", message_regex=r"disk"), pod(reason="Odd", message="CPU"), None),
        (
            one(reason_regex="^Odd$", containers=(ContainerPattern(code_range=IntRange(min=7, max=9)),)),
            pod(ended(8, signal=3), reason="Odd"),
            {"reason": "Odd", "containers": [{"code": 8}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="^b$", message_regex="(?s)a.b"),)),
            pod(ended(1, "a", message="a\nb"), ended(2, "b", message="-a\nb-")),
            {"containers": [{"name": "b", "message": "a\nb"}]},
        ),
        (
            one(containers=(ContainerPattern(signal_range=IntRange(min=9, max=9)),)),
            pod(ended(1, signal=9)),
            {"containers": [{"signal": 9}]},
        ),
        (one(containers=(ContainerPattern(signal_range=IntRange(max=8)),)), pod(ended(1, signal=9)), None),
        (
            one(containers=(ContainerPattern(name_regex="a"), ContainerPattern(reason_regex="^Odd$"))),
            pod(ended(1, "a"), ended(2, "c", "Odd")),
            {"containers": [{"name": "a"}, {"reason": "Odd"}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="a"), ContainerPattern(reason_regex="^Odd$"))),
            pod(ended(1, "a"), ended(2, "c")),
            None,
        ),
        (
            one(containers=(ContainerPattern(name_regex="barrier"),)),
            pod(running(), init=(ended(3, "barrier"),)),
            {"containers": [{"name": "barrier"}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="main"),)),
            pod(running()),
            {"containers": [{"name": "main"}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="main"),)),
            pod(ended(0)),
            {"containers": [{"name": "main"}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="."),)),
            pod(running("a"), ended(1, "b")),
            {"containers": [{"name": "a"}]},
        ),
        (
            one(containers=(ContainerPattern(name_regex="main", message_regex="odd"),)),
            pod(ended(0, message="an odd end")),
            {"containers": [{"name": "main", "message": "odd"}]},
        ),
        # Every field but the name needs a container that terminated.
        (one(containers=(ContainerPattern(message_regex=".*"),)), pod(running()), None),
        (one(containers=(ContainerPattern(reason_regex=".*"),)), pod(running()), None),
        (one(containers=(ContainerPattern(signal_range=IntRange(max=9)),)), pod(running()), None),
        (one(containers=(ContainerPattern(code_range=IntRange(max=9)),)), pod(running()), None),
        (one(containers=(ContainerPattern(),)), pod(running()), {}),
        (one(containers=(ContainerPattern(),)), pod(), None),
        (
            one(containers=(ContainerPattern(code_range=IntRange(min=0)),)),
            pod(ended(0)),
            {"containers": [{"code": 0}]},
        ),
        (
            one(containers=(ContainerPattern(code_range=IntRange(max=5)),)),
            pod(ended(0)),
            {"containers": [{"code": 0}]},
        ),
    ],
)
def test_diagnostics_have_only_the_fields_of_the_pattern(
    classifier: Classifier, view: PodView, matched: object
) -> None:
    result = classifier.classify(view)
    if matched is None:
        assert result.code != -2000
    else:
        assert (result.code, diagnosed(result)) == (-2000, matched)


def test_pods_that_differ_only_in_containers_that_never_terminated_are_told_apart() -> None:
    """The classifier remembers what it found for equal pods."""
    classifier = one(containers=(ContainerPattern(name_regex="^stuck$"),))
    codes = [classifier.classify(pod(ended(1), running(name))).code for name in ("other", "stuck", "other")]
    assert codes == [1, -2000, 1]


def test_built_in_container_classes_match_failed_containers_only() -> None:
    """A process of the container was killed, and the container succeeded all the same."""
    result = DEFAULTS.classify(pod(ended(0, "sidecar", "OOMKilled"), ended(3)))
    assert (result.code, result.phrase) == (3, "ContainerUnrecognizedFailed")


def test_nested_repetition_is_matched_in_linear_time() -> None:
    """A backtracking engine would not finish."""
    result = one(message_regex="(a+)+$").classify(pod(ended(1), message="a" * 100_000 + "b"))
    assert result.code == 1


def test_invalid_expression_is_rejected_when_the_classifier_is_created() -> None:
    with pytest.raises(PatternError):
        one(reason_regex="(")


# No match


@pytest.mark.parametrize(
    ("view", "code"),
    [
        pytest.param(pod(ended(3, at=2), ended(4, at=1)), 3, id="the one that finished last"),
        pytest.param(pod(ended(3), ended(4)), 3, id="same second: the first in order"),
        pytest.param(pod(ended(4), ended(5), ended(6, at=-1)), 4, id="same second: the first of the last"),
        pytest.param(pod(ended(4), init=(ended(3),)), 3, id="same second: init containers come first"),
        pytest.param(pod(ended(3, at=None), ended(4, at=None)), 3, id="no known times: the first in order"),
        pytest.param(pod(ended(3), ended(0, at=9), running("c")), 3, id="only those that failed"),
        pytest.param(pod(ended(3), ended(4, at=None)), 3, id="one that finished at no known time"),
        pytest.param(pod(ended(4, at=None)), 4, id="no known time at all"),
        pytest.param(pod(ended(-5)), -5, id="a negative code"),
        pytest.param(pod(ended(0), running("b")), -300, id="none failed"),
        pytest.param(pod(), -300, id="no containers"),
    ],
)
def test_unmatched_pod_has_the_last_exit_code(view: PodView, code: int) -> None:
    result = Classifier([]).classify(view)
    phrase = "PodFailedWithoutFailedContainer" if code == -300 else "ContainerUnrecognizedFailed"
    assert (result.code, result.phrase, result.type) == (code, phrase, completion.FAILED)


def test_diagnostics_of_an_unmatched_pod_have_all_fields() -> None:
    view = pod(
        ended(3, "main", "Error", "Traceback …", signal=1),
        running("sidecar"),
        reason="Odd",
        message="who knows",
        init=(ended(0, "barrier", "Completed"),),
    )
    result = DEFAULTS.classify(view)
    assert diagnosed(result, "unmatched") == {
        "reason": "Odd",
        "message": "who knows",
        "containers": [
            {"name": "barrier", "reason": "Completed", "code": 0},
            {"name": "main", "reason": "Error", "message": "Traceback …", "signal": 1, "code": 3},
        ],
    }
    assert json.loads(msgspec.json.encode(result.pod)) == diagnosed(result, "unmatched")


# Pods that could not be created


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (400, "BadRequest", "bad", CompletionCode.POD_CREATION_UNKNOWN_ERROR),
        (400, "", "bad", CompletionCode.POD_CREATION_UNKNOWN_ERROR),
        (400, "BadRequest", "the object provided is unrecognized (must be of type Pod)", None),
        (403, "Forbidden", "violates PodSecurity", CompletionCode.POD_CREATION_UNKNOWN_ERROR),
        (403, "Forbidden", "exceeded quota: gpus, requested: 8", None),
        (403, "", "exceeded quota: gpus, requested: 8", None),
        (
            403,
            "Forbidden",
            'pods is forbidden: User "controller" cannot create resource "pods" in API group ""',
            None,
        ),
        (403, "Forbidden", 'pods "a" is forbidden: User said no', CompletionCode.POD_CREATION_UNKNOWN_ERROR),
        (422, "Invalid", "spec.containers: Required", CompletionCode.POD_CREATION_PERMANENT_ERROR),
        (422, "Invalid", "exceeded quota", CompletionCode.POD_CREATION_PERMANENT_ERROR),
        (
            413,
            "RequestEntityTooLarge",
            "limit is 3145728",
            CompletionCode.POD_CREATION_PERMANENT_ERROR,
        ),
        (413, "", "limit is 3145728", CompletionCode.POD_CREATION_PERMANENT_ERROR),
        (409, "AlreadyExists", "pods exists", None),
        (409, "Conflict", "stale", None),
        (404, "NotFound", "no namespace", None),
        (401, "Unauthorized", "who", None),
        (429, "TooManyRequests", "later", None),
        (500, "InternalError", "webhook", None),
        (503, "", "", None),
        (0, "", "connection reset", None),
        (0, "Invalid", "half an answer", None),
    ],
)
def test_rejected_creation_is_classified(
    code: int, reason: str, message: str, expected: CompletionCode | None
) -> None:
    result = classify_creation_failure(ApiFailure(code, reason, message))
    if expected is None:
        assert result is None
        return
    assert result == completion.task_completion(expected, f"Failed to create Pod: {message}")


# What is kept


def completed(text: str, pod_message: str = "", container_message: str = "") -> TaskAttemptCompletionStatus:
    containers = (
        ContainerCompletionStatus(name="a", code=0),
        ContainerCompletionStatus(name="b", message=container_message, code=1),
    )
    kept = PodCompletionStatus("Odd", pod_message, containers)
    return TaskAttemptCompletionStatus(1, "Odd", completion.FAILED, text, kept)


LONG, CUT = "x" * 201, "x" * 197 + "…"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (completed(LONG), completed(CUT)),
        (completed("", pod_message=LONG), completed("", pod_message=CUT)),
        (completed("", container_message=LONG), completed("", container_message=CUT)),
        (completed("é" * 101), completed("é" * 98 + "…")),
        (completed("😀" * 51), completed("😀" * 49 + "…")),
    ],
)
def test_long_texts_are_truncated(
    before: TaskAttemptCompletionStatus, after: TaskAttemptCompletionStatus
) -> None:
    assert truncate(before) == after
    assert truncate(after) is after


@pytest.mark.parametrize(
    "text", ["", "x" * 200, "é" * 100, "😀" * 50], ids=["empty", "bytes", "two bytes each", "four bytes each"]
)
def test_short_texts_are_not_changed(text: str) -> None:
    ended_so = completed(text, text, text)
    assert truncate(ended_so) is ended_so


def test_completion_without_a_pod_is_truncated() -> None:
    before = completion.task_completion(CompletionCode.POD_CREATION_PERMANENT_ERROR, LONG)
    after = truncate(before)
    assert (after.diagnostics, after.pod) == (CUT, None)
