"""Statement 47: on what a barrier passes, on what it goes on waiting, and when it gives up. No time passes here but
that of the clock, which goes on when somebody sleeps."""

import base64
import gzip
import itertools
import threading
from typing import Any

import barrier_api as apis
import gathered
import msgspec
import pytest
from barrier_api import Answer, Api, Step, Watch, event, refusal

from windlass.barrier.options import Options
from windlass.barrier.server import Server
from windlass.barrier.waiting import (
    NoFrameworkError,
    NotAllowedError,
    Passed,
    TimedOutError,
    Waiting,
)
from windlass.model.framework import Framework
from windlass.model.gang import GangSpec
from windlass.wire import codec

OPTIONS = Options(
    "research",
    "digits",
    interval=7,
    gang=gathered.GANG,
    attempt=gathered.ATTEMPT,
    pod_uid="uid-worker-1",
    role="worker",
    index=1,
)
BY_FRAMEWORK = msgspec.structs.replace(OPTIONS, gang="")
OURS = gathered.gang()
FULL = gathered.framework()
GAPPED = gathered.framework({"ps": ["10.0.0.4"], "worker": ["10.0.0.5", ""]})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        assert len(self.slept) < 5000, "it sleeps and sleeps"
        self.slept.append(seconds)
        self.now += max(seconds, 0.001)


class Run:
    """One barrier, and what it has said."""

    def __init__(self, api: Api, options: Options = OPTIONS) -> None:
        self.said: list[str] = []
        self.clock = Clock()
        server = Server(api.url, None, lambda: {"Authorization": "Bearer secret"})
        self.waiting = Waiting(
            server, options, self.said.append, monotonic=self.clock.monotonic, sleep=self.clock.sleep
        )

    def wait(self) -> Passed:
        return self.waiting.wait()


def added(spec: GangSpec, **fields: Any) -> Any:
    return event("ADDED", gathered.stored(msgspec.structs.replace(spec, **fields)))


def written(framework: Framework) -> Any:
    return msgspec.json.decode(codec.encode_framework(framework))


def seen(kind: str, framework: Framework) -> Any:
    return event(kind, written(framework))


# By the Gang


def test_the_gang_is_there_already() -> None:
    with apis.serving(watch_gangs=[Watch([added(OURS)], "more")]) as api:
        run = Run(api)
        assert run.wait() == Passed(OURS)
        (asked,) = api.asked
    assert asked.path == "/apis/windlass.dev/v1/namespaces/research/gangs"
    assert asked.query == {
        "watch": "true",
        "timeoutSeconds": "600",
        "fieldSelector": f"metadata.name={gathered.GANG}",
    }
    assert asked.headers["Authorization"] == "Bearer secret"
    assert (run.said, run.clock.slept) == ([], [])


STALE = {
    "another-attempt": added(OURS, attempt_instance_uid="1_other"),
    "an-earlier-attempt-without-us": added(
        gathered.gang({"ps": ["10.9.9.9"]}), attempt_instance_uid="0_earlier"
    ),
    "ours-without-us": added(gathered.gang({"ps": ["10.0.0.4"], "worker": ["10.0.0.5"]})),
    "no-roles": added(GangSpec(attempt_instance_uid=gathered.ATTEMPT)),
    "bookmark": event("BOOKMARK", {"kind": "Gang", "metadata": {"resourceVersion": "9"}}),
    "deleted": event("DELETED", gathered.stored(gathered.gang({"worker": ["10.9.9.9", "10.9.9.8"]}))),
    "empty-line": b"",
}


@pytest.mark.parametrize("first", STALE.values(), ids=STALE.keys())
def test_what_does_not_count(first: Any) -> None:
    """And then the one that does, on the same watch."""
    lines = [first, event("MODIFIED", gathered.stored(OURS))]
    with apis.serving(watch_gangs=[Watch(lines, "more")]) as api:
        run = Run(api)
        assert run.wait() == Passed(OURS)
        assert api.questions == ["watch windlass.dev"]
    assert run.said == []


@pytest.mark.parametrize(
    "options",
    [
        msgspec.structs.replace(OPTIONS, attempt=""),
        msgspec.structs.replace(OPTIONS, pod_uid=""),
        msgspec.structs.replace(OPTIONS, attempt="", pod_uid=""),
    ],
)
def test_who_does_not_know_itself_takes_what_there_is(options: Options) -> None:
    with apis.serving(watch_gangs=[Watch([added(OURS)], "more")]) as api:
        assert Run(api, options).wait() == Passed(OURS)


def test_one_request_while_it_waits() -> None:
    """Counted at the server, before and after what passes by."""
    with apis.serving(watch_gangs=[Watch((), "more")]) as api:
        run = Run(api)
        found: list[Passed] = []
        thread = threading.Thread(target=lambda: found.append(run.wait()))
        thread.start()
        api.wait_until_asked(1)
        for line in STALE.values():
            api.push(line)
        api.push(added(OURS))
        thread.join(60)
        assert found == [Passed(OURS)]
        assert api.questions == ["watch windlass.dev"]


def test_a_watch_that_the_server_ends_early() -> None:
    """One request for each watch, and nothing to say: watches end."""
    ends: list[Step] = [Watch(), Watch([STALE["bookmark"]], "break"), Watch([STALE["ours-without-us"]])]
    with apis.serving(watch_gangs=[*ends, Watch([added(OURS)])]) as api:
        run = Run(api)
        assert run.wait() == Passed(OURS)
        assert api.questions == ["watch windlass.dev"] * 4
    assert run.said == []
    assert len(run.clock.slept) == 3
    asked = [float(each.query["timeoutSeconds"]) for each in api.asked]
    assert all(earlier >= later for earlier, later in itertools.pairwise(asked))


def test_a_server_that_ends_every_watch_is_not_run_over() -> None:
    """A hundred barriers that ask ten times a second are a thousand requests a second."""
    with apis.serving(watch_gangs=[Watch()]) as api:
        run = Run(api)
        with pytest.raises(TimedOutError):
            run.wait()
        assert len(api.asked) <= 600
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)
    assert run.said == []


BROKEN: dict[str, Step] = {
    "500": refusal(500, "etcd is away"),
    "503-of-a-proxy": Answer(503, b"<html>\n<body>\nService Unavailable\n</body>\n</html>\n"),
    "429": refusal(429, "too many requests"),
    "401": refusal(401, "who are you?"),
    "break-in-a-line": Watch([b'{"type":"ADDED","obj'], "break"),
    "not-json": Watch([b"<html>no</html>"]),
    "not-an-event": Watch([{"kind": "Gang"}]),
    "not-a-gang": Watch([event("ADDED", {"spec": {"roles": "none"}})]),
    "a-number": Watch([7]),
    "not-utf-8": Watch([b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}']),
    "error-event": Watch([event("ERROR", {"kind": "Status", "code": 500, "message": "no"})]),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_trouble_passes(broken: Step) -> None:
    """Three times, whatever it is: one line, then the Gang."""
    with apis.serving(watch_gangs=[broken] * 3 + [Watch([added(OURS)])]) as api:
        run = Run(api)
        assert run.wait() == Passed(OURS)
        assert api.questions == ["watch windlass.dev"] * 4
    (said,) = run.said
    assert "\n" not in said
    assert said.endswith(f"trying on for {OPTIONS.timeout} s")
    assert len(said) < 400


def test_a_server_that_is_away_and_comes_back() -> None:
    """Nobody listens; then somebody who cannot answer; then all is well. One line for all of it."""
    with apis.serving() as gone:
        port = gone.port
    run = Run(gone)
    back: list[Api] = []

    def sleep(seconds: float, slept: Any = run.clock.sleep) -> None:
        slept(seconds)
        if len(run.clock.slept) == 3:
            back.append(Api({"watch windlass.dev": [refusal(500), Watch([added(OURS)])]}, port))

    run.waiting._sleep = sleep
    try:
        assert run.wait() == Passed(OURS)
    finally:
        for api in back:
            api.close()
    assert len(run.clock.slept) == 4
    (said,) = run.said
    assert f"127.0.0.1:{port} does not answer" in said


def test_two_troubles_are_two_lines() -> None:
    steps: list[Step] = [refusal(500), Watch(), refusal(500), Watch([added(OURS)])]
    with apis.serving(watch_gangs=steps) as api:
        run = Run(api)
        run.wait()
    assert len(run.said) == 2


def test_a_server_that_stays_away() -> None:
    """It is asked less and less often, and the time that was asked for is kept."""
    with apis.serving() as gone:
        pass
    run = Run(gone)
    with pytest.raises(TimedOutError):
        run.wait()
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)
    assert len(run.clock.slept) < 300
    assert max(run.clock.slept) <= 5
    assert len(run.said) == 1


def test_nobody_comes() -> None:
    """Statement 47: whoever still waits at the end of the time has waited in vain."""
    with apis.serving(watch_gangs=[Watch([STALE["ours-without-us"]])]) as api:
        run = Run(api)
        with pytest.raises(TimedOutError):
            run.wait()
    assert run.clock.now - 1000 == pytest.approx(OPTIONS.timeout, abs=1)


# Where the Gang may not be read


@pytest.mark.parametrize("code", [403, 404, 405])
def test_the_framework_is_read_instead(code: int) -> None:
    """Whole: what is in framework.json is what is stored."""
    with apis.serving(watch_gangs=[refusal(code)], get_framework=[Answer(200, written(FULL))]) as api:
        run = Run(api)
        passed = run.wait()
        assert api.questions == [
            "watch windlass.dev",
            "get launcher.microsoft.com",
            "get frameworkcontroller.microsoft.com",
        ]
    assert passed == Passed(OURS, written(FULL))
    (said,) = run.said
    assert gathered.GANG in said
    assert "the Framework is read instead" in said


def test_neither_may_be_read() -> None:
    no = [refusal(403)]
    with apis.serving(watch_gangs=no, get_launcher=no, get_framework=no) as api:
        with pytest.raises(NotAllowedError) as caught:
            Run(api).wait()
        assert len(api.asked) == 3
    assert "neither the Gang nor the Framework research/digits may be read" in str(caught.value)
    assert "windlass install" in str(caught.value)


# By the Framework


@pytest.mark.parametrize("group", ["launcher", "framework"])
def test_a_framework_of_either_group(group: str) -> None:
    with apis.serving({f"get_{group}": [Answer(200, written(FULL))]}) as api:
        assert Run(api, BY_FRAMEWORK).wait() == Passed(OURS, written(FULL))


@pytest.mark.parametrize("other", ["launcher", "framework"])
def test_rights_on_one_group_are_enough(other: str) -> None:
    """The reference's users have given their pods rights on its own group, and on no other."""
    mine = "framework" if other == "launcher" else "launcher"
    steps = {f"get_{other}": [refusal(403)], f"get_{mine}": [Answer(200, written(FULL))]}
    with apis.serving(steps) as api:
        assert Run(api, BY_FRAMEWORK).wait() == Passed(OURS, written(FULL))


def test_it_is_not_where_it_may_be_looked_for() -> None:
    """It may be where nobody may look: that there is none cannot be said."""
    with apis.serving(get_launcher=[refusal(403)]) as api, pytest.raises(NotAllowedError):
        Run(api, BY_FRAMEWORK).wait()


def test_there_is_no_such_framework() -> None:
    with apis.serving() as api:
        with pytest.raises(NoFrameworkError, match="there is no Framework digits in the namespace research"):
            Run(api, BY_FRAMEWORK).wait()
        assert len(api.asked) == 2


@pytest.mark.parametrize("name", ["my job", "a/b", "a?b=c", "a#b", "Ä", "a\nb", "%2e", "..", "a" * 300])
def test_a_framework_whose_name_is_none(name: str) -> None:
    """Whatever somebody has written into framework_name: there is no such Framework, and it is asked for as written."""
    with apis.serving() as api:
        with pytest.raises(NoFrameworkError):
            Run(api, msgspec.structs.replace(BY_FRAMEWORK, framework=name)).wait()
        assert all("/frameworks/" in asked.path and not asked.query for asked in api.asked)


def test_it_is_watched_until_everybody_is_there() -> None:
    lines = [seen("MODIFIED", GAPPED), seen("MODIFIED", FULL)]
    with apis.serving(
        get_framework=[Answer(200, written(GAPPED))], watch_framework=[Watch(lines, "more")]
    ) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == Passed(OURS, written(FULL))
        assert len(api.asked) == 3
        watch = api.asked[-1]
    assert watch.path == "/apis/frameworkcontroller.microsoft.com/v1/namespaces/research/frameworks"
    assert watch.query["fieldSelector"] == "metadata.name=digits"
    assert watch.query["resourceVersion"] == "1"
    assert (run.said, run.clock.slept) == ([], [])


def test_of_another_attempt_or_without_us() -> None:
    """As with the Gang: a status of before the retry, and one in which our pod is not written down yet."""
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
def test_it_is_deleted_meanwhile(namespace: str) -> None:
    """Whatever the namespace is called."""
    options = msgspec.structs.replace(BY_FRAMEWORK, namespace=namespace)
    with apis.serving(
        get_framework=[Answer(200, written(GAPPED))],
        watch_framework=[Watch([seen("DELETED", GAPPED)], "more")],
    ) as api:
        api.push({"type": "ADDED", "object": {}})  # ends a barrier that has not heard of it
        with pytest.raises(NoFrameworkError, match=f"the Framework {namespace}/digits was deleted"):
            Run(api, options).wait()


def test_it_is_deleted_while_nobody_looks() -> None:
    gone: list[Step] = [Answer(200, written(GAPPED)), refusal(404)]
    with apis.serving(get_framework=gone, watch_framework=[Watch()]) as api, pytest.raises(NoFrameworkError):
        Run(api, BY_FRAMEWORK).wait()


@pytest.mark.parametrize("code", [403, 405])
def test_it_may_be_read_and_not_watched(code: int) -> None:
    """It looks every BARRIER_CHECK_INTERVAL_SEC, as the reference does."""
    reads = [Answer(200, written(GAPPED))] * 3 + [Answer(200, written(FULL))]
    with apis.serving(get_framework=reads, watch_framework=[refusal(code)]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == Passed(OURS, written(FULL))
        assert api.questions.count("get frameworkcontroller.microsoft.com") == 4
    waited = run.clock.now - 1000
    assert 3 * BY_FRAMEWORK.interval <= waited <= 3 * BY_FRAMEWORK.interval + 1
    assert run.said == []


@pytest.mark.parametrize(
    "old",
    [refusal(410, "too old"), Watch([event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})])],
    ids=["answer", "event"],
)
def test_a_version_that_is_no_longer_kept(old: Step) -> None:
    """It is read anew, soon."""
    reads: list[Step] = [Answer(200, written(GAPPED)), Answer(200, written(FULL))]
    with apis.serving(get_framework=reads, watch_framework=[old]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == Passed(OURS, written(FULL))
    assert (run.clock.now - 1000 < 1, run.said) == (True, [])


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
def test_a_framework_that_is_none(garbage: Any) -> None:
    """When it is read, and when it is watched: it is read again."""
    reads: list[Step] = [Answer(200, garbage), Answer(200, written(GAPPED)), Answer(200, written(FULL))]
    line = garbage if isinstance(garbage, bytes) else event("MODIFIED", garbage)
    with apis.serving(get_framework=reads, watch_framework=[Watch([line])]) as api:
        run = Run(api, BY_FRAMEWORK)
        assert run.wait() == Passed(OURS, written(FULL))
    assert all("\n" not in line for line in run.said)


def test_compressed_statuses() -> None:
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
