"""The failure classes used when the configuration has none (statement 22 of docs/behaviours.md). Data only.

The reasons are those that Kubernetes and container runtimes have written in the last ten years. Except for those that
begin with OutOf, they are matched completely, so that a longer reason of a later release is not mistaken for a known
one.
"""

from collections.abc import Sequence

from windlass.model.completion import CompletionType, CompletionTypeAttribute
from windlass.model.failures import ContainerPattern, FailureClass, IntRange, PodPattern
from windlass.model.start_errors import START_REASONS

ANY_TEXT = "(?s).*"
"""Matches any text, so that the field appears in the diagnostics."""


def exit_code_pattern(code: int) -> PodPattern:
    """Return a pattern for a container with this exit code. Its name and message appear in the diagnostics."""
    return PodPattern(
        containers=(
            ContainerPattern(
                name_regex=ANY_TEXT, message_regex=ANY_TEXT, code_range=IntRange(min=code, max=code)
            ),
        )
    )


_TRANSIENT = CompletionTypeAttribute.TRANSIENT
_PERMANENT = CompletionTypeAttribute.PERMANENT
_PLATFORM = CompletionTypeAttribute.PLATFORM
_USER = CompletionTypeAttribute.USER

_ADMISSION_REASONS = (
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "InvalidNodeInfo",
    "UnknownReason",
    "NodeShutdown",
    # The node no longer matches what the scheduler saw. The last three are the names used before Kubernetes 1.18.
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeUnschedulable",
    "TaintToleration",
    "MatchNodeSelector",
    "HostName",
    "PodFitsHostPorts",
    # The node lacks what the pod needs; another node may have it.
    "AppArmor",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "VolumeAttachmentLimitExceeded",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "SupplementalGroupsPolicyNotSupported",
    "InitContainerRestartPolicyForbidden",
)

_COMMAND_CANNOT_RUN = (
    "(?is)(exec:? |chdir to cwd).*"
    "(executable file not found|no such file or directory|permission denied|exec format error|is a directory)"
)
# The pattern does not match "failed to create containerd task: failed to create shim task", since every message of
# containerd begins with this text.
_RUNTIME_FAILED = (
    "(?i)(nvidia-container-cli|docker daemon|containerd-shim|cgroup"
    "|no space left on device|resource temporarily unavailable|context deadline exceeded|connection refused"
    "|transport is closing|error reading from server)"
)


def _one_of(words: Sequence[str]) -> str:
    return f"^({'|'.join(words)})$"


def _pod_class(
    code: int, phrase: str, reason_regex: str, *attributes: CompletionTypeAttribute
) -> FailureClass:
    pattern = PodPattern(reason_regex=reason_regex)
    return FailureClass(code, phrase, CompletionType(attributes=attributes), (pattern,))


def _container_class(
    code: int, phrase: str, reasons: Sequence[str], message_regex: str, *attributes: CompletionTypeAttribute
) -> FailureClass:
    container = ContainerPattern(
        name_regex=ANY_TEXT,
        reason_regex=_one_of(reasons),
        message_regex=message_regex,
        code_range=IntRange(min=1),
    )
    pattern = PodPattern(containers=(container,))
    return FailureClass(code, phrase, CompletionType(attributes=attributes), (pattern,))


def _exit_class(code: int, phrase: str, *attributes: CompletionTypeAttribute) -> FailureClass:
    return FailureClass(code, phrase, CompletionType(attributes=attributes), (exit_code_pattern(code),))


DEFAULT_FAILURE_CLASSES: tuple[FailureClass, ...] = (
    _pod_class(-1000, "PodEvicted", "^Evicted$", _TRANSIENT, _PLATFORM),
    # `Terminated` and `Shutdown` are written by a node that shuts down gracefully.
    _pod_class(-1001, "PodNodeLost", "^(NodeLost|Terminated|Shutdown)$", _TRANSIENT, _PLATFORM),
    _pod_class(-1002, "PodOutOfNodeResources", "^OutOf.+$", _TRANSIENT, _PLATFORM),
    _pod_class(-1003, "PodPreempted", "^Preempt(ing|ed)$", _TRANSIENT, _PLATFORM),
    _pod_class(-1004, "PodDeadlineExceeded", "^DeadlineExceeded$", _PERMANENT, _USER),
    _pod_class(-1005, "PodForbidden", "^(Sysctl)?Forbidden$", _PERMANENT, _USER),
    _pod_class(-1006, "PodAdmissionFailed", _one_of(_ADMISSION_REASONS), _TRANSIENT, _PLATFORM),
    _container_class(-1200, "ContainerOOMKilled", ("OOMKilled",), "", _PERMANENT, _USER),
    _container_class(
        -1201, "ContainerCommandCannotRun", START_REASONS, _COMMAND_CANNOT_RUN, _PERMANENT, _USER
    ),
    _container_class(-1202, "ContainerRuntimeFailed", START_REASONS, _RUNTIME_FAILED, _TRANSIENT, _PLATFORM),
    _container_class(-1203, "ContainerStartFailed", START_REASONS, ANY_TEXT),
    # The kubelet lost track of the container, e.g. after a reboot; containerd then reports `Unknown` and code 255.
    _container_class(
        -1204,
        "ContainerStatusUnknown",
        ("ContainerStatusUnknown", "Unknown"),
        ANY_TEXT,
        _TRANSIENT,
        _PLATFORM,
    ),
    # The exit code is 128 + the number of the signal. Signals sent from outside are Transient, those caused by a fault
    # of the program Permanent; an abort can be either.
    _exit_class(130, "ContainerSigIntReceived", _TRANSIENT),
    _exit_class(131, "ContainerSigQuitReceived", _TRANSIENT),
    _exit_class(132, "ContainerSigIllReceived", _PERMANENT),
    _exit_class(134, "ContainerSigAbrtReceived"),
    _exit_class(135, "ContainerSigBusReceived", _PERMANENT),
    _exit_class(136, "ContainerSigFpeReceived", _PERMANENT),
    _exit_class(137, "ContainerSigKillReceived", _TRANSIENT),
    _exit_class(139, "ContainerSigSegvReceived", _PERMANENT),
    _exit_class(141, "ContainerSigPipeReceived", _PERMANENT),
    _exit_class(143, "ContainerSigTermReceived", _TRANSIENT),
)
