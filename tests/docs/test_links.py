"""Links between pages: the file exists, and so does the heading."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in TOP.glob(pattern)
    if ".venv" not in path.parts
)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub derives them from its headings."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        is_known = not anchor or (target.suffix == ".md" and target.is_file() and anchor in headings(target))
        if not target.exists() or not is_known:
            broken.append(link)
    assert broken == []
