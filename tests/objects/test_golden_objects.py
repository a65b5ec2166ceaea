"""Framework in, objects out: golden/*/framework.yaml → golden/*/objects.yaml (statements 3 to 9, 52).

wiring.yaml, if it exists, contains the other inputs of the controller. A Service and a Gang are created for Frameworks
that request them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from windlass.model.base import Json
from windlass.model.feature_annotations import requested_features
from windlass.model.framework import Framework
from windlass.objects.attempt import config_map, gang, service
from windlass.objects.pod import DEFAULT_POD_OPTIONS, PodOptions, pod

CASES = sorted((Path(__file__).parent / "golden").iterdir())


def options_of(case: Path) -> PodOptions:
    file = case / "wiring.yaml"
    return (
        msgspec.convert(yaml.safe_load(file.read_text("utf-8")), PodOptions)
        if file.exists()
        else DEFAULT_POD_OPTIONS
    )


def asked_for(framework: Framework, wiring: PodOptions) -> list[Any]:
    """Return the objects as they are sent."""
    features = requested_features(framework.metadata.annotations)
    made: list[Json] = [service(framework)] if features.uses_dns_names else []
    made += [gang(framework, wiring.ports)] if features.uses_gang else []
    return [msgspec.json.decode(msgspec.json.encode(manifest)) for manifest in made]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_objects_match_golden_file(case: Path, golden: Callable[[Path, list[Any]], None]) -> None:
    text = (case / "framework.yaml").read_text(encoding="utf-8")
    framework, wiring = msgspec.convert(yaml.safe_load(text), Framework), options_of(case)
    assert framework.status is not None
    pods = [
        pod(framework, role.name, task.index, wiring)
        for role in framework.status.attempt_status.roles
        for task in role.task_statuses
    ]
    golden(case / "objects.yaml", [config_map(framework, wiring.ports), *pods, *asked_for(framework, wiring)])
