"""docs/comparison.md: a claim about Windlass links to a test, a claim about another system to its documentation."""

import re
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[2]
PAGE: Final = (TOP / "docs/comparison.md").read_text(encoding="utf-8")
SYSTEMS: Final = ("Windlass", "FrameworkController", "Trainer", "JobSet", "Volcano", "TorchX", "SkyPilot")
ROWS: Final = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.count("|") == len(SYSTEMS) + 2
]
CLAIMS: Final = [row for row in ROWS if row[1:] != list(SYSTEMS)]
TESTS: Final = sorted(set(re.findall(r"\]\(\.\./(tests/[^)]+)\)", PAGE)))


def test_tables_have_all_systems() -> None:
    assert len(ROWS) - len(CLAIMS) == 4
    assert len(CLAIMS) > 15


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row[0])
def test_claim_about_windlass_links_to_a_test_or_says_no(row: list[str]) -> None:
    assert "](../tests/" in row[1] or re.match(r"\**no\b", row[1]), row[1]


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row[0])
def test_claims_about_other_systems_link_to_their_documentation(row: list[str]) -> None:
    assert [cell for cell in row[2:] if cell and not re.search(r"\]\(https://[^)]+\)", cell)] == []


@pytest.mark.parametrize("name", SYSTEMS[1:])
def test_page_says_what_the_system_does_better(name: str) -> None:
    section = PAGE.partition("## What they do better\n")[2].partition("\n## ")[0]
    assert f"* **{name}**" in section


@pytest.mark.parametrize("path", TESTS)
def test_linked_test_exists(path: str) -> None:
    assert re.search(r"^(?:async )?def test_", (TOP / path).read_text(encoding="utf-8"), re.MULTILINE)
