"""Framework in, objects out: golden/*/framework.yaml → golden/*/objects.yaml (statements 3 to 9, 52)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from windlass.model.framework import Framework
from windlass.objects.config_map import config_map
from windlass.objects.pod import pod

CASES = sorted((Path(__file__).parent / "golden").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_objects_of_a_framework(case: Path, golden: Callable[[Path, list[Any]], None]) -> None:
    text = (case / "framework.yaml").read_text(encoding="utf-8")
    framework = msgspec.convert(yaml.safe_load(text), Framework)
    assert framework.status is not None
    pods = [
        pod(framework, role.name, task.index)
        for role in framework.status.attempt_status.roles
        for task in role.task_statuses
    ]
    golden(case / "objects.yaml", [config_map(framework), *pods])
