"""docs/index.md, the table of contents of the site, has every page once; the README is short and leads to it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]
DOCS: Final = TOP / "docs"
INDEX: Final = (DOCS / "index.md").read_text(encoding="utf-8")
SECTIONS: Final = ("Start", "Guides", "Moving from …", "Reference", "Operate", "Contribute")
PARENTS: Final = (DOCS / "migrating", TOP / "examples")
"""Folders whose README.md stands for all their pages."""
MAX_README: Final = 150


def linked(text: str, folder: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)#\s:]+\.md)\)", text):
        yield str((folder / link).resolve().relative_to(TOP))


def pages() -> Iterator[str]:
    for path in (*TOP.glob("*.md"), *DOCS.rglob("*.md"), *TOP.glob("examples/*.md")):
        is_below_a_parent = any(path.parent == parent and path.name != "README.md" for parent in PARENTS)
        if "_build" not in path.parts and path != DOCS / "index.md" and not is_below_a_parent:
            yield str(path.relative_to(TOP))


def test_every_page_is_in_the_table_of_contents_once() -> None:
    assert sorted(linked(INDEX, DOCS)) == sorted(pages())


def test_sections_are_complete() -> None:
    assert tuple(re.findall(r"^## (.+)$", INDEX, re.MULTILINE)) == SECTIONS


def test_readme_is_short_and_has_pictures_of_the_live_table_and_the_dashboard() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= MAX_README
    assert "](docs/images/live-table.svg)" in readme
    assert "](docs/images/dashboard-job.webp)" in readme
    assert "](docs/index.md)" in readme


def test_readme_begins_with_the_demo_and_the_tests() -> None:
    quickstart = (TOP / "README.md").read_text(encoding="utf-8").partition("## Quickstart")[2]
    commands = re.findall(r"^ {4}(\S+ \S+)", quickstart, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
