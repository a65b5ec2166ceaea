"""The first notebook of a job. Other tests run its cells with real programs."""

import ast
import json
from typing import Any

import msgspec
import pytest

from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render.companions import starter

JOB = Job(name="digits", runtime=Runtime.TENSORFLOW, roles={"ps": Role(tasks=0), "worker": Role(tasks=2)})


def cells(job: Job) -> list[Any]:
    notebook = json.loads(starter.notebook(job))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found: list[Any] = notebook["cells"]
    return found


def code(job: Job) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(job) if cell["cell_type"] == "code"]


@pytest.mark.parametrize("runtime", Runtime)
def test_first_notebook_is_valid(runtime: Runtime) -> None:
    job = msgspec.structs.replace(JOB, runtime=runtime)
    assert len({cell["id"] for cell in cells(job)}) == len(cells(job))
    for cell in cells(job):
        assert cell["cell_type"] in ("code", "markdown")
        assert "".join(cell["source"]).strip()
        assert ("outputs" in cell) is (cell["cell_type"] == "code")
    for text in code(job):
        ast.parse(text)


@pytest.mark.parametrize("runtime", Runtime)
def test_only_tensorflow_notebook_computes_on_servers(runtime: Runtime) -> None:
    text = "\n".join(code(msgspec.structs.replace(JOB, runtime=runtime)))
    assert ("grpc://" in text) is (runtime is Runtime.TENSORFLOW)


def test_notebook_reads_variables_of_existing_task() -> None:
    assert 'variables_of("worker-0")' in code(JOB)[0]


def test_notebook_is_deterministic() -> None:
    assert starter.notebook(JOB) == starter.notebook(JOB)
    assert "# The job digits" in "".join(cells(JOB)[0]["source"])


@pytest.mark.parametrize("runtime", [Runtime.PYTORCH, Runtime.PLAIN])
def test_notebook_without_windlass_uses_initial_addresses(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The image does not contain Windlass."""
    monkeypatch.setitem(__import__("sys").modules, "windlass", None)
    monkeypatch.setenv("WINDLASS_JOB", "digits")
    monkeypatch.setenv("CLUSTER_CONFIG", '{"worker": ["worker-0.digits:2222"]}')
    known: dict[str, Any] = {}
    for text in code(msgspec.structs.replace(JOB, runtime=runtime)):
        exec(text, known)  # noqa: S102
    written = capsys.readouterr().out
    assert "worker worker-0.digits:2222" in written
    assert "Windlass is not installed" in written
