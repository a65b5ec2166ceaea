"""One replica on a real server, from its start to its stop: its turn, the loss of it, and what others see of it."""

import asyncio
import logging
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import builders
import msgspec
import pytest
from tests.controller import embedded
from tests.controller.embedded import PATIENCE_SECONDS, Cluster

from windlass.controller import definitions, operator
from windlass.controller.definitions import NotEstablishedError
from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.clock import Clock
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.leader.lease import Elector
from windlass.controller.leader.session import LeaderSession
from windlass.controller.observe.endpoints import ListenError
from windlass.controller.operator import Operator
from windlass.kubeapi import requests
from windlass.kubeapi.requests import Verb
from windlass.kubeapi.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, PODS, frameworks
from windlass.model.names import CONTROLLER_GROUP, RUNTIME_ANNOTATION
from windlass.model.settings import OFF, Settings
from windlass.wire.crd import manifests

FRAMEWORKS = frameworks(CONTROLLER_GROUP)
DEFINITIONS = [definition["metadata"]["name"] for definition in manifests.definitions()]


def settings(**changes: Any) -> Settings:
    """However slow the machine is, the lease does not end by itself."""
    unhurried = Settings(
        metrics_address=OFF,
        events=False,
        lease_duration_sec=3600,
        lease_renew_deadline_sec=1800,
        lease_retry_period_sec=0.1,
    )
    return msgspec.structs.replace(unhurried, **changes)


ELECTED = settings()
ALONE = settings(leader_election=False)


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")


class Hasty(SystemClock):
    """A machine's clock that is an hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


class Replica:
    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        identity: str,
        clock: Clock,
        choose_ports: ChoosePorts | None,
        has_entrypoints: bool,
    ) -> None:
        self._stop = asyncio.Event()
        made = Operator(
            settings,
            cluster.access,
            clock,
            identity=identity,
            snapshot_stream=None,
            choose_ports=choose_ports,
            has_entrypoints=has_entrypoints,
        )
        self.running = asyncio.create_task(made.run(self._stop))

    def ask_to_stop(self) -> None:
        self._stop.set()

    async def stop(self) -> None:
        self.ask_to_stop()
        await self.running


@asynccontextmanager
async def replica(
    cluster: Cluster,
    settings: Settings,
    identity: str = "me",
    clock: Clock | None = None,
    choose_ports: ChoosePorts | None = None,
    *,
    has_entrypoints: bool = True,
) -> AsyncIterator[Replica]:
    made = Replica(cluster, settings, identity, clock or SystemClock(), choose_ports, has_entrypoints)
    try:
        yield made
        await made.stop()
    finally:
        made.running.cancel()
        await asyncio.wait([made.running])


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def until_led(cluster: Cluster, by: str = "me") -> None:
    async def is_led() -> bool:
        return (await cluster.lease()).get("holderIdentity") == by

    await cluster.until(is_led)


def test_controller_leads_works_and_releases_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with replica(cluster, ELECTED) as made:
            await cluster.until_pods("job-worker-0")
            assert (await cluster.lease())["holderIdentity"] == "me"
            await made.stop()
        assert (await cluster.lease())["holderIdentity"] == ""
        first = cluster.sent.requests[0]
        assert first.resource == LEASES, "nothing is asked before the lease is held"
        assert await cluster.pods() == ["job-worker-0"], "what runs goes on"

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("given", [ELECTED, ALONE], ids=["elected", "alone"])
def test_times_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch, given: Settings) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with replica(cluster, given, clock=Hasty()):
            await cluster.until_pods("job-worker-0")
        framework = await cluster.framework("job")
        made = datetime.fromisoformat(framework["metadata"]["creationTimestamp"])
        began = datetime.fromisoformat(framework["status"]["startTime"])
        assert began - made < timedelta(minutes=30)

    embedded.play(monkeypatch, story)


def test_pods_use_the_configured_image_and_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image of the barrier, and ports where the network is shared."""

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job", annotations={RUNTIME_ANNOTATION: "mpi"})
        given = msgspec.structs.replace(ALONE, barrier_image="windlass:test")
        async with replica(cluster, given, choose_ports=lambda _: {"worker": 31000}):
            await cluster.until_pods("job-worker-0")
        spec = (await cluster.pod("job-worker-0"))["spec"]
        (barrier,) = spec["initContainers"]
        assert barrier["image"] == "windlass:test"
        told = {variable["name"]: variable.get("value") for variable in barrier["env"]}
        assert told["WORKER_HOSTS"] == "127.0.0.1:31000"

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("has_entrypoints", [True, False])
def test_tensorflow_task_without_a_command_runs_a_server_without_entrypoints(
    monkeypatch: pytest.MonkeyPatch, has_entrypoints: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
        roles = (builders.role(pod=template),)
        await cluster.submit("job", annotations={RUNTIME_ANNOTATION: "tensorflow"}, roles=roles)
        async with replica(cluster, ALONE, has_entrypoints=has_entrypoints):
            await cluster.until_pods("job-worker-0")
        (container,) = (await cluster.pod("job-worker-0"))["spec"]["containers"]
        assert ("command" in container) is not has_entrypoints

    embedded.play(monkeypatch, story)


def test_no_lease_without_leader_election(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with replica(cluster, ALONE):
            await cluster.until_pods("job-worker-0")
        assert cluster.sent.of(LEASES) == []
        assert await cluster.lease() == {}

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize(("given", "manager"), [(ELECTED, "windlass-default"), (ALONE, "windlass")])
def test_installations_have_different_field_managers(
    monkeypatch: pytest.MonkeyPatch, given: Settings, manager: str
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with replica(cluster, given):
            await cluster.until_pods("job-worker-0")
        stores = cluster.sent.of(FRAMEWORKS, Verb.PATCH)
        assert {dict(request.query)["fieldManager"] for request in stores} == {manager}

    embedded.play(monkeypatch, story)


def test_replica_without_its_lease_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("one")
        async with replica(cluster, ELECTED):
            await cluster.until_pods("one-worker-0")
            await cluster.give_lease_to("mallory")
            lost = "stopped leading: the lease is held by mallory"
            await cluster.until(lambda: lost in messages(caplog))
            then = len(cluster.sent.requests)
            await cluster.submit("two")
            await cluster.until(lambda: len(cluster.sent.of(LEASES, since=then)) >= 3)
            assert cluster.sent.open_streams == 0
            asked = cluster.sent.requests[then:]
            assert {(request.resource, request.verb) for request in asked} == {(LEASES, Verb.GET)}
            assert "status" not in await cluster.framework("two")
            await cluster.give_lease_to("")
            await cluster.until_pods("one-worker-0", "two-worker-0")
            assert (await cluster.lease())["holderIdentity"] == "me"
        assert messages(caplog).count("started leading") == 2

    embedded.play(monkeypatch, story)


def test_standby_does_nothing_and_keeps_the_lease_on_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        await cluster.give_lease_to("another")
        before = await cluster.lease()
        async with replica(cluster, ELECTED):
            await cluster.until(lambda: len(cluster.sent.of(LEASES)) >= 3)
        assert {(request.resource, request.verb) for request in cluster.sent.requests} == {(LEASES, Verb.GET)}
        assert await cluster.lease() == before

    embedded.play(monkeypatch, story)


def test_standby_takes_over_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        async with replica(cluster, ELECTED, "first") as first:
            await until_led(cluster, "first")
            async with replica(cluster, ELECTED, "second"):
                await first.stop()
                await until_led(cluster, "second")
                await cluster.submit("job")
                await cluster.until_pods("job-worker-0")

    embedded.play(monkeypatch, story)


def test_running_pass_ends_before_the_lease_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "FINISH_SEC", float(PATIENCE_SECONDS))

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        cluster.sent.hold(lambda request: request.resource == PODS and request.verb == Verb.CREATE)
        async with replica(cluster, ELECTED) as made:
            await cluster.submit("job")
            await cluster.until(lambda: bool(cluster.sent.of(PODS, Verb.CREATE)))
            made.ask_to_stop()
            then = len(cluster.sent.requests)
            await cluster.until(lambda: len(cluster.sent.of(LEASES, since=then)) >= 3)
            assert (await cluster.lease())["holderIdentity"] == "me", "it is renewed meanwhile"
            assert not made.running.done()
            cluster.sent.let_go_on()
            await made.stop()
        assert await cluster.pods() == ["job-worker-0"]
        assert (await cluster.lease())["holderIdentity"] == ""

    embedded.play(monkeypatch, story)


def test_stop_does_not_wait_for_an_endless_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "FINISH_SEC", 0.05)

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        cluster.sent.hold(lambda request: request.resource == PODS and request.verb == Verb.CREATE)
        async with replica(cluster, ELECTED) as made:
            await cluster.submit("job")
            await cluster.until(lambda: bool(cluster.sent.of(PODS, Verb.CREATE)))
            await made.stop()
        # What it had sent may still arrive, so the lease has to run out by itself.
        assert (await cluster.lease())["holderIdentity"] != ""

    embedded.play(monkeypatch, story)


def test_definitions_are_created_if_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        async with replica(cluster, settings(manage_crds=True)):
            await cluster.until(lambda: bool(cluster.sent.of(PODS, Verb.WATCH)))
            assert await cluster.definitions() == sorted(DEFINITIONS)

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("is_elected", [True, False])
def test_permanent_error_is_raised(monkeypatch: pytest.MonkeyPatch, is_elected: bool) -> None:
    async def fail(*_: object, **__: object) -> tuple[str, ...]:
        raise NotEstablishedError("not served")

    monkeypatch.setattr(definitions, "manage", fail)

    async def story(cluster: Cluster) -> None:
        managing = settings(manage_crds=True, leader_election=is_elected)
        with pytest.raises(NotEstablishedError, match="not served"):
            async with replica(cluster, managing) as made:
                await made.running
        claims = cluster.sent.of(LEASES, Verb.CREATE)
        assert len(claims) == int(is_elected)
        assert (await cluster.lease()).get("holderIdentity", "") == "", "the lease is released"

    embedded.play(monkeypatch, story)


def test_bug_in_the_session_is_raised_and_the_lease_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: LeaderSession) -> None:
        raise ExceptionGroup("a bug", [ZeroDivisionError()])

    monkeypatch.setattr(LeaderSession, "_run_tasks", fail)

    async def story(cluster: Cluster) -> None:
        with pytest.raises(ExceptionGroup, match="a bug"):
            async with replica(cluster, ELECTED) as made:
                await made.running
        assert (await cluster.lease())["holderIdentity"] == ""

    embedded.play(monkeypatch, story)


def test_bug_in_the_election_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Elector) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Elector, "acquire", fail)

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        with pytest.raises(ZeroDivisionError):
            async with replica(cluster, ELECTED) as made:
                await made.running
        assert cluster.sent.requests == []

    embedded.play(monkeypatch, story)


def test_claim_during_a_stop_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.sent.withhold_answers(
            lambda request: request.resource == LEASES and request.verb == Verb.CREATE
        )
        async with replica(cluster, ELECTED) as made:
            await cluster.until(lambda: any(request.verb == Verb.CREATE for request in cluster.sent.answered))
            assert (await cluster.lease())["holderIdentity"] == "me"
            await made.stop()
        assert (await cluster.lease())["holderIdentity"] == ""

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("given", [ELECTED, ALONE], ids=["elected", "alone"])
def test_restored_server_leads_to_a_new_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: Settings
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("one")
        restore = embedded.restore_once(monkeypatch, FRAMEWORKS)
        async with replica(cluster, given):
            await cluster.until_pods("one-worker-0")
            await cluster.submit("two")
            restore.set()
            await cluster.until_pods("one-worker-0", "two-worker-0")
            await cluster.submit("three")
            await cluster.until_pods("one-worker-0", "three-worker-0", "two-worker-0")
        assert messages(caplog).count("started leading") == 2
        lists = [request for request in cluster.sent.of(PODS, Verb.LIST) if not request.namespace]
        assert len(lists) == 2

    embedded.play(monkeypatch, story)


# What others see of it


def test_last_events_are_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "FLUSH_EVENTS_SEC", float(PATIENCE_SECONDS))

    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        cluster.sent.hold(lambda request: request.resource == EVENTS)
        async with replica(cluster, settings(leader_election=False, events=True)) as made:
            await cluster.until(lambda: bool(cluster.sent.of(EVENTS)))
            made.ask_to_stop()
            await cluster.until(lambda: cluster.sent.open_streams == 0)
            cluster.sent.let_go_on()
            await made.stop()
        events = await cluster.ask(requests.list_page(EVENTS, "default"))
        assert "AttemptStarted" in [event["reason"] for event in events["items"]]

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize("has_events", [True, False])
def test_events_can_be_disabled(monkeypatch: pytest.MonkeyPatch, has_events: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.define()
        await cluster.submit("job")
        async with replica(cluster, settings(leader_election=False, events=has_events)):
            await cluster.until_pods("job-worker-0")
        assert bool(cluster.sent.of(EVENTS, Verb.CREATE)) is has_events

    embedded.play(monkeypatch, story)


async def ask(address: str, path: str) -> tuple[int, str]:
    def wait() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(wait)


async def address_in(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> str:
    def addresses() -> list[str]:
        return [
            vars(record)["address"]
            for record in caplog.records
            if record.getMessage() == "serving metrics and health checks"
        ]

    await cluster.until(lambda: bool(addresses()))
    return addresses()[-1]


def test_readiness_reports_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("windlass.controller.leader.session.RECHECK_SEC", 0.02)

    async def story(cluster: Cluster) -> None:
        await cluster.give_lease_to("another")
        async with replica(cluster, settings(metrics_address="127.0.0.1:0")):
            address = await address_in(cluster, caplog)
            assert await ask(address, "/readyz") == (200, "ok\n"), "it waits for its turn"
            assert "windlass_leader 0.0" in (await ask(address, "/metrics"))[1]
            await cluster.give_lease_to("")
            await cluster.until(lambda: len(cluster.sent.of(CUSTOM_RESOURCE_DEFINITIONS)) > len(DEFINITIONS))
            code, text = await ask(address, "/readyz")
            assert code == 503
            assert "is missing" in text
            assert (await ask(address, "/healthz"))[0] == 200
            await cluster.define()
            await cluster.submit("job")
            await cluster.until_pods("job-worker-0")
            assert await ask(address, "/readyz") == (200, "ok\n")

            async def has_counted() -> bool:
                created = 'windlass_api_requests_total{code="201",resource="pods",verb="create"} 1.0'
                return created in (await ask(address, "/metrics"))[1]

            await cluster.until(has_counted)
            metrics = (await ask(address, "/metrics"))[1]
            assert "windlass_leader 1.0" in metrics
            assert 'windlass_frameworks{state="AttemptPreparing"} 1.0' in metrics

    embedded.play(monkeypatch, story)


def test_port_in_use_prevents_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            deaf = settings(metrics_address=f"127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(ListenError, match="cannot serve"):
                async with replica(cluster, deaf) as made:
                    await made.running
        assert cluster.sent.requests == []

    embedded.play(monkeypatch, story)


@pytest.mark.parametrize(
    ("qps", "burst", "expected"), [(0, 0, None), (0, 7, None), (5, 7, (5, 7)), (10, 0, (10, 15))]
)
def test_rate_limit_is_optional(
    monkeypatch: pytest.MonkeyPatch, qps: float, burst: int, expected: tuple[float, int] | None
) -> None:
    monkeypatch.setattr(operator, "RateLimit", lambda *limits: limits)
    found: object = operator._rate_limit(settings(kube_client_qps=qps, kube_client_burst=burst))
    assert found == expected
