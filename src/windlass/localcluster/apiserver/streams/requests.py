"""Parsing of requests for logs, exec, attach and port-forward, and their preconditions."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.printing import accessors
from windlass.localcluster.apiserver.printing.accessors import Object
from windlass.localcluster.apiserver.streams import websockets

_FALSE_VALUES = ("false", "0")


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a log request. The runtime applies all but `limit_bytes`, which the server applies."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None
    uid: str = ""
    """UID of the pod, which may be deleted. Kubernetes does not have this option."""


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """The requested streams of a process."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def log_options(query: Mapping[str, str], pod_name: str) -> LogOptions:
    options = LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_integer(query, "tailLines"),
        since_seconds=_integer(query, "sinceSeconds"),
        since_time=_time(query, "sinceTime"),
        limit_bytes=_integer(query, "limitBytes"),
        uid=query.get("uid", ""),
    )
    errors = _log_errors(options)
    if errors:
        raise api_errors.invalid("", "PodLogOptions", pod_name, errors)
    return options


def _log_errors(options: LogOptions) -> list[api_errors.FieldError]:
    errors = []
    if options.tail_lines is not None and options.tail_lines < 0:
        detail = "must be greater than or equal to 0"
        errors.append(api_errors.invalid_value("tailLines", options.tail_lines, detail))
    if options.limit_bytes is not None and options.limit_bytes < 1:
        errors.append(api_errors.invalid_value("limitBytes", options.limit_bytes, "must be greater than 0"))
    if options.since_seconds is not None and options.since_time is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(api_errors.forbidden_field("[]", detail))
    elif options.since_seconds is not None and options.since_seconds < 1:
        errors.append(
            api_errors.invalid_value("sinceSeconds", options.since_seconds, "must be greater than 0")
        )
    return errors


def streams(query: Mapping[str, str]) -> Streams:
    tty = _flag(query, "tty")
    # A terminal has a single output stream, without a separate stderr.
    requested = Streams(
        stdin=_flag(query, "stdin"),
        stdout=_flag(query, "stdout"),
        stderr=_flag(query, "stderr") and not tty,
        tty=tty,
    )
    if not (requested.stdin or requested.stdout or requested.stderr):
        raise api_errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return requested


def ports(values: Sequence[str]) -> tuple[int, ...]:
    """Parse `ports=80&ports=81,82`."""
    texts = [text for value in values for text in value.split(",")]
    if not texts:
        raise api_errors.bad_request('query parameter "ports" is required')
    if len(texts) > websockets.MAX_PORTS:
        raise api_errors.bad_request(
            f"at most {websockets.MAX_PORTS} ports can be forwarded over one connection"
        )
    return tuple(map(_port, texts))


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**16:
        raise api_errors.bad_request(f'unable to parse "{text}" as a port: it must be between 1 and 65535')
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in _FALSE_VALUES


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if text in ("", "null"):
        return None
    moment = accessors.parse_time(text)
    if moment is None:
        raise api_errors.bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse it')
    return moment


def container_name(pod: Object, requested: str) -> str:
    """Return the name of the requested container, or of the only one that is not an init container."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    main = [each["name"] for each in spec["containers"]]
    choices = [each["name"] for each in spec.get("initContainers") or []] + main
    if requested and requested not in choices:
        raise api_errors.bad_request(f"container {requested} is not valid for pod {name}")
    if not requested and len(main) > 1:
        message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(choices)}]"
        raise api_errors.bad_request(message)
    return requested or main[0]


def is_scheduled(pod: Object) -> bool:
    return bool(accessors.text(pod, "spec", "nodeName"))


def require_scheduled(pod: Object) -> None:
    if not is_scheduled(pod):
        raise api_errors.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def require_running(pod: Object, container_name: str) -> None:
    if accessors.at(_container_status(pod, container_name), "state", "running") is None:
        raise api_errors.ApiError(500, "InternalError", f'container not found ("{container_name}")')


def require_log(pod: Object, container_name: str, *, previous: bool) -> None:
    """Reject a container that has not started yet or, with `previous`, has no previous run."""
    status = _container_status(pod, container_name)
    subject = f'container "{container_name}" in pod "{pod["metadata"]["name"]}"'
    if status is None:
        raise api_errors.bad_request(f"{subject} is not available")
    has_ended_before = accessors.at(status, "lastState", "terminated") is not None
    if previous and not has_ended_before:
        raise api_errors.bad_request(f"previous terminated {subject} not found")
    state = status.get("state") or {}
    if not previous and not has_ended_before and not state.keys() & {"running", "terminated"}:
        raise api_errors.bad_request(f"{subject} is waiting to start{_waiting_reason(state)}")


def _waiting_reason(state: Object) -> str:
    if "waiting" not in state:
        return " - no logs yet"
    reason = accessors.text(state, "waiting", "reason")
    texts = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    return f": {texts.get(reason, reason)}"


def _container_status(pod: Object, name: str) -> Object | None:
    main = accessors.entries(pod, "status", "containerStatuses")
    statuses = main + accessors.entries(pod, "status", "initContainerStatuses")
    return next((status for status in statuses if status["name"] == name), None)
