"""Records of attempts with real processes: rejected, in a deleted namespace, by a killed controller, and with logs.

The embedded server enforces no ResourceQuota and has no kubelet: the proxy returns the error of a quota and the logs.
"""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from operated import clusters, world
from operated.clusters import Cluster
from operated.controllers import Controller
from operated.jobs import FOREVER, SUCCEEDS, fails, framework, role
from operated.place import Place, completion_of, retries_of
from operated.proxy import LOST, PASS, FaultRule, ProxiedRequest, Verdict, no_faults
from operated.world import World

from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import History, Settings

pytestmark = pytest.mark.pods

ALONE = ("--history-enabled", "--no-leader-election")
READS_LOGS = Settings(history=History(enabled=True, read_logs=True), leader_election=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.running() as cluster:
        cluster.install()
        yield cluster


@pytest.fixture
def own(cluster: Cluster) -> Iterator[World]:
    with world.on(cluster) as own:
        own.start_kubelet()
        yield own
        own.require_no_exceptions()
        own.leave_places()


def records(place: Place, name: str) -> list[Json]:
    path = f"/apis/{names.GANG_GROUP}/{names.VERSION}/namespaces/{place.name}/{names.RECORD_PLURAL}"
    selector = f"{names.FRAMEWORK_NAME}={name}"
    found: list[Json] = place.client.get(path, labelSelector=selector).expect(200).body["items"]
    return sorted(found, key=lambda each: int(each["spec"]["attempt"]))


def wait_for_records(place: Place, name: str, count: int) -> list[Json]:
    place.wait_for(f"{count} records of {name}", lambda: len(records(place, name)) >= count)
    return records(place, name)


def warnings(controller: Controller, text: str) -> list[str]:
    return [line["message"] for line in controller.lines() if text in line.get("message", "")]


def is_record_creation(asked: ProxiedRequest) -> bool:
    return asked.method == "POST" and asked.path.endswith(f"/{names.RECORD_PLURAL}")


# Rejected records


def test_job_completes_and_retries_if_a_quota_rejects_its_records(own: World) -> None:
    controller, place = own.controller("quota", *ALONE), own.new_place()
    message = "exceeded quota: records, requested: count/attemptrecords.windlass.dev=1"
    rejected = Verdict(code=403, message=message)
    controller.proxy.fault_rule = lambda asked: rejected if is_record_creation(asked) else PASS
    place.submit(framework("fails", role(tasks=2, life=fails(3)), retryPolicy={"maxRetryCount": 2}))
    place.submit(framework("succeeds", role(tasks=2, life=SUCCEEDS)))
    failed = place.wait_for_completed("fails")
    assert (completion_of(failed)["code"], retries_of(failed)) == (3, 2)
    assert completion_of(place.wait_for_completed("succeeds"))["code"] == 0
    place.delete("fails")
    place.wait_until_gone("fails")
    own.wait_for("all records to be rejected", lambda: len(controller.proxy.asked(is_record_creation)) == 4)
    assert len(warnings(controller, "cannot write the record")) == 1, "logged once per namespace"
    assert not records(place, "fails")
    controller.proxy.fault_rule = no_faults
    place.submit(framework("later", role(life=SUCCEEDS)))
    wait_for_records(place, "later", 1)


def test_records_are_deleted_with_their_namespace(own: World) -> None:
    controller, place, other = own.controller("namespaces", *ALONE), own.new_place(), own.new_place()
    place.submit(framework("ended", role(life=SUCCEEDS)))
    wait_for_records(place, "ended", 1)
    place.submit(framework("runs", role(life=FOREVER)))
    place.wait_for_running("runs", 1)
    place.client.delete(f"/api/v1/namespaces/{place.name}").expect(200)
    place.wait_for(
        "the namespace to be deleted",
        lambda: place.client.get(f"/api/v1/namespaces/{place.name}").code == 404,
    )
    assert not records(place, "ended")
    other.submit(framework("next", role(life=SUCCEEDS)))
    wait_for_records(other, "next", 1)
    own.wait_for("an end of the work", lambda: controller.ask("/healthz")[0] == 200)


# A controller that is killed between the end of an attempt and its record


class Killer:
    """Kills the controller when it sends the record of an attempt."""

    def __init__(self, controller: Controller, verdict: Verdict) -> None:
        self._controller = controller
        self._verdict = verdict
        self.has_killed = threading.Event()

    def __call__(self, asked: ProxiedRequest) -> Verdict:
        if self.has_killed.is_set() or not is_record_creation(asked):
            return PASS
        os.kill(self._controller.process.pid, signal.SIGKILL)
        self.has_killed.set()
        return self._verdict


@pytest.mark.parametrize("kept", ["Keep", "Delete"])
@pytest.mark.parametrize("verdict", [PASS, LOST], ids=["record arrives", "record is lost"])
def test_killed_controller_writes_each_record_exactly_once(own: World, verdict: Verdict, kept: str) -> None:
    """It is killed at the first record, of a retried attempt, and at the last one, of a completed job."""
    controller, place = own.controller("killed", *ALONE), own.new_place()
    spec = framework(
        "fails", role(tasks=2, life=fails(3)), retryPolicy={"maxRetryCount": 1}, completedPods=kept
    )
    for is_first in (True, False):
        killer = Killer(controller, verdict)
        controller.proxy.fault_rule = killer
        if is_first:
            place.submit(spec)
        own.wait_for("the controller to be killed", killer.has_killed.is_set)
        controller.process.kill()
        if not is_first:
            controller.proxy.fault_rule = no_faults
        controller.start_again()
    found = wait_for_records(place, "fails", 2)
    assert completion_of(place.wait_for_completed("fails"))["code"] == 3
    assert [each["spec"]["attempt"] for each in found] == [0, 1]
    assert [each["spec"]["retry"]["reason"] for each in found] == ["retry 1 of 1", "all 1 retries are used"]
    answers = [
        each.code for each in controller.proxy.exchanges if is_record_creation(each.asked) and each.code
    ]
    assert answers.count(201) == 2, "one record per attempt"


# Logs of failed containers


def is_log(asked: ProxiedRequest) -> bool:
    return asked.path.endswith("/log")


def with_logs(text: str) -> FaultRule:
    return lambda asked: Verdict(text=text) if is_log(asked) else PASS


def allow_reading(place: Place) -> None:
    annotations = {names.READ_LOGS_ANNOTATION: "true"}
    path = f"/api/v1/namespaces/{place.name}"
    place.client.patch(path, {"metadata": {"annotations": annotations}}).expect(200)


def container_logs(found: list[Json]) -> list[str]:
    return [log["text"] for each in found for log in each["spec"].get("containerLogs", ())]


def fail_once(place: Place) -> list[Json]:
    place.submit(framework("fails", role(life=fails(3, message="the end"))))
    assert completion_of(place.wait_for_completed("fails"))["code"] == 3
    return wait_for_records(place, "fails", 1)


def test_logs_are_requested_only_in_namespaces_that_allow_it(own: World) -> None:
    controller = own.controller("reader", *ALONE, "--history-read-logs")
    controller.proxy.fault_rule = with_logs("step 1\nboom\n")
    silent, allowed = own.new_place(), own.new_place()
    allow_reading(allowed)
    fail_once(silent)
    fail_once(allowed)
    own.wait_for(
        "the log in the record", lambda: container_logs(records(allowed, "fails")) == ["step 1\nboom\n"]
    )
    assert not container_logs(records(silent, "fails"))
    (asked,) = controller.proxy.asked(is_log)
    assert f"/namespaces/{allowed.name}/" in asked.path


def test_logs_are_not_requested_without_the_option(own: World) -> None:
    controller, place = own.controller("default", *ALONE), own.new_place()
    allow_reading(place)
    assert not container_logs(fail_once(place))
    assert not controller.proxy.asked(is_log)
    assert not controller.proxy.asked(lambda asked: asked.path == f"/api/v1/namespaces/{place.name}")


@pytest.mark.parametrize("is_granted", [True, False], ids=["granted", "not granted"])
def test_roles_of_the_installation_decide_whether_logs_are_read(own: World, is_granted: bool) -> None:
    """The controller uses a service account with the roles of `windlass install`, with or without --read-logs."""
    if not isinstance(own.cluster, clusters.Embedded):
        pytest.skip("the embedded server issues the token of the service account")
    settings = READS_LOGS if is_granted else Settings(history=History(enabled=True), leader_election=False)
    account = "reader" if is_granted else "recorder"
    upstream = own.cluster.upstream_of_installation(account, settings)
    controller = own.controller(account, *ALONE, "--history-read-logs", upstream=upstream)
    place = own.new_place()
    allow_reading(place)
    (record,) = fail_once(place)
    assert b"the end" in place.client.get(record_path(place, record)).raw, "the termination message"
    expected = "cannot read the logs" if is_granted else "cannot read the annotations of the namespace"
    own.wait_for("a warning", lambda: warnings(controller, expected))
    codes = [each.code for each in controller.proxy.exchanges if is_log(each.asked)]
    if is_granted:
        assert codes
        assert 403 not in codes
    else:
        assert codes == []
    refused = {each.asked.path for each in controller.proxy.exchanges if each.code == 403}
    assert refused == (set() if is_granted else {f"/api/v1/namespaces/{place.name}"})


def record_path(place: Place, record: Json) -> str:
    base = f"/apis/{names.GANG_GROUP}/{names.VERSION}/namespaces/{place.name}/{names.RECORD_PLURAL}"
    return f"{base}/{record['metadata']['name']}"
