"""Finished jobs cost a controller neither memory nor requests, and still expire."""

from operated.jobs import SUCCEEDS, framework, role
from operated.place import GROUP, Place
from operated.world import World

FINISHED = 40
EMPTY_LIST_BYTES = 400


def _metric(controller_text: str, state: str) -> int:
    name = f'windlass_frameworks{{state="{state}"}} '
    return next(
        (
            int(float(line.removeprefix(name)))
            for line in controller_text.splitlines()
            if line.startswith(name)
        ),
        0,
    )


def test_finished_jobs_are_listed_last_and_not_kept(own_world: World) -> None:
    place = own_world.new_place()
    _leave_finished_jobs(own_world, place)
    controller = own_world.controller("next", "--namespace", place.name)
    everything = FINISHED + 1
    own_world.wait_for(
        "all jobs to be counted", lambda: _metric(controller.ask("/metrics")[1], "Completed") == everything
    )

    (started,) = (line for line in controller.lines() if line["message"] == "controller is working")
    assert started["frameworks"] == 0
    exchanges = [
        each for each in controller.proxy.exchanges if f"/namespaces/{place.name}/" in each.asked.path
    ]
    lists = [each for each in exchanges if GROUP in each.asked.path and not each.asked.is_watch]
    selectors = [each.asked.parameters.get("fieldSelector") for each in lists]
    assert selectors == ["status.state!=Completed", "status.state=Completed"]
    assert lists[0].size <= EMPTY_LIST_BYTES < lists[1].size
    (pods,) = (each for each in exchanges if each.asked.path.endswith("/pods") and not each.asked.is_watch)
    assert lists[0].asked.number < pods.asked.number < lists[1].asked.number
    assert not [each.asked for each in exchanges if each.asked.is_act]

    place.submit(framework("new", role(life=SUCCEEDS)))
    place.wait_for_completed("new")
    place.change("copy0", {"ttlSecondsAfterFinished": 0})
    place.wait_until_gone("copy0")
    place.delete("copy1")
    own_world.wait_for(
        "the deleted jobs to be forgotten",
        lambda: _metric(controller.ask("/metrics")[1], "Completed") == everything + 1 - 2,
    )
    reads = controller.proxy.asked(
        lambda asked: asked.method == "GET" and asked.path.startswith(place.framework_path("copy"))
    )
    assert not reads


def _leave_finished_jobs(own_world: World, place: Place) -> None:
    """Run one job, stop its controller, and copy the job."""
    earlier = own_world.controller("earlier", "--namespace", place.name)
    place.submit(framework("pattern", role(tasks=2, life=SUCCEEDS)))
    pattern = place.wait_for_completed("pattern")
    earlier.process.kill()
    for number in range(FINISHED):
        name = f"copy{number}"
        made = place.submit(framework(name, role(tasks=2, life=SUCCEEDS)))
        status = {**made, "status": pattern["status"]}
        place.client.put(f"{place.framework_path(name)}/status", status).expect(200)
