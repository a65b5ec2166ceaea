"""The examples of docs/sdk.md except the first one, run one after the other. tests/local runs the first one."""

import re
from pathlib import Path
from typing import Any

import in_process_cluster
import pytest
from fake_kubelet.lifecycle import Life

PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"
JOB = "name: digits\nimage: x\ncommand: python train.py\nroles: {worker: {tasks: 3}}\n"


def test_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    known: dict[str, Any] = {}
    with in_process_cluster.opened(life=Life(runs_for=None)) as world:
        monkeypatch.setenv("KUBECONFIG", str(world.kubeconfig))
        for example in examples[1:]:
            exec(compile(example, str(PAGE), "exec"), known)  # noqa: S102
    said = capsys.readouterr().out
    for expected in (
        "digits 3",
        "Running 3 of 3",
        "worker-1 Running hollow",
        "Stopped -210",
        "letters: jupyter: generated password",
        "http://letters-jupyter.default.svc:8888/ windlass jupyter letters",
        'there is no job "digts"',
        "[]",
    ):
        assert expected in said
