"""Running a job again as a copy, which has its own code."""

from typing import Any

import pytest
from operated import jobs
from scripted_cluster import Place

from windlass.client import run_again
from windlass.client.errors import ObjectNotFoundError
from windlass.model import names


@pytest.fixture
def place(scripted_place: Place) -> Place:
    return scripted_place


def run(place: Place, name: str) -> str:
    return place.use(lambda connection: run_again.run_again(connection, name)).name


def code_volumes(*config_maps: str) -> list[dict[str, Any]]:
    if len(config_maps) == 1:
        return [{"name": "code", "configMap": {"name": config_maps[0]}}]
    return [
        {"name": "code", "projected": {"sources": [{"configMap": {"name": each}} for each in config_maps]}}
    ]


@pytest.mark.parametrize("parts", [("digits-code",), ("digits-code", "digits-code-1")], ids=len)
def test_copy_has_its_own_code(place: Place, parts: tuple[str, ...]) -> None:
    other = {"name": "other", "configMap": {"name": "digits-codes"}}
    pod = jobs.template(jobs.FOREVER, volumes=[*code_volumes(*parts), other])
    place.submit(jobs.framework("digits", jobs.role(pod=pod)))
    for name in parts:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"part": name}}
        place.client.post(place.path("configmaps"), body).expect(201)
    assert run(place, "digits") == "digits-2"
    copy = place.framework("digits-2")
    copied = tuple(name.replace("digits", "digits-2") for name in parts)
    volumes = copy["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["volumes"]
    assert volumes == [*code_volumes(*copied), other]
    assert copy["spec"]["executionType"] == "Start"
    maps = place.config_maps()
    for name, original in zip(copied, parts, strict=True):
        assert maps[name]["data"] == {"part": original}
        (owner,) = maps[name]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == (names.KIND, copy["metadata"]["uid"])


def test_copy_without_its_code_is_deleted_again(place: Place) -> None:
    pod = jobs.template(jobs.FOREVER, volumes=code_volumes("digits-code"))
    place.submit(jobs.framework("digits", jobs.role(pod=pod)))
    with pytest.raises(ObjectNotFoundError):
        run(place, "digits")
    place.wait_until_gone("digits-2")


def test_suspended_or_stopped_job_starts_as_a_copy(place: Place) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER), suspend=True))
    assert run(place, "digits") == "digits-2"
    place.wait_for_running("digits-2", 1)
    assert place.framework("digits-2")["spec"]["executionType"] == "Start"


def test_names_of_jobs_and_records_are_not_used_again(place: Place) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS)))
    place.submit(jobs.framework("digits-3", jobs.role(life=jobs.SUCCEEDS)))
    assert run(place, "digits") == "digits-2"
    place.wait_for_completed("digits-2")
    place.delete("digits-2")
    place.wait_until_gone("digits-2")
    assert run(place, "digits") == "digits-4"


def test_number_at_the_end_of_a_name_is_part_of_it(place: Place) -> None:
    place.submit(jobs.framework("resnet-50", jobs.role(life=jobs.SUCCEEDS)))
    assert run(place, "resnet-50") == "resnet-50-2"
    assert run(place, "resnet-50-2") == "resnet-50-3"
