"""A barrier without a readable Gang reads the Framework, as the reference's barrier does."""

import base64
import gzip
from typing import Any

import barrier_api as apis
import gang_objects
import msgspec
import pytest
from barrier_api import Answer, Step, Watch, event, refusal
from barrier_runs import BY_FRAMEWORK, FULL, GAPPED, OURS, Run, seen, written

from windlass.barrier.waiting import BarrierResult, ForbiddenError, FrameworkNotFoundError, TimedOutError

# Where the Gang may not be read


@pytest.mark.parametrize("code", [403, 404, 405])
def test_framework_is_read_if_the_gang_is_forbidden(code: int) -> None:
    """framework.json is the stored Framework, unchanged."""
    with apis.serving(watch_gangs=[refusal(code)], get_framework=[Answer(200, written(FULL))]) as api:
        run = Run(api)
        passed = run.wait()
        assert api.questions == [
            "watch windlass.dev",
            "get launcher.microsoft.com",
            "get frameworkcontroller.microsoft.com",
        ]
    assert passed == BarrierResult(OURS, written(FULL))
    (message,) = run.messages
    assert gang_objects.GANG in message
    assert "reading the Framework instead" in message


def test_forbidden_gang_and_framework_are_an_error() -> None:
    no = [refusal(403)]
    with apis.serving(watch_gangs=no, get_launcher=no, get_framework=no) as api:
        with pytest.raises(ForbiddenError) as caught:
            Run(api).wait()
        assert len(api.asked) == 3
    assert "not allowed to read Framework research/digits or its Gang" in str(caught.value)
    assert "windlass install" in str(caught.value)


# By the Framework


@pytest.mark.parametrize("group", ["launcher", "framework"])
def test_framework_of_either_group_is_found(group: str) -> None:
    with apis.serving({f"get_{group}": [Answer(200, written(FULL))]}) as api:
        assert Run(api, BY_FRAMEWORK).wait() == BarrierResult(OURS, written(FULL))


@pytest.mark.parametrize("other", ["launcher", "framework"])
def test_permission_for_one_group_is_sufficient(other: str) -> None:
    """Users of the reference have given their pods permission for one API group only."""
    mine = "framework" if other == "launcher" else "launcher"
    steps = {f"get_{other}": [refusal(403)], f"get_{mine}": [Answer(200, written(FULL))]}
    with apis.serving(steps) as api:
        assert Run(api, BY_FRAMEWORK).wait() == BarrierResult(OURS, written(FULL))


def test_framework_in_a_forbidden_group_is_an_error() -> None:
    """The Framework may be in the forbidden group, so it is not reported as missing."""
    with apis.serving(get_launcher=[refusal(403)]) as api, pytest.raises(ForbiddenError):
        Run(api, BY_FRAMEWORK).wait()


def test_missing_framework_is_an_error() -> None:
    with apis.serving() as api:
        with pytest.raises(FrameworkNotFoundError, match="Framework digits not found in namespace research"):
            Run(api, BY_FRAMEWORK).wait()
        assert len(api.asked) == 2


@pytest.mark.parametrize("name", ["my job", "a/b", "a?b=c", "a#b", "Ä", "a\nb", "%2e", "..", "a" * 300])
def test_invalid_framework_name_is_quoted(name: str) -> None:
    """Any value of framework_name is escaped in the request, and the Framework is reported as missing."""
    with apis.serving() as api:
        with pytest.raises(FrameworkNotFoundError):
            Run(api, msgspec.structs.replace(BY_FRAMEWORK, framework=name)).wait()
        assert all("/frameworks/" in asked.path and not asked.query for asked in api.asked)


def test_framework_is_watched_until_all_have_addresses() -> None:
    lines = [seen("MODIFIED", GAPPED), seen("MODIFIED", FULL)]
    with apis.serving(
        get_framework=[Answer(200, written(GAPPED))], watch_framework=[Watch(lines, "more")]
    ) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == BarrierResult(OURS, written(FULL))
        assert len(api.asked) == 3
        watch = api.asked[-1]
    assert watch.path == "/apis/frameworkcontroller.microsoft.com/v1/namespaces/research/frameworks"
    assert watch.query["fieldSelector"] == "metadata.name=digits"
    assert watch.query["resourceVersion"] == "1"
    assert (run.messages, run.clock.slept) == ([], [])


def test_outdated_framework_is_ignored() -> None:
    """A status before the retry, and one without our pod, are outdated."""
    earlier = msgspec.structs.replace(BY_FRAMEWORK, attempt="1_cm2")
    elsewhere = msgspec.structs.replace(BY_FRAMEWORK, pod_uid="uid-new")
    for options in (earlier, elsewhere):
        steps: dict[str, list[Step]] = {
            "get_framework": [Answer(200, written(FULL))],
            "watch_framework": [Watch()],
        }
        with apis.serving(steps) as api, pytest.raises(TimedOutError):
            Run(api, options).wait()


@pytest.mark.parametrize("namespace", ["research", "gangs", "team-gangs"])
def test_deleted_framework_is_an_error(namespace: str) -> None:
    """The namespace may have any name."""
    options = msgspec.structs.replace(BY_FRAMEWORK, namespace=namespace)
    with apis.serving(
        get_framework=[Answer(200, written(GAPPED))],
        watch_framework=[Watch([seen("DELETED", GAPPED)], "more")],
    ) as api:
        api.push({"type": "ADDED", "object": {}})  # ends a barrier that has not heard of it
        with pytest.raises(FrameworkNotFoundError, match=f"Framework {namespace}/digits was deleted"):
            Run(api, options).wait()


def test_framework_deleted_between_watches_is_an_error() -> None:
    gone: list[Step] = [Answer(200, written(GAPPED)), refusal(404)]
    with (
        apis.serving(get_framework=gone, watch_framework=[Watch()]) as api,
        pytest.raises(FrameworkNotFoundError),
    ):
        Run(api, BY_FRAMEWORK).wait()


@pytest.mark.parametrize("code", [403, 405])
def test_framework_is_polled_if_watching_is_forbidden(code: int) -> None:
    """The interval is BARRIER_CHECK_INTERVAL_SEC, as in the reference."""
    reads = [Answer(200, written(GAPPED))] * 3 + [Answer(200, written(FULL))]
    with apis.serving(get_framework=reads, watch_framework=[refusal(code)]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == BarrierResult(OURS, written(FULL))
        assert api.questions.count("get frameworkcontroller.microsoft.com") == 4
    waited = run.clock.now - 1000
    assert 3 * BY_FRAMEWORK.interval <= waited <= 3 * BY_FRAMEWORK.interval + 1
    assert run.messages == []


@pytest.mark.parametrize(
    "old",
    [refusal(410, "too old"), Watch([event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})])],
    ids=["answer", "event"],
)
def test_expired_resource_version_restarts_the_watch(old: Step) -> None:
    """The Framework is read again soon."""
    reads: list[Step] = [Answer(200, written(GAPPED)), Answer(200, written(FULL))]
    with apis.serving(get_framework=reads, watch_framework=[old]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == BarrierResult(OURS, written(FULL))
    assert (run.clock.now - 1000 < 1, run.messages) == (True, [])


GARBAGE: dict[str, Any] = {
    "not-json": b"<html>\nno\n</html>",
    "empty": b"",
    "a-list": [],
    "a-status": {"kind": "Status", "code": 200},
    "no-name": {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework", "metadata": {}},
    "metadata-of-a-wrong-shape": {"apiVersion": "a/v1", "kind": "Framework", "metadata": "none"},
    "broken-compression": {
        **written(FULL),
        "status": {
            **written(FULL)["status"],
            "attemptStatus": {
                **written(FULL)["status"]["attemptStatus"],
                "taskRoleStatuses": None,
                "taskRoleStatusesCompressed": "AAAA",
            },
        },
    },
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_malformed_framework_is_retried(garbage: Any) -> None:
    """The Framework is read again, after an invalid read and after an invalid event."""
    reads: list[Step] = [Answer(200, garbage), Answer(200, written(GAPPED)), Answer(200, written(FULL))]
    line = garbage if isinstance(garbage, bytes) else event("MODIFIED", garbage)
    with apis.serving(get_framework=reads, watch_framework=[Watch([line])]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == BarrierResult(OURS, written(FULL))
    assert all("\n" not in line for line in run.messages)


def test_compressed_statuses_are_expanded() -> None:
    """Statement 50. framework.json holds them as plain values: that is what its readers look for."""
    plain = written(FULL)
    compressed = msgspec.json.decode(msgspec.json.encode(plain))
    attempt = compressed["status"]["attemptStatus"]
    attempt["taskRoleStatusesCompressed"] = packed(attempt["taskRoleStatuses"])
    attempt["taskRoleStatuses"] = None
    with apis.serving(get_framework=[Answer(200, compressed)]) as api:
        passed = Run(api, BY_FRAMEWORK).wait()
    assert passed.gang == OURS
    assert passed.framework is not None
    found = passed.framework["status"]["attemptStatus"]
    assert found["taskRoleStatuses"] == plain["status"]["attemptStatus"]["taskRoleStatuses"]


def packed(value: Any) -> str:
    return base64.b64encode(gzip.compress(msgspec.json.encode(value))).decode()
