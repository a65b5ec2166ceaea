"""The plan of a submission: its companions and their names."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.client.errors import InvalidJobError
from windlass.client.submit import plan as planner
from windlass.client.submit.plan import CompanionRef, SubmitOptions, SubmitPlan, Target
from windlass.client.submit.sources import Source
from windlass.model import names
from windlass.model.companions import Companion
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, NfsServer, Role
from windlass.render import documents
from windlass.render.documents import Contents, Submission

ALL = tuple(Companion)
VOLUMES = {"out": {"hostPath": "/output", "at": "/output"}}
CONFIG = {
    "imports": [{"path": "tensorflow-cluster.jinja"}, {"path": "jupyter-service.jinja"}],
    "resources": [
        {
            "name": "idle",
            "type": "tensorflow-cluster",
            "properties": {"image": "i", "namespace": "team", "jobs": [{"name": "ps", "num_tasks": 1}]},
        },
        {
            "name": "notes",
            "type": "jupyter-service",
            "properties": {"image": "i", "namespace": "team", "port": 8888},
        },
    ],
}


def job(name: str, **companions: Any) -> dict[str, Any]:
    return {"name": name, "roles": {"worker": {"command": "true"}}, "volumes": VOLUMES, **companions}


def plan(*written: Any, companions: tuple[Companion, ...] = tuple(Companion)) -> SubmitPlan:
    contents = documents.read(yaml.safe_dump_all(written).encode(), "job.yaml")
    assert not contents.errors
    options = SubmitOptions(companions=companions)
    return planner.plan(Source(contents, Path()), Target(is_embedded=True), options)


TENSORBOARD = CompanionRef(Companion.TENSORBOARD, "a", "default", "a-tensorboard")
JUPYTER = CompanionRef(Companion.JUPYTER, "a", "default", "a-jupyter", is_kept=True)


@pytest.mark.parametrize(
    ("written", "companions", "expected"),
    [
        ([job("a")], ALL, []),
        ([job("a", tensorboard={}, jupyter={"keep": True})], ALL, [TENSORBOARD, JUPYTER]),
        ([job("a", tensorboard={}, jupyter={"keep": True})], (Companion.JUPYTER,), [JUPYTER]),
        ([job("a", tensorboard={}, jupyter={})], (Companion.HUB,), []),
        (
            [job("a", tensorboard={}), job("b", tensorboard={})],
            ALL,
            [
                CompanionRef(Companion.TENSORBOARD, name, "default", f"{name}-tensorboard", f"{name}/")
                for name in ("a", "b")
            ],
        ),
        ([CONFIG], ALL, [CompanionRef(Companion.JUPYTER, "notes", "team", "notes")]),
    ],
)
def test_companions_of_a_plan(
    written: list[Any], companions: tuple[Companion, ...], expected: list[CompanionRef]
) -> None:
    planned = plan(*written, companions=companions)
    assert list(planned.companions) == expected
    assert set(planned.display_names) >= {each.name for each in expected}


def test_generated_password_of_a_notebook_in_a_config_has_its_name() -> None:
    assert plan(CONFIG).passwords.keys() == {"notes"}


IMAGES: dict[str, tuple[Job, bool]] = {
    "none": (Job(name="a", command="b", roles={"c": Role()}), True),
    "the job's": (Job(name="a", command="b", image="i", roles={"c": Role()}), False),
    "of one role only": (Job(name="a", command="b", roles={"c": Role(image="i"), "d": Role()}), True),
    "of all that have tasks": (
        Job(name="a", command="b", roles={"c": Role(image="i"), "d": Role(tasks=0)}),
        False,
    ),
    "under pod": (
        Job(
            name="a",
            command="b",
            pod={"spec": {"containers": [{"name": "main", "image": "i"}]}},
            roles={"c": Role()},
        ),
        False,
    ),
}


@pytest.mark.parametrize(("job", "is_missing"), IMAGES.values(), ids=IMAGES.keys())
def test_job_without_image_is_rejected_except_on_an_embedded_cluster(job: Job, is_missing: bool) -> None:
    source = Source(Contents((Submission(job=job),), (), ()), Path())
    planner.plan(source, Target(is_embedded=True))
    with pytest.raises(InvalidJobError, match="has no image") if is_missing else contextlib.nullcontext():
        planner.plan(source, Target())


@pytest.mark.parametrize(("is_embedded", "idle", "succeeded"), [(True, "ps,worker", -1), (False, None, 2)])
def test_role_without_a_command_is_an_idle_server_only_on_an_embedded_cluster(
    is_embedded: bool, idle: str | None, succeeded: int
) -> None:
    """On other clusters it runs the entrypoint of its image, and the job waits for it."""
    job = Job(name="a", image="i", runtime=Runtime.TENSORFLOW, roles={"ps": Role(), "worker": Role(tasks=2)})
    assert planner.may_differ_if_embedded(Submission(job=job))
    source = Source(Contents((Submission(job=job),), (), ()), Path())
    (planned,) = planner.plan(source, Target(is_embedded=is_embedded)).jobs
    assert planned.framework["metadata"]["annotations"].get(names.IDLE_ANNOTATION) == idle
    policy = planned.framework["spec"]["taskRoles"][1]["frameworkAttemptCompletionPolicy"]
    assert policy["minSucceededTaskCount"] == succeeded


@pytest.mark.parametrize(("address", "is_placeholder"), [("", True), ("10.0.0.7", False)])
def test_framework_has_a_placeholder_unless_the_address_of_its_nfs_server_is_known(
    address: str, is_placeholder: bool
) -> None:
    job = Job(name="a", image="i", command="b", nfs_server=NfsServer(size="1Gi"), roles={"c": Role()})
    source = Source(Contents((Submission(job=job),), (), ()), Path())
    (planned,) = planner.plan(source, Target(nfs_address=address)).jobs
    assert planned.has_nfs_placeholder is is_placeholder


def test_code_is_used_in_place_on_an_embedded_cluster(tmp_path: Path) -> None:
    job = Job(name="a", command="b", code=str(tmp_path), roles={"c": Role(tasks=2)})
    source = Source(Contents((Submission(job=job),), (), ()), tmp_path)
    (planned,) = planner.plan(source, Target(is_embedded=True)).jobs
    (role,) = planned.framework["spec"]["taskRoles"]
    assert role["task"]["pod"]["spec"]["containers"][0]["workingDir"] == str(tmp_path)
    assert planned.framework["metadata"]["namespace"] == "default"
    assert planned.display_names == ("c-0", "c-1")
