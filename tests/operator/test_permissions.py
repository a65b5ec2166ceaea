"""Every request of the controller is allowed by its roles, and nothing is granted that it does not use.

On a real server the controller's user has these roles and no others, in all of these tests.
"""

from collections.abc import Iterator

import grants
import pytest
from grants import Grant
from operated import clusters, permissions, world
from operated.jobs import FOREVER, SUCCEEDS, fails, framework, role
from operated.place import Place
from operated.proxy import ANSWER_LOST, PASS, FaultRule, ProxiedRequest, Verdict, no_faults
from operated.world import World

from windlass.model import names
from windlass.model.settings import History, Settings
from windlass.wire.crd import manifests as crd_manifests

SETTINGS = Settings(manage_crds=True, history=History(enabled=True))


@pytest.fixture(scope="module")
def asked() -> Iterator[list[ProxiedRequest]]:
    """All that a controller asks for that makes its definitions itself, elects a leader, and sees all kinds of jobs."""
    with clusters.running() as cluster, world.on(cluster) as own:
        # One of the definitions is out of date, the others are missing.
        cluster.put_definition(crd_manifests.reference_crd(names.CONTROLLER_GROUP))
        cluster.grant(SETTINGS)
        own.start_kubelet()
        keeps_one_record = ("--history-enabled", "--history-records-per-job", "1")
        controller = own.controller("controller", "--manage-crds", *keeps_one_record)
        served = f"/apis/{names.GANG_GROUP}/{names.VERSION}/{names.RECORD_PLURAL}"
        own.wait_for("the last of the definitions", lambda: cluster.client.get(served).code == 200)
        for group in names.GROUPS:
            live_through_everything(own, group)
            meet(own.new_place(), group)
        assert controller.process.stop() == 0  # it gives its lease back
        yield controller.proxy.asked(lambda _: True)


def live_through_everything(own: World, group: str) -> None:
    place = own.new_place()
    submit(place, framework("expires", role(life=SUCCEEDS), ttlSecondsAfterFinished=0, group=group))
    of_job, of_task = {"maxRetryCount": 1}, {"maxRetryCount": 1}
    retried = role(life=fails(3), retry=of_task)
    submit(place, framework("retries", retried, retryPolicy=of_job, group=group))
    submit(place, framework("runs", role(tasks=2, life=FOREVER), group=group))
    place.wait_until_gone("expires", group)
    place.wait_for_completed("retries", group)
    records = f"/apis/{names.GANG_GROUP}/{names.VERSION}/namespaces/{place.name}/{names.RECORD_PLURAL}"
    of_retries = f"{names.FRAMEWORK_NAME}=retries"
    place.wait_for(
        "the record of the first attempt to be deleted",
        lambda: (
            [
                each["spec"]["attempt"]
                for each in place.client.get(records, labelSelector=of_retries).expect(200).body["items"]
            ]
            == [1]
        ),
    )
    place.wait_for_running("runs", 2, group)
    proxy = own.controllers["controller"].proxy
    proxy.fault_rule = first_status_lost()
    place.change("runs", {"executionType": "Stop"}, group)
    place.wait_for_completed("runs", group)
    proxy.fault_rule = no_faults


def meet(place: Place, group: str) -> None:
    """A Framework with discovery and a barrier, whose Service name is taken and one of whose tasks is retried."""
    stranger = {
        "kind": "Service",
        "metadata": {"name": "meets"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}},
    }
    place.client.post(place.path("services"), stranger).expect(201)
    asked = {names.RUNTIME_ANNOTATION: "tensorflow", names.BARRIER_ANNOTATION: "true"}
    workers = role(tasks=2, life=FOREVER, retry={"maxRetryCount": 1})
    submit(place, framework("meets", workers, group=group, annotations=asked))
    told = place.wait_for_condition("meets", "NameTaken", group)["message"]
    assert told.startswith("Service meets already exists"), told
    assert not place.config_maps("meets"), "an attempt without names is not begun"
    place.client.delete(place.path("services", "meets")).expect(200)
    first = place.wait_for("the gang", lambda: members(place))
    place.end_pod("meets-worker-1", exit_code=3)
    second = place.wait_for(
        "the gang to be updated", lambda: members(place) if members(place) != first else None
    )
    assert (second[0], len(second)) == (first[0], 2), "who was not tried again is where it was"
    assert second[1][0] not in {uid for uid, _ in first}
    (service,) = place.client.get(place.path("services")).expect(200).body["items"]
    assert service["spec"]["clusterIP"] == "None"
    place.change("meets", {"executionType": "Stop"}, group)
    place.wait_for_completed("meets", group)


def members(place: Place) -> list[tuple[str, str]]:
    """UID and address of each worker, as the one Gang of the namespace has them; none before there is one."""
    path = f"/apis/{names.GANG_GROUP}/{names.VERSION}/namespaces/{place.name}/{names.GANG_PLURAL}"
    gangs = place.client.get(path).expect(200).body["items"]
    assert len(gangs) <= 1, gangs
    roles = [found for gang in gangs for found in gang["spec"]["roles"]]
    return [(member["podUID"], member["ip"]) for found in roles for member in found["members"]]


def submit(place: Place, body: dict[str, object]) -> None:
    """Its definition may have been served for a moment only."""
    group = names.group_of(str(body["apiVersion"]))
    path = place.framework_path(group=group)
    place.world.wait_for(f"{path} to be served", lambda: place.client.post(path, body).code == 201)


def first_status_lost() -> FaultRule:
    """The controller does not know whether it was stored, and has to read it."""
    lost: list[ProxiedRequest] = []

    def fault_rule(asked: ProxiedRequest) -> Verdict:
        if lost or not asked.path.endswith("/status"):
            return PASS
        lost.append(asked)
        return ANSWER_LOST

    return fault_rule


def needed(asked: list[ProxiedRequest]) -> set[Grant]:
    return {permissions.needed_by(each) for each in asked} | {
        grant for each in asked for grant in permissions.needed_for_owners(each)
    }


def test_role_grants_every_request(asked: list[ProxiedRequest]) -> None:
    assert not grants.missing(grants.granted("default", SETTINGS), needed(asked))


def test_role_grants_nothing_unused(asked: list[ProxiedRequest]) -> None:
    created = (
        f"{names.PLURAL}.{names.LAUNCHER_GROUP}",
        *(f"{plural}.{names.GANG_GROUP}" for plural in (names.GANG_PLURAL, names.RECORD_PLURAL)),
    )
    to_update_what_was_just_created = {
        Grant("apiextensions.k8s.io", "customresourcedefinitions", "update", name=name) for name in created
    }
    unused = grants.unused(grants.granted("default", SETTINGS), needed(asked))
    assert unused == to_update_what_was_just_created


def test_role_without_definitions_cannot_write_them(asked: list[ProxiedRequest]) -> None:
    refused = grants.missing(
        grants.granted("default", Settings(history=History(enabled=True))), needed(asked)
    )
    assert {grant.resource for grant in refused} == {"customresourcedefinitions"}
    assert {grant.verb for grant in refused} == {"create", "update"}


def test_only_labelled_pods_and_config_maps_are_requested(asked: list[ProxiedRequest]) -> None:
    """Never every pod of the cluster."""
    for each in asked:
        if each.method == "GET" and each.path.endswith(("/pods", "/configmaps")):
            assert each.parameters["labelSelector"].startswith(names.FRAMEWORK_NAME), str(each)


def test_every_delete_has_a_precondition(asked: list[ProxiedRequest]) -> None:
    """By UID, or by the label that has the UID of the attempt (statement 41)."""
    for each in asked:
        if each.method == "DELETE":
            is_precise = b'"uid"' in each.body or names.ATTEMPT_LABEL in each.query
            assert is_precise, str(each)
