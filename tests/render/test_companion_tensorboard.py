"""TensorBoard beside a job: what it watches, and as what it is found."""

from typing import Any

import kubernetes_schemas
import msgspec
import pytest

from windlass.model import names
from windlass.model.base import Json
from windlass.model.companions import ServiceType, TensorBoard
from windlass.model.job import Job, Role, Volume
from windlass.model.resources import Resources
from windlass.render.companions import tensorboard
from windlass.render.companions.settled import Settled

JOB = Job(
    name="digits",
    image="digits:1",
    command="python train.py",
    secrets={"TOKEN": "hush"},
    volumes={"output": Volume(at="/output", pvc="o")},
    roles={"worker": Role(tasks=2)},
)


def made(settled: Settled = Settled(), **fields: Any) -> tuple[Json, Json]:  # noqa: B008 — it is frozen
    deployment, service = tensorboard.objects(JOB, TensorBoard(**fields), settled, None, "research")
    return deployment, service


def container_of(deployment: Json) -> Json:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_it_watches_the_output_and_writes_nothing() -> None:
    container = container_of(made()[0])
    assert {"--logdir=/output", "--port=6006"} <= set(container["command"])
    assert container["volumeMounts"] == [{"name": "output", "mountPath": "/output", "readOnly": True}]
    assert container["image"] == "digits:1"
    assert [each["name"] for each in container["env"]] == ["WINDLASS_ADDRESS"], "no secret of the job's"


def test_its_service_is_called_tensorboard() -> None:
    deployment, service = made()
    assert (deployment["metadata"]["name"], service["metadata"]["name"]) == (
        "digits-tensorboard",
        "tensorboard",
    )
    labels = {names.JOB_LABEL: "digits", names.COMPANION_LABEL: "tensorboard"}
    assert service["spec"]["selector"] == service["metadata"]["labels"] == labels
    assert made(name="board")[1]["metadata"]["name"] == "board"
    settled = Settled(tensorboard_service="digits-tensorboard")
    assert made(settled, name="board")[1]["metadata"]["name"] == "digits-tensorboard"


@pytest.mark.parametrize("service", ServiceType)
def test_kubernetes_takes_it(service: ServiceType) -> None:
    bodies = made(
        service=service, port=7007, image="board:2", logdir="/output/run 1", resources=Resources(cpus=1)
    )
    for body in bodies:
        assert list(kubernetes_schemas.faults(body)) == []
        assert body["metadata"]["namespace"] == "research"
    deployment, found = bodies
    assert (found["spec"]["type"], found["spec"]["ports"][0]["port"]) == (service, 7007)
    container = container_of(deployment)
    assert "--logdir=/output/run 1" in container["command"]
    assert (container["image"], container["resources"]["limits"]) == ("board:2", {"cpu": "1"})


def test_it_speaks_to_no_api_server() -> None:
    spec = made()[0]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert msgspec.json.encode(spec).count(b"TOKEN") == 0
