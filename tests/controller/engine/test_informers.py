"""Informers update the cache and call the handlers."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import builders
import msgspec
import pytest
from builders import NOW

from windlass.controller.engine import informers
from windlass.controller.engine.cache import Cache
from windlass.controller.engine.informers import HistoryError, InformerHandlers, Informers
from windlass.controller.engine.keys import FrameworkKey, key_of
from windlass.controller.other_controllers import OtherControllers
from windlass.decide import initial_status
from windlass.kubeapi.errors import ApiError, NoValidResponseError, ResponseError
from windlass.kubeapi.reflector import Changed, Deleted, Listed, ResourceEvent
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import CONFIG_MAPS, PODS, Resource, frameworks
from windlass.kubeapi.transport import Transport
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework
from windlass.model.names import CONTROLLER_GROUP, FRAMEWORK_NAME, LAUNCHER_GROUP
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.settings import LogFrameworkSnapshot, LogObjectSnapshot, LogPodSnapshot
from windlass.model.states import State
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework, StatusWriter

OURS = "windlass-test"
EVERYTHING = LogObjectSnapshot()
NOTHING = LogObjectSnapshot(
    framework=LogFrameworkSnapshot(on_framework_deletion=False), pod=LogPodSnapshot(on_pod_deletion=False)
)


class Following:
    """Stands where a Reflector stands, and says what a test tells it to."""

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        *,
        namespace: str,
        label_selector: str = "",
        first_field_selector: str = "",
        is_listed: Callable[[msgspec.Raw], bool] | None = None,
        receive: Callable[[ResourceEvent], None],
        on_error: Callable[[ApiError], None],
        accepts_protobuf: bool = False,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.label_selector = label_selector
        self.first_field_selector = first_field_selector
        self.is_listed = is_listed
        self.says = receive
        self.on_error = on_error


class Bench:
    """Informers with handlers that record their calls."""

    def __init__(
        self,
        namespaces: Sequence[str] = (),
        wanted: LogObjectSnapshot = EVERYTHING,
        transport: object = None,
    ) -> None:
        self.cache = Cache()
        self.rivals = OtherControllers(OURS)
        self.woken: list[set[FrameworkKey]] = []
        self.gone: list[str] = []
        self.unreadable: list[InvalidFramework] = []
        self.troubles: list[tuple[str, str]] = []
        self.snapshots: list[str] = []
        handlers = InformerHandlers(
            on_change=self._changed,
            on_deletion=lambda framework: self.gone.append(framework.uid),
            on_invalid=self.unreadable.append,
            on_error=lambda resource, error: self.troubles.append((resource.plural, str(error))),
            write_snapshot=self.snapshots.append,
        )
        self.informers = Informers(
            cast("Transport", transport),
            self.cache,
            self.rivals,
            handlers,
            namespaces=namespaces,
            snapshot_settings=wanted,
        )

    def _changed(self, keys: Iterable[FrameworkKey]) -> None:
        if found := set(keys):
            self.woken.append(found)

    def frameworks(self, group: str = CONTROLLER_GROUP) -> list[Following]:
        return cast("list[Following]", self.informers.for_frameworks(group))

    def config_maps(self) -> list[Following]:
        return cast("list[Following]", self.informers.for_config_maps())

    def pods(self) -> list[Following]:
        return cast("list[Following]", self.informers.for_pods())

    def rival(self) -> str:
        return self.cache.observe(KEY, NOW, 0.0).other_controller


@pytest.fixture(autouse=True)
def _without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers, "Reflector", Following)


def job(
    version: str = "5", uid: str = "fw-1", namespace: str = "team", group: str = CONTROLLER_GROUP
) -> Framework:
    made = builders.framework(
        "job", builders.role("worker", 2), uid=uid, resource_version=version, namespace=namespace, group=group
    )
    return made.with_status(initial_status.framework_status(made, NOW))


JOB = job()
KEY = key_of(JOB)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def edited(framework: Framework, path: str, value: Any) -> msgspec.Raw:
    """As JSON, with something else at that place."""
    whole = msgspec.json.decode(codec.encode_framework(framework))
    *parents, last = path.split(".")
    inner = whole
    for parent in parents:
        inner = inner[int(parent)] if isinstance(inner, list) else inner[parent]
    inner[last] = value
    return raw(whole)


def unreadable(framework: Framework) -> msgspec.Raw:
    return edited(framework, "spec.taskRoles.0.taskNumber", "two")


def deep(framework: Framework) -> msgspec.Raw:
    """Return JSON with more levels than the decoder supports."""
    marked = bytes(edited(framework, "spec.taskRoles.0.task.pod", "deep"))
    return msgspec.Raw(marked.replace(b'"pod":"deep"', b'"pod":' + b'{"a":' * 5000 + b"1" + b"}" * 5000))


def written_by(framework: Framework, **times: str) -> msgspec.Raw:
    entries = [
        {
            "manager": manager,
            "operation": "Update",
            "time": f"2026-01-01T00:00:{second}Z",
            "fieldsV1": {"f:status": {"f:state": {}}},
        }
        for manager, second in times.items()
    ]
    return edited(framework, "metadata.managedFields", entries)


def pod(uid: str = "pod-1", version: str = "10", *, label: str = "job", namespace: str = "team") -> PodView:
    assert JOB.status is not None
    task = JOB.status.attempt_status.roles[0].task_statuses[0]
    made = builders.pod(JOB, task, uid=uid, resource_version=version)
    labels = msgspec.structs.replace(made.metadata.labels, framework_name=label)
    metadata = msgspec.structs.replace(made.metadata, labels=labels, namespace=namespace)
    return msgspec.structs.replace(made, metadata=metadata)


def config_map(uid: str = "cm-1", version: str = "9") -> ConfigMapView:
    return builders.config_map(JOB, uid, resource_version=version)


# Who is followed


@pytest.mark.parametrize(("namespaces", "expected"), [((), [""]), (("team", "lab"), ["team", "lab"])])
def test_each_namespace_is_watched_separately_and_objects_by_label(
    namespaces: tuple[str, ...], expected: list[str]
) -> None:
    bench = Bench(namespaces)
    for reflectors, resource, selector in (
        (bench.frameworks(), frameworks(CONTROLLER_GROUP), ""),
        (bench.frameworks(LAUNCHER_GROUP), frameworks(LAUNCHER_GROUP), ""),
        (bench.config_maps(), CONFIG_MAPS, FRAMEWORK_NAME),
        (bench.pods(), PODS, FRAMEWORK_NAME),
    ):
        assert [reflector.namespace for reflector in reflectors] == expected
        assert {reflector.resource for reflector in reflectors} == {resource}
        assert {reflector.label_selector for reflector in reflectors} == {selector}


def test_watch_error_is_reported_with_its_resource() -> None:
    bench = Bench()
    for reflectors in (bench.frameworks(), bench.config_maps(), bench.pods()):
        reflectors[0].on_error(NoValidResponseError("cut"))
    assert bench.troubles == [("frameworks", "cut"), ("configmaps", "cut"), ("pods", "cut")]


# Frameworks


def test_listed_frameworks_are_cached_and_queued() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    assert bench.cache.framework(KEY) == JOB
    assert bench.woken == [{KEY}]


def test_change_is_cached_and_queued_unless_it_is_old() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Changed(raw(JOB)))
    reflector.says(Changed(raw(job("7"))))
    reflector.says(Changed(raw(job("6"))))
    found = bench.cache.framework(KEY)
    assert found is not None
    assert found.metadata.resource_version == "7"
    assert bench.woken == [{KEY}, {KEY}]


def test_list_removes_missing_frameworks_of_its_namespace_and_group_only() -> None:
    bench = Bench(("team", "lab"))
    team, lab = bench.frameworks()
    elsewhere, other = job(namespace="lab", uid="fw-2"), job(group=LAUNCHER_GROUP, uid="fw-3")
    team.says(Listed([raw(JOB)], "20"))
    lab.says(Listed([raw(elsewhere)], "20"))
    bench.frameworks(LAUNCHER_GROUP)[0].says(Listed([raw(other)], "20"))
    bench.woken.clear()
    team.says(Listed([], "30"))
    assert set(bench.cache.keys()) == {key_of(elsewhere), key_of(other)}
    assert bench.woken == [{KEY}]


def test_event_of_own_store_is_not_decoded() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "5"))
    assert bench.cache.record_stored(job("6"))
    bench.woken.clear()
    reflector.says(Changed(unreadable(job("6"))))
    assert bench.unreadable == []
    assert bench.woken == []
    reflector.says(Changed(raw(job("7"))))
    assert bench.woken == [{KEY}]


def test_framework_without_a_name_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    nameless = raw({"apiVersion": f"{CONTROLLER_GROUP}/v1", "kind": "Framework", "metadata": {}, "spec": 3})
    reflector.says(Listed([nameless, raw(JOB)], "20"))
    reflector.says(Changed(nameless))
    assert set(bench.cache.keys()) == {KEY}
    assert len(caplog.records) == 2


# Frameworks that cannot be read


@pytest.mark.parametrize("by", [Changed, lambda data: Listed([data], "30")], ids=["watch", "list"])
def test_invalid_framework_is_reported_and_not_treated_as_deleted(
    by: Callable[[msgspec.Raw], ResourceEvent],
) -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    bench.pods()[0].says(Listed([raw(pod())], "20"))
    bench.woken.clear()
    reflector.says(by(unreadable(job("21"))))
    assert bench.cache.framework(KEY) is None
    assert bench.cache.deleted_framework(KEY) is None
    assert bench.woken == [], "there is nothing that could be decided"
    assert bench.gone == []
    (told,) = bench.unreadable
    assert (told.metadata.name, told.metadata.resource_version) == ("job", "21")
    assert "taskNumber" in told.error
    reflector.says(Changed(raw(job("22"))))
    assert bench.cache.framework(KEY) == job("22"), "it is repaired"
    assert set(bench.cache.observe(KEY, NOW, 0.0).pods) == {"job-worker-0"}, "and has kept its pods"
    assert bench.woken == [{KEY}]


@pytest.mark.parametrize("made", [unreadable, deep], ids=["odd", "too deep"])
def test_invalid_framework_does_not_affect_others(
    made: Callable[[Framework], msgspec.Raw],
) -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    bad = made(builders.framework("bad", namespace="team", resource_version="6"))
    reflector.says(Listed([bad, raw(JOB)], "20"))
    assert set(bench.cache.keys()) == {KEY}
    assert [told.metadata.name for told in bench.unreadable] == ["bad"]
    reflector.says(Changed(made(builders.framework("worse", namespace="team", resource_version="21"))))
    reflector.says(Changed(raw(job("22"))))
    assert bench.cache.framework(KEY) == job("22")
    assert [told.metadata.name for told in bench.unreadable] == ["bad", "worse"]


def test_deleted_invalid_framework_is_not_reported() -> None:
    """A deleted Framework cannot have a condition."""
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([unreadable(JOB)], "20"))
    bench.unreadable.clear()
    reflector.says(Deleted(unreadable(job("21"))))
    assert bench.unreadable == []
    assert len(bench.snapshots) == 1


def test_framework_deleted_while_invalid_is_removed() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    reflector.says(Deleted(unreadable(job("21"))))
    assert bench.cache.framework(KEY) is None
    assert bench.unreadable == []


def test_objects_of_framework_deleted_while_invalid_between_lists_are_deleted() -> None:
    """The Framework is deleted between two lists, without a watch."""
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    bench.pods()[0].says(Listed([raw(pod())], "20"))
    reflector.says(Listed([unreadable(job("21"))], "30"))
    bench.woken.clear()
    reflector.says(Listed([unreadable(job("21"))], "40"))
    assert bench.woken == []
    reflector.says(Listed([], "50"))
    assert bench.cache.deleted_framework(KEY) == JOB
    assert bench.woken == [{KEY}]


@pytest.mark.parametrize("was_told", [True, False], ids=["after it was reported", "at once"])
def test_objects_of_framework_deleted_while_invalid_are_deleted(was_told: bool) -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    bench.pods()[0].says(Listed([raw(pod())], "20"))
    if was_told:
        reflector.says(Changed(unreadable(job("21"))))
    bench.woken.clear()
    reflector.says(Deleted(unreadable(job("22"))))
    assert bench.cache.deleted_framework(KEY) == JOB, "as it could be read last"
    assert bench.woken == [{KEY}]


# Frameworks that are deleted


@pytest.mark.parametrize(("wanted", "lines"), [(EVERYTHING, 1), (NOTHING, 0)])
def test_deleted_framework_is_removed_and_leaves_a_snapshot_if_enabled(
    wanted: LogObjectSnapshot, lines: int
) -> None:
    bench = Bench(wanted=wanted)
    (reflector,) = bench.frameworks()
    reflector.says(Listed([raw(JOB)], "20"))
    bench.pods()[0].says(Listed([raw(pod())], "20"))
    bench.woken.clear()
    reflector.says(Deleted(raw(job("21"))))
    assert bench.cache.framework(KEY) is None
    assert bench.cache.deleted_framework(KEY) == JOB
    assert bench.gone == ["fw-1"]
    assert bench.woken == [{KEY}], "what it left has to be cleared away"
    assert len(bench.snapshots) == lines
    assert all("ObjectSnapshot" in line and '"fw-1"' in line for line in bench.snapshots)


def test_late_deletion_of_an_earlier_framework_is_ignored() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    anew = job("30", uid="fw-2")
    reflector.says(Listed([raw(anew)], "30"))
    bench.woken.clear()
    reflector.says(Deleted(raw(job("21"))))
    assert bench.cache.framework(KEY) == anew
    assert bench.woken == []


# OtherControllers


def test_earlier_writer_is_no_other_controller_until_it_writes_again() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([written_by(JOB, frameworkcontroller="10")], "20"))
    assert bench.rival() == ""
    reflector.says(Changed(written_by(job("21"), frameworkcontroller="10", **{OURS: "20"})))
    assert bench.rival() == ""
    reflector.says(Changed(written_by(job("22"), frameworkcontroller="30", **{OURS: "20"})))
    assert bench.rival() == "frameworkcontroller"


def test_other_controller_is_detected_in_a_list() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Listed([written_by(JOB)], "20"))
    reflector.says(Listed([written_by(job("21"), other="10")], "30"))
    assert bench.rival() == "other"
    assert bench.woken[-1] == {KEY}


def test_recreated_framework_has_no_other_controller() -> None:
    bench = Bench()
    (reflector,) = bench.frameworks()
    reflector.says(Changed(written_by(JOB)))
    reflector.says(Changed(written_by(job("21"), other="10")))
    assert bench.rival() == "other"
    reflector.says(Deleted(raw(job("22"))))
    reflector.says(Changed(written_by(job("23", uid="fw-2"), other="20")))
    assert bench.rival() == ""
    later = StatusWriter("other", builders.at(30), "Update")
    assert bench.rivals.detect("fw-1", [later]) == "", "nothing is remembered of the old one"


# Pods and ConfigMaps


def test_objects_are_cached_and_queue_their_framework() -> None:
    bench = Bench()
    bench.frameworks()[0].says(Listed([raw(JOB)], "5"))
    (pods,), (config_maps,) = bench.pods(), bench.config_maps()
    bench.woken.clear()
    config_maps.says(Listed([raw(config_map())], "20"))
    pods.says(Listed([raw(pod())], "20"))
    observed = bench.cache.observe(KEY, NOW, 0.0)
    assert (observed.config_map, dict(observed.pods)) == (config_map(), {"job-worker-0": pod()})
    pods.says(Changed(raw(pod(version="21"))))
    config_maps.says(Changed(raw(config_map(version="21"))))
    config_maps.says(Deleted(raw(config_map(version="22"))))
    pods.says(Deleted(raw(pod(version="22"))))
    observed = bench.cache.observe(KEY, NOW, 0.0)
    assert (observed.config_map, dict(observed.pods)) == (None, {})
    assert {"pod-1", "cm-1"} <= observed.known
    assert bench.woken == 6 * [{KEY}]


def test_list_does_not_affect_other_namespaces() -> None:
    bench = Bench(("team", "lab"))
    bench.frameworks()[0].says(Listed([raw(JOB)], "5"))
    team, lab = bench.pods()
    team.says(Listed([raw(pod())], "20"))
    lab.says(Listed([], "30"))
    assert set(bench.cache.observe(KEY, NOW, 0.0).pods) == {"job-worker-0"}
    team.says(Listed([], "30"))
    assert not bench.cache.observe(KEY, NOW, 0.0).pods


def test_pod_without_its_label_is_removed_from_its_framework() -> None:
    """A watch by label says that it is deleted, and shows it as it is now: without the label."""
    bench = Bench()
    bench.frameworks()[0].says(Listed([raw(JOB)], "5"))
    (reflector,) = bench.pods()
    reflector.says(Listed([raw(pod())], "20"))
    bench.woken.clear()
    reflector.says(Deleted(raw(pod(version="21", label=""))))
    observed = bench.cache.observe(KEY, NOW, 0.0)
    assert not observed.pods
    assert "pod-1" in observed.known
    assert bench.woken == [{KEY}]


@pytest.mark.parametrize(("wanted", "lines"), [(EVERYTHING, 1), (NOTHING, 0)])
def test_deleted_pod_leaves_a_snapshot_if_enabled(wanted: LogObjectSnapshot, lines: int) -> None:
    bench = Bench(wanted=wanted)
    (reflector,) = bench.pods()
    reflector.says(Changed(raw(pod())))
    assert bench.snapshots == []
    reflector.says(Deleted(raw({**msgspec.to_builtins(pod(version="11")), "spec": {"priority": 7}})))
    assert len(bench.snapshots) == lines
    assert all('"priority":7' in line for line in bench.snapshots), (
        "the whole object, also fields that the controller does not read"
    )


@pytest.mark.parametrize("kind", ["pods", "config_maps"])
def test_invalid_object_is_ignored(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.frameworks()[0].says(Listed([raw(JOB)], "5"))
    (reflector,) = getattr(bench, kind)()
    odd = raw({"metadata": {"name": 7}})
    good = raw(pod() if kind == "pods" else config_map())
    reflector.says(Listed([odd, good], "20"))
    reflector.says(Changed(odd))
    reflector.says(Deleted(odd))
    observed = bench.cache.observe(KEY, NOW, 0.0)
    assert observed.pods or observed.config_map is not None
    assert len(caplog.records) == 3


# What our own code cannot cope with


class _BugError(Exception):
    pass


def _fail(*_: object, **__: object) -> None:
    raise _BugError


@pytest.mark.parametrize(
    ("kind", "put", "item"),
    [
        pytest.param("frameworks", "put_framework", raw(JOB), id="framework"),
        pytest.param("config_maps", "put", raw(config_map()), id="config map"),
        pytest.param("pods", "put", raw(pod()), id="pod"),
    ],
)
def test_failed_event_is_logged_and_the_next_one_is_processed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, put: str, item: msgspec.Raw
) -> None:
    bench = Bench()
    (reflector,) = getattr(bench, kind)()
    with monkeypatch.context() as broken:
        broken.setattr(bench.cache, put, _fail)
        reflector.says(Changed(item))
    (record,) = caplog.records
    assert record.getMessage() == "internal error while processing a watch event"
    assert record.exc_info is not None
    assert record.exc_info[0] is _BugError
    bench.frameworks()[0].says(Changed(raw(JOB)))
    bench.woken.clear()
    reflector.says(Changed(item))
    assert bench.cache.framework(KEY) == JOB
    assert kind == "frameworks" or bench.woken == [{KEY}]


@pytest.mark.parametrize("kind", ["frameworks", "config_maps", "pods"])
def test_failed_list_raises(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An incomplete list would make other objects look deleted."""
    bench = Bench()
    (reflector,) = getattr(bench, kind)()
    monkeypatch.setattr(bench.cache, "replace_frameworks" if kind == "frameworks" else "replace", _fail)
    with pytest.raises(_BugError):
        reflector.says(Listed([], "20"))


# A server that has gone back in time


@pytest.mark.parametrize("kind", ["frameworks", "config_maps", "pods"])
def test_list_older_than_an_earlier_one_raises(kind: str) -> None:
    bench = Bench()
    bench.frameworks()[0].says(Listed([raw(JOB)], "5"))
    bench.pods()[0].says(Listed([raw(pod())], "20"))
    (reflector,) = getattr(bench, kind)()
    reflector.says(Listed([raw(JOB)] if kind == "frameworks" else [], "7"))
    bench.woken.clear()
    with pytest.raises(HistoryError, match="from resourceVersion 7 to 6"):
        reflector.says(Listed([], "6"))
    assert bench.cache.framework(KEY) == JOB
    assert bench.woken == []


def test_lists_of_different_namespaces_may_have_any_order() -> None:
    bench = Bench(("team", "lab"))
    team, lab = bench.frameworks()
    team.says(Listed([], "20"))
    lab.says(Listed([], "10"))
    lab.says(Listed([], "10"))
    team.says(Listed([raw(job("21"))], "21"))
    assert bench.cache.framework(KEY) == job("21")


def test_first_list_omits_completed_frameworks_and_later_ones_those_that_finished() -> None:
    bench = Bench()
    (following,) = bench.frameworks()
    assert following.first_field_selector == "status.state!=Completed"
    assert following.is_listed is not None
    ended = raw({"metadata": {"name": "job", "namespace": "team"}, "status": {"state": "Completed"}})
    running = raw({"metadata": {"name": "job", "namespace": "team"}, "status": {"state": "AttemptRunning"}})
    without_status = raw({"metadata": {"name": "job", "namespace": "team"}, "status": None})
    assert [following.is_listed(each) for each in (ended, running, without_status)] == [False, True, True]
    following.says(Listed([], "10"))
    assert following.is_listed(ended), (
        "nothing is known of it, e.g. because it completed while the watch was broken"
    )
    assert JOB.status is not None
    completed = JOB.with_status(msgspec.structs.replace(JOB.status, state=State.COMPLETED), "20")
    bench.cache.put_framework(completed)
    assert bench.cache.finish(completed, NOW)
    assert not following.is_listed(raw(completed))
    assert following.is_listed(edited(completed, "metadata.resourceVersion", "21"))


def test_completed_frameworks_are_read_without_a_selector_if_the_server_rejects_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second rejection has another cause: it is reported, and the request is repeated after a pause."""
    assert JOB.status is not None
    completed = JOB.with_status(msgspec.structs.replace(JOB.status, state=State.COMPLETED), "20")
    page = msgspec.json.encode(
        {"metadata": {"resourceVersion": "30"}, "items": [raw(completed), raw(job("9"))]}
    )
    rejection = ResponseError(ApiFailure(400, "BadRequest", "field label not supported"))
    answers: list[bytes | ResponseError] = [rejection, rejection, page]
    selectors: list[str] = []
    pauses: list[float] = []

    class Server:
        async def send(self, request: Request, _seconds: float) -> bytes:
            selectors.append(dict(request.query).get("fieldSelector", ""))
            answer = answers.pop(0)
            if isinstance(answer, ResponseError):
                raise answer
            return answer

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("windlass.controller.engine.informers.asyncio.sleep", pause)
    bench = Bench(transport=Server())
    asyncio.run(bench.informers.load_completed(CONTROLLER_GROUP, lambda: False))
    assert selectors == ["status.state=Completed", "", ""]
    assert len(bench.troubles) == len(pauses) == 1
    assert bench.cache.framework(KEY) == completed
