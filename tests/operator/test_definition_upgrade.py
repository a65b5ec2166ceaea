"""The definitions of an earlier release are upgraded while Frameworks are alive, and come back.

After a release, add its definitions without those of the older group:
tests/data/definitions/VERSION.json, from `windlass install --crds-only --history`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from operated.controllers import Controller
from operated.jobs import FOREVER, framework, role
from operated.place import Place, completion_of, state_of
from operated.world import World

from windlass.model import names
from windlass.model.base import Json
from windlass.wire.crd import manifests

EARLIER = sorted((Path(__file__).parents[1] / "data" / "definitions").glob("*.json"))
RULE = {"taskRoles": ["worker"], "minSucceededTaskCount": 1}


def definitions_of(file: Path) -> list[Json]:
    """Return the definitions of a release. Those of both groups differ only in the group."""
    stored: list[Json] = json.loads(file.read_text())
    ours = next(each for each in stored if each["metadata"]["name"].endswith(names.CONTROLLER_GROUP))
    older = json.loads(json.dumps(ours).replace(names.CONTROLLER_GROUP, names.LAUNCHER_GROUP))
    return [older, *stored]


def upgrade(world: World) -> None:
    command = [sys.executable, "-m", "windlass.cli.main", "install", "--crds-only", "--history", "--apply"]
    environment = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("configured") >= 2, done.stdout


def live_jobs(place: Place) -> dict[str, str]:
    """Create a job in each phase of its life, and return the UIDs of all objects."""
    place.submit(framework("done", role()))
    place.submit(framework("running", role(tasks=2, life=FOREVER, retry={"maxRetryCount": 3})))
    place.submit(framework("older", role(tasks=1, life=FOREVER), group=names.LAUNCHER_GROUP))
    place.submit(framework("held", role(), suspend=True))
    place.wait_for_completed("done")
    place.wait_for_running("running", 2)
    place.wait_for_running("older", 1, names.LAUNCHER_GROUP)
    place.wait_for_condition("held", "Suspended")
    return uids(place)


def uids(place: Place) -> dict[str, str]:
    bodies = [place.framework(name) for name in ("done", "running", "held")]
    bodies += [place.framework("older", names.LAUNCHER_GROUP), *place.pods().values()]
    return {
        f"{body.get('kind', 'Pod')} {body['metadata']['name']}": body["metadata"]["uid"] for body in bodies
    }


def is_kept(place: Place, new: Json) -> bool:
    answer = place.client.post(place.framework_path(), new, dryRun="All").expect(201)
    return bool(answer.body["spec"].get("completionPolicies") == [RULE])


def finish(place: Place) -> None:
    place.change("held", {"suspend": False})
    for index in range(2):
        place.end_pod(f"running-worker-{index}")
    assert completion_of(place.wait_for_completed("held"))["code"] == 0
    assert completion_of(place.wait_for_completed("running"))["code"] == 0
    assert state_of(place.framework("older", names.LAUNCHER_GROUP)) == "AttemptRunning"


@pytest.fixture(params=EARLIER, ids=lambda path: path.stem)
def earlier(request: pytest.FixtureRequest) -> list[Json]:
    return definitions_of(request.param)


@pytest.fixture
def controller(own_world: World, earlier: list[Json]) -> Controller:
    for definition in earlier:
        own_world.cluster.put_definition(definition)
    return own_world.controller("first", "--no-leader-election")


def test_live_frameworks_continue_over_an_upgrade_of_the_definitions(
    own_world: World, controller: Controller
) -> None:
    place = own_world.new_place()
    before = live_jobs(place)

    upgrade(own_world)
    assert uids(place) == before
    new = framework("new", role(tasks=2), completionPolicies=[RULE])
    # A server takes a moment to use the new schema.
    place.wait_for("the new field to be kept", lambda: is_kept(place, new))
    place.submit(new)
    assert place.framework("new")["spec"]["completionPolicies"] == [RULE]
    assert completion_of(place.wait_for_completed("new"))["code"] == 0
    finish(place)


def test_live_frameworks_continue_when_the_earlier_definitions_come_back(
    own_world: World, controller: Controller, earlier: list[Json]
) -> None:
    upgrade(own_world)
    place = own_world.new_place()
    before = live_jobs(place)
    for definition in earlier:
        own_world.cluster.put_definition(definition)
    assert uids(place) == before
    finish(place)
    for definition in manifests.definitions(has_records=True):
        own_world.cluster.put_definition(definition)
