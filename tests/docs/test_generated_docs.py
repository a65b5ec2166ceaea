"""The documentation of states, codes and settings agrees with the code."""

import re
import subprocess
import sys
from pathlib import Path

from windlass.decide.transitions import TRANSITIONS
from windlass.model.states import State
from windlass.wire.settings import environment

TOP = Path(__file__).parents[2]


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "tools/update_docs.py", "--verify"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_diagram_has_every_transition_and_every_state_is_documented() -> None:
    page = (TOP / "docs" / "states.md").read_text()
    picture = (TOP / "docs" / "images" / "states.svg").read_text()
    assert "](images/states.svg)" in page
    for start, end in TRANSITIONS:
        assert f"<title>{start} → {end}</title>" in picture
    for state in State:
        assert f"## {state}\n" in page


def test_every_setting_is_documented() -> None:
    page = (TOP / "docs" / "configuration.md").read_text()
    for setting in environment.SETTINGS:
        _, found, section = page.partition(f"## {setting.key}\n\n`{setting.variable}`, `{setting.flag}`")
        explanation = section.partition("\n## ")[0].strip().splitlines()[2:]
        assert found, setting.key
        assert explanation, setting.key
    assert "## podFailureSpec\n\nOnly in the file." in page


def test_every_field_and_annotation_of_a_framework_is_documented() -> None:
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for name in ("framework.md", "annotations.md")
        for line in (TOP / "docs" / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert len(rows) > 150
    assert [row[0] for row in rows if not row[2 if len(row) > 2 else 1]] == []
