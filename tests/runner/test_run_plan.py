"""What a run has beside its jobs: which companions, and how they are called."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.client.prerequisites import plan as prerequisites_plan
from windlass.model.companions import Companion
from windlass.render import documents
from windlass.runner import run_plan
from windlass.runner.run_plan import Beside, Work

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


def work(*written: Any, only: Companion | None = None) -> Work:
    read = documents.read(yaml.safe_dump_all(written).encode(), "job.yaml")
    assert not read.errors
    kept = tuple(Companion) if only is None else (only,)
    jobs = [each.job.with_companions(kept) for each in read.submissions if each.job is not None]
    prepared = [prerequisites_plan.planned(each, "default", Path(), is_one_machine=True) for each in jobs]
    placed = [(each, None) for each in read.submissions]
    return run_plan.of(placed, read.others, read.shown).with_preparations(prepared)


TENSORBOARD = Beside(Companion.TENSORBOARD, "a", "default", "a-tensorboard")
JUPYTER = Beside(Companion.JUPYTER, "a", "default", "a-jupyter", is_kept=True)


@pytest.mark.parametrize(
    ("written", "only", "expected"),
    [
        ([job("a")], None, []),
        ([job("a", tensorboard={}, jupyter={"keep": True})], None, [TENSORBOARD, JUPYTER]),
        ([job("a", tensorboard={}, jupyter={"keep": True})], Companion.JUPYTER, [JUPYTER]),
        ([job("a", tensorboard={}, jupyter={})], Companion.HUB, []),
        (
            [job("a", tensorboard={}), job("b", tensorboard={})],
            None,
            [
                Beside(Companion.TENSORBOARD, name, "default", f"{name}-tensorboard", f"{name}/")
                for name in ("a", "b")
            ],
        ),
        ([CONFIG], None, [Beside(Companion.JUPYTER, "notes", "team", "notes")]),
    ],
)
def test_the_companions_of_a_run(written: list[Any], only: Companion | None, expected: list[Beside]) -> None:
    made = work(*written, only=only)
    assert list(made.companions) == expected
    assert set(made.objects) >= {each.name for each in expected}


def test_a_password_that_was_made_up_for_a_notebook_of_a_config_is_known_by_its_name() -> None:
    assert work(CONFIG).shown.keys() == {"notes"}
