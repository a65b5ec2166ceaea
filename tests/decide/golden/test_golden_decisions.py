"""Framework + observed → decision: one file per case in `cases/`, for the life of a chief/worker/ps job."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.decide.golden.conftest import Case

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_decision_matches_golden_file(path: Path, read_case: "Callable[[Path], Case]") -> None:
    case = read_case(path)
    decision = case.decide()
    if os.environ.get("WINDLASS_REGENERATE"):
        case.write(decision)
        case = read_case(path)
    assert yaml.safe_load(case.expected) == decision


def test_golden_cases_exist() -> None:
    """Without cases, every test would pass."""
    assert len(CASES) >= 25
