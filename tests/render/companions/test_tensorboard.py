"""TensorBoard of a job: its folder and its Service."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_schemas
import msgspec
import pytest
from rendered_companions import Rendered, by_kind, container_of, pod_of

from windlass.model import names
from windlass.model.companions import ServiceType, TensorBoard
from windlass.model.job import Job, Role, Volume
from windlass.model.resources import Resources
from windlass.render.companions import tensorboard
from windlass.render.companions.servers import ResolvedCompanions

JOB = Job(
    name="digits",
    image="digits:1",
    namespace="research",
    command="python train.py",
    secrets={"TOKEN": "hush"},
    volumes={"output": Volume(at="/output", pvc="o")},
    roles={"worker": Role(tasks=2)},
)


def made(resolved: ResolvedCompanions = ResolvedCompanions(), **fields: Any) -> Rendered:  # noqa: B008 — it is frozen
    return by_kind(tensorboard.objects(JOB, TensorBoard(**fields), resolved, None))


def test_tensorboard_mounts_volumes_read_only() -> None:
    container = container_of(made())
    assert {"--logdir=/output", "--port=6006"} <= set(container["command"])
    assert container["volumeMounts"] == [{"name": "output", "mountPath": "/output", "readOnly": True}]
    assert container["image"] == "digits:1"
    assert [each["name"] for each in container["env"]] == ["WINDLASS_ADDRESS"], "no secret of the job's"


def test_service_is_named_tensorboard() -> None:
    deployment, service = made().values()
    assert (deployment["metadata"]["name"], service["metadata"]["name"]) == (
        "digits-tensorboard",
        "tensorboard",
    )
    labels = {names.JOB_LABEL: "digits", names.COMPANION_LABEL: "tensorboard"}
    assert service["spec"]["selector"] == service["metadata"]["labels"] == labels
    assert made(name="board")["Service"]["metadata"]["name"] == "board"
    resolved = ResolvedCompanions(tensorboard_service="digits-tensorboard")
    assert made(resolved, name="board")["Service"]["metadata"]["name"] == "digits-tensorboard"


@pytest.mark.parametrize("service", ServiceType)
def test_api_server_accepts_objects(service: ServiceType) -> None:
    found = made(
        service=service, port=7007, image="board:2", logdir="/output/run 1", resources=Resources(cpus=1)
    )
    for body in found.values():
        assert list(kubernetes_schemas.faults(body)) == []
        assert body["metadata"]["namespace"] == "research"
    spec = found["Service"]["spec"]
    assert (spec["type"], spec["ports"][0]["port"]) == (service, 7007)
    container = container_of(found)
    assert "--logdir=/output/run 1" in container["command"]
    assert (container["image"], container["resources"]["limits"]) == ("board:2", {"cpu": "1"})


def test_tensorboard_has_no_service_account_token() -> None:
    spec = pod_of(made())
    assert spec["automountServiceAccountToken"] is False
    assert msgspec.json.encode(spec).count(b"TOKEN") == 0


ASKING = """\
#!{python}
import socket, sys
with socket.socket() as asking:
    is_taken = asking.connect_ex(("127.0.0.1", {port})) == 0
print(is_taken, *sys.argv)
"""
"""Program that checks like TensorBoard whether its port is taken: on `localhost`, whatever its own address is."""


@pytest.mark.parametrize(
    ("address", "listens_on", "is_taken"),
    [("10.0.0.7", "0.0.0.0", True), ("fd00::7", "::", True), ("127.9.0.7", "127.9.0.7", False)],  # noqa: S104
)
def test_tensorboard_with_own_loopback_address_ignores_localhost_port(
    address: str, listens_on: str, is_taken: bool, tmp_path: Path
) -> None:
    program = tmp_path / "tensorboard"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        program.write_text(ASKING.format(python=sys.executable, port=port))
        program.chmod(0o755)
        run = subprocess.run(  # noqa: S603
            [word.replace("$$", "$") for word in container_of(made(port=port))["command"]],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "WINDLASS_ADDRESS": address},
            capture_output=True,
            text=True,
            check=True,
        )
    said = f"{is_taken} {program} --host {listens_on} --port={port} --logdir=/output"
    assert run.stdout.startswith(said), run.stdout
