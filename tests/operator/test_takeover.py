"""Windlass takes over from the reference: what that left behind, in every state, is brought to its right end.

The Frameworks are made under the reference's definition, ours is installed over it, and only then does the controller
start; the kubelet comes last, so that nothing moves before.
"""

import itertools
from collections.abc import Iterator

import msgspec
import pytest
from fake_kubelet import history
from operated import clusters, processes, world
from operated.controllers import Controller
from operated.jobs import FOREVER, SUCCEEDS, framework, role
from operated.place import Place, completion_of, condition_of, retries_of, state_of, tasks_of
from operated.proxy import NUMBERS
from operated.reference import FAILED, LONG_AGO, SUCCEEDED, Left, Predecessor, Task
from operated.world import World

from conformance import servers
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.wire.crd import manifests
from windlass.wire.crd.manifests import reference_crd

RUNNING = Task(state="AttemptRunning")
LOST: Json = {
    "code": -101,
    "phrase": "PodExternalDeleted",
    "type": {"name": "Failed", "attributes": ["Transient"]},
    "diagnostics": "Pod was deleted by others",
}
ONCE_MORE = {"maxRetryCount": 1}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    code: int = 0
    new: int = 0
    """Return the number of pods that the controller created; existing ones are adopted."""
    retries: int = 0


CASES: dict[str, tuple[Left, Outcome]] = {
    "creationpending": (Left(state="AttemptCreationPending"), Outcome(new=2)),
    "creationunnamed": (Left(state="AttemptCreationPending", is_config_map_unnamed=True), Outcome(new=2)),
    "creationrequested": (Left(state="AttemptCreationRequested"), Outcome(new=2)),
    "creationrequestedgone": (
        Left(state="AttemptCreationRequested", is_config_map_gone=True),
        Outcome(code=-100),
    ),
    "preparing": (
        Left(state="AttemptPreparing", tasks=(Task(state="AttemptCreationRequested"), Task())),
        Outcome(new=1),
    ),
    "preparingboth": (Left(state="AttemptPreparing", tasks=(Task(state="AttemptPreparing"),) * 2), Outcome()),
    "running": (Left(state="AttemptRunning", tasks=(RUNNING, RUNNING)), Outcome()),
    "runningolder": (
        Left(state="AttemptRunning", tasks=(RUNNING, RUNNING), group=names.LAUNCHER_GROUP),
        Outcome(),
    ),
    "runningended": (
        Left(state="AttemptRunning", tasks=(Task(state="AttemptRunning", phase="Succeeded"), RUNNING)),
        Outcome(),
    ),
    "runningfailed": (
        Left(state="AttemptRunning", tasks=(Task(state="AttemptRunning", phase="Failed"), RUNNING)),
        Outcome(code=3),
    ),
    "runningpodgone": (
        Left(state="AttemptRunning", tasks=(Task(state="AttemptRunning", is_pod_gone=True), RUNNING)),
        Outcome(code=-101),
    ),
    "taskdeletionpending": (
        Left(
            state="AttemptRunning",
            tasks=(Task(state="AttemptDeletionPending", phase="Succeeded", ended=SUCCEEDED), RUNNING),
        ),
        Outcome(),
    ),
    "taskdeletionrequested": (
        Left(
            state="AttemptRunning",
            tasks=(Task(state="AttemptDeletionRequested", phase="Succeeded", ended=SUCCEEDED), RUNNING),
        ),
        Outcome(),
    ),
    "taskdeleting": (
        Left(
            state="AttemptRunning",
            tasks=(Task(state="AttemptDeleting", ended=LOST), RUNNING),
            task_retry=ONCE_MORE,
        ),
        Outcome(new=1),
    ),
    "taskattemptcompleted": (
        Left(
            state="AttemptRunning",
            tasks=(Task(state="AttemptCompleted", ended=FAILED), RUNNING),
            task_retry=ONCE_MORE,
        ),
        Outcome(new=1),
    ),
    "taskcompleted": (
        Left(state="AttemptRunning", tasks=(Task(state="Completed", ended=SUCCEEDED), RUNNING)),
        Outcome(),
    ),
    "deletionpending": (
        Left(state="AttemptDeletionPending", tasks=(RUNNING, RUNNING), ended=FAILED),
        Outcome(code=3),
    ),
    "deletionrequested": (
        Left(state="AttemptDeletionRequested", tasks=(RUNNING, RUNNING), ended=FAILED),
        Outcome(code=3),
    ),
    "deleting": (
        Left(state="AttemptDeleting", tasks=(RUNNING, RUNNING), ended=FAILED),
        Outcome(code=3),
    ),
    "deletingtoretry": (
        Left(
            state="AttemptDeleting",
            tasks=(RUNNING, RUNNING),
            ended=FAILED,
            spec={"retryPolicy": ONCE_MORE},
        ),
        Outcome(new=2, retries=1),
    ),
    "attemptcompleted": (
        Left(state="AttemptCompleted", tasks=(Task(state="Completed", ended=FAILED),) * 2, ended=FAILED),
        Outcome(code=3),
    ),
    "attemptcompletedtoretry": (
        Left(
            state="AttemptCompleted",
            tasks=(Task(state="Completed", ended=FAILED),) * 2,
            ended=FAILED,
            spec={"retryPolicy": ONCE_MORE},
        ),
        Outcome(new=2, retries=1),
    ),
    "completed": (
        Left(state="Completed", tasks=(Task(state="Completed", ended=SUCCEEDED),) * 2, ended=SUCCEEDED),
        Outcome(),
    ),
}
EXPIRED = Left(
    state="Completed",
    tasks=(Task(state="Completed", ended=SUCCEEDED),),
    ended=SUCCEEDED,
    completed=LONG_AGO,
)


class Takeover(msgspec.Struct, frozen=True):
    place: Place
    controller: Controller
    left: dict[str, Json]
    """The Frameworks as the reference left them."""


@pytest.fixture(scope="module")
def takeover() -> Iterator[Takeover]:
    with clusters.running() as cluster, world.on(cluster) as own:
        for group in names.GROUPS:
            cluster.put_definition(reference_crd(group))
        place = own.new_place()
        predecessor = Predecessor(cluster.client, place.name)
        left = {name: predecessor.leave(name, case) for name, (case, _) in CASES.items()}
        predecessor.leave("expired", EXPIRED)
        for name, (case, _) in CASES.items():
            predecessor.delete_objects(name, case)
        cluster.install()
        for name, (case, _) in CASES.items():
            wait_for_status(place, name, case.group, code=200)
        controller = own.controller("successor", "--no-leader-election")
        own.wait_for("the controller to act", lambda: controller.proxy.asked(lambda asked: asked.is_act))
        own.start_kubelet()
        yield Takeover(place, controller, left)
        controller.require_no_exceptions()


def wait_for_status(place: Place, name: str, group: str, code: int) -> None:
    """The server takes a while to serve an object by its new definition."""
    path = f"{place.framework_path(name, group)}/status"
    place.world.wait_for(f"{path} to answer {code}", lambda: place.client.get(path).code == code)


@pytest.mark.parametrize("name", CASES)
def test_takeover_in_every_state(takeover: Takeover, name: str) -> None:
    case, expected = CASES[name]
    place = takeover.place
    processes.STARTED.append(takeover.controller.process)
    found = place.wait_for_completed(name, case.group)
    assert completion_of(found)["code"] == expected.code, completion_of(found)
    assert retries_of(found) == expected.retries
    before = takeover.left[name]
    assert found["status"]["startTime"] == before["status"]["startTime"]
    adopted = {task["attemptStatus"]["podUID"] for task in tasks_of(before)}
    seen = place.world.history.of(place.name, name)
    made = [pod for pod in seen if pod.uid not in adopted]
    assert len(made) == expected.new, f"{[pod.name for pod in made]} were made"
    assert not history.started_together(seen)
    assert not place.pods(name)
    assert not place.config_maps(name)


def test_completed_framework_is_not_changed(takeover: Takeover) -> None:
    found = takeover.place.wait_for_completed("completed")
    before = takeover.left["completed"]["status"]
    kept = {key: found["status"][key] for key in before}
    assert kept == before


def test_expired_framework_is_deleted(takeover: Takeover) -> None:
    """After frameworkCompletedRetainSec (statement 45)."""
    takeover.place.wait_until_gone("expired")


# The definition is the reference's, at the start or all of a sudden


def has_complained(controller: Controller) -> bool:
    """About the status subresource that is not there."""
    said = [line for line in controller.lines() if line["level"] in ("warning", "error")]
    return any("status" in str(line) for line in said)


def go_on(controller: Controller) -> None:
    """By itself it looks again twice a minute, which is waited for where there is time. A new one looks at once."""
    if servers.chosen() == "real":
        return
    controller.process.kill()
    controller.start_again()


def test_lost_status_subresource_pauses_the_controller(own_world: World) -> None:
    """The controller reports it and waits; it continues after the definition is corrected."""
    cluster, place, group = own_world.cluster, own_world.new_place(), names.CONTROLLER_GROUP
    controller = own_world.controller("patient", "--no-leader-election")
    place.submit(framework("job", role(tasks=2, life=FOREVER)))
    before = place.wait_for_running("job", 2)
    try:
        cluster.put_definition(reference_crd(group))
        wait_for_status(place, "job", group, code=404)
        for index in range(2):
            place.end_pod(f"job-worker-{index}")
        own_world.wait_for("the controller to complain", lambda: has_complained(controller))
        assert place.framework("job")["status"] == before["status"]
        assert len(place.pods("job")) == 2, "pods whose end is not stored must not be deleted"
    finally:
        cluster.put_definition(manifests.framework_crd(group))
    go_on(controller)
    assert completion_of(place.wait_for_completed("job"))["code"] == 0
    assert not history.started_more_than_once(own_world.history.of(place.name, "job"))


def test_definition_of_the_reference_is_reported_at_start(own_world: World) -> None:
    cluster, place, group = own_world.cluster, own_world.new_place(), names.CONTROLLER_GROUP
    try:
        cluster.put_definition(reference_crd(group))
        controller = own_world.controller("early", "--no-leader-election")
        place.submit(framework("job", role(tasks=1, life=SUCCEEDS)))
        own_world.wait_for("the controller to complain", lambda: has_complained(controller))
        assert not place.framework("job").get("status")
        assert not controller.proxy.asked(lambda asked: asked.is_act and "/status" not in asked.path)
        assert controller.is_alive
    finally:
        cluster.put_definition(manifests.framework_crd(group))
    go_on(controller)
    assert completion_of(place.wait_for_completed("job"))["code"] == 0


def test_definitions_are_updated_if_enabled() -> None:
    """With --manage-crds, over those of the reference, and with what runs under them."""
    with clusters.running() as cluster, world.on(cluster) as own:
        cluster.put_definition(reference_crd())
        cluster.grant(Settings(manage_crds=True))
        place = own.new_place()
        Predecessor(cluster.client, place.name).leave(
            "job", Left(state="AttemptRunning", tasks=(RUNNING, RUNNING))
        )
        # Not before: the predecessor writes the statuses of pods too.
        own.start_kubelet()
        own.controller("managing", "--manage-crds", "--no-leader-election")
        assert completion_of(place.wait_for_completed("job"))["code"] == 0


# The reference still runs


@pytest.mark.kubernetes
def test_other_controller_is_reported(own_world: World) -> None:
    """Windlass says so in a condition, and does nothing more to that Framework (A8)."""
    place = own_world.new_place()
    controller = own_world.controller("careful", "--no-leader-election")
    for name in ("shared", "ours"):
        place.submit(framework(name, role(tasks=2, life=FOREVER)))
        place.wait_for_running(name, 2)
    path, writes = f"{place.framework_path('shared')}/status", itertools.count()

    def has_noticed() -> bool:
        """The other one writes again and again: the server notes down whole seconds only."""
        patch = {"status": {"noted": next(writes)}}
        written = place.client.patch(path, patch, fieldManager="frameworkcontroller").expect(200)
        return bool(condition_of(written.body, "OtherController"))

    own_world.wait_for("the condition OtherController", has_noticed)
    start = next(
        NUMBERS
    )  # what wrote the condition has a lower number, even if its answer is still on its way
    for name in ("shared", "ours"):
        for index in range(2):
            place.end_pod(f"{name}-worker-{index}")
    assert completion_of(place.wait_for_completed("ours"))["code"] == 0
    assert state_of(place.framework("shared")) == "AttemptRunning"
    assert len(place.pods("shared")) == 2
    later = controller.proxy.asked(lambda asked: asked.is_act and asked.number > start)
    assert not [str(asked) for asked in later if "shared" in asked.path]
