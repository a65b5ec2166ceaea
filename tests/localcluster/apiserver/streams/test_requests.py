"""Parsing of requests for logs, exec, attach and port-forward, and error messages."""

from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.streams import requests
from windlass.localcluster.apiserver.streams.requests import LogOptions, Streams


def _pod(state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    status = {} if state is None else {"containerStatuses": [{"name": "main", "state": state, **more}]}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main"}]},
        "status": status,
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, LogOptions()),
        (
            {"follow": "true", "previous": "1", "timestamps": ""},
            LogOptions(follow=True, previous=True, timestamps=True),
        ),
        ({"follow": "false", "previous": "0", "timestamps": "False"}, LogOptions()),
        (
            {"tailLines": "0", "limitBytes": "1", "sinceSeconds": "5"},
            LogOptions(tail_lines=0, limit_bytes=1, since_seconds=5),
        ),
        ({"tailLines": "", "sinceTime": ""}, LogOptions()),
        ({"sinceTime": "2024-01-01T02:00:00Z"}, LogOptions(since_time=datetime(2024, 1, 1, 2, tzinfo=UTC))),
        ({"sinceTime": "2024-01-01T02:00:00+02:00"}, LogOptions(since_time=datetime(2024, 1, 1, tzinfo=UTC))),
    ],
)
def test_log_options(query: dict[str, str], expected: LogOptions) -> None:
    assert requests.log_options(query, "web") == expected


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"sinceTime": "now"}, 400, 'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse it'),
        (
            {"sinceTime": "2024-13-01T00:00:00Z"},
            400,
            'parsing time "2024-13-01T00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse it',
        ),
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2024-01-01T00:00:00Z"},
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
def test_invalid_log_options_are_rejected(query: dict[str, str], code: int, message: str) -> None:
    with pytest.raises(api_errors.ApiError) as caught:
        requests.log_options(query, "web")
    prefix = 'PodLogOptions "web" is invalid: ' if code == 422 else ""
    assert (caught.value.code, caught.value.message) == (code, prefix + message)


_CONTAINERS = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "first"}]}


@pytest.mark.parametrize(
    ("spec", "asked", "expected"),
    [
        ({"containers": [{"name": "a"}]}, "", "a"),
        ({"containers": [{"name": "a"}], "initContainers": [{"name": "first"}]}, "", "a"),
        (_CONTAINERS, "b", "b"),
        (_CONTAINERS, "first", "first"),
    ],
)
def test_container_names(spec: dict[str, Any], asked: str, expected: str) -> None:
    assert requests.container_name({"metadata": {"name": "web"}, "spec": spec}, asked) == expected


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ("", "a container name must be specified for pod web, choose one of: [first a b]"),
        ("c", "container c is not valid for pod web"),
    ],
)
def test_unknown_or_ambiguous_container_is_rejected(asked: str, refusal: str) -> None:
    with pytest.raises(api_errors.ApiError) as caught:
        requests.container_name({"metadata": {"name": "web"}, "spec": _CONTAINERS}, asked)
    assert (caught.value.code, caught.value.message) == (400, refusal)


_ENDED = {"terminated": {"exitCode": 1}}
_WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("pod", "previous", "refusal"),
    [
        (_pod({"running": {}}), False, None),
        (_pod(_ENDED), False, None),
        (_pod(_WAITING, lastState=_ENDED), False, None),
        (_pod(_WAITING, lastState=_ENDED), True, None),
        (_pod({"running": {}}), True, 'previous terminated container "main" in pod "web" not found'),
        (_pod(_ENDED), True, 'previous terminated container "main" in pod "web" not found'),
        (_pod(), False, 'container "main" in pod "web" is not available'),
        (_pod(_WAITING), False, 'container "main" in pod "web" is waiting to start: CrashLoopBackOff'),
        (_pod({}), False, 'container "main" in pod "web" is waiting to start - no logs yet'),
        (
            _pod({"waiting": {"reason": "ErrImagePull"}}),
            False,
            'container "main" in pod "web" is waiting to start: image can\'t be pulled',
        ),
        (
            _pod({"waiting": {"reason": "ImagePullBackOff"}}),
            False,
            'container "main" in pod "web" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_log_requires_started_container(pod: dict[str, Any], previous: bool, refusal: str | None) -> None:
    if refusal is None:
        requests.require_log(pod, "main", previous=previous)
        return
    with pytest.raises(api_errors.ApiError) as caught:
        requests.require_log(pod, "main", previous=previous)
    assert (caught.value.code, caught.value.message) == (400, refusal)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"stdout": "1"}, Streams(stdin=False, stdout=True, stderr=False, tty=False)),
        ({"stdin": "true", "stderr": "true"}, Streams(stdin=True, stdout=False, stderr=True, tty=False)),
        (
            {"stdout": "1", "stderr": "1", "tty": "1"},
            Streams(stdin=False, stdout=True, stderr=False, tty=True),
        ),
        ({}, None),
        ({"stdout": "false"}, None),
        ({"stderr": "1", "tty": "1"}, None),
    ],
)
def test_requested_streams(query: dict[str, str], expected: Streams | None) -> None:
    if expected is not None:
        assert requests.streams(query) == expected
        return
    with pytest.raises(api_errors.ApiError, match="you must specify at least 1 of stdin, stdout, stderr"):
        requests.streams(query)


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["80"], (80,)), (["80", "81,65535"], (80, 81, 65535)), (["80"] * 127, (80,) * 127)],
)
def test_requested_ports(values: list[str], expected: tuple[int, ...]) -> None:
    assert requests.ports(values) == expected


@pytest.mark.parametrize("values", [[], [""], ["0"], ["65536"], ["80,x"], ["-1"], ["٣"], ["80"] * 128])
def test_invalid_ports_are_rejected(values: list[str]) -> None:
    with pytest.raises(api_errors.ApiError) as caught:
        requests.ports(values)
    assert caught.value.code == 400
