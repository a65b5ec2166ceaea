"""The documentation site that `make docs-site` has built: complete, searchable without a network, without broken links.

`make docs-site` runs these tests; `make test` checks the links of the Markdown files without building the site.
"""

import functools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import browsers
import pytest

TOP: Final = Path(__file__).parents[2]
SITE: Final = TOP / "docs" / "_build" / "site"
PAGES: Final = sorted(SITE.rglob("*.html"))
LOADING: Final = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "object": ("data",),
    "video": ("src", "poster"),
}
"""Attributes whose resources a browser loads with the page."""
WORDS: Final = {
    "checkpoint": "docs/checkpoints",
    "hostfil": "docs/discovery",
    "prometheus": "docs/metrics",
    "taskrol": "docs/framework",
}
"""Stems of words, each with a page that contains it."""


class Page(HTMLParser):
    """The identifiers, links and resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") in ("next", "prev", "search", "index"):
            return
        self.resources += [found[name] for name in LOADING.get(tag, ()) if name in found]


@functools.cache
def page(path: Path) -> Page:
    return Page(path)


@functools.cache
def search_index() -> Any:
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))


def test_every_page_of_the_table_of_contents_is_built() -> None:
    index = (TOP / "docs" / "index.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#\s:]+)\.md\)", index):
        built = (SITE / "docs" / f"{link}.html").resolve()
        assert built.is_file(), link
    assert "docs/index.html" in (SITE / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(SITE)))
def test_links_lead_to_pages_and_headings(path: Path) -> None:
    broken = []
    for link in page(path).links:
        target = urlsplit(link)
        if target.scheme or target.netloc:
            continue
        file = (path.parent / unquote(target.path)).resolve() if target.path else path
        is_heading = (
            not target.fragment or file.suffix != ".html" or unquote(target.fragment) in page(file).ids
        )
        if not file.exists() or not is_heading:
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(SITE)))
def test_page_loads_nothing_from_the_web(path: Path) -> None:
    assert [each for each in page(path).resources if re.match(r"(?:https?:)?//", each)] == []


def test_styles_load_nothing_from_the_web() -> None:
    styles = list(SITE.rglob("*.css"))
    assert styles
    for path in styles:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", text), path


@pytest.mark.parametrize(("word", "name"), WORDS.items(), ids=WORDS)
def test_search_index_finds_a_word(word: str, name: str) -> None:
    index = search_index()
    found = [index[kind].get(word, []) for kind in ("terms", "titleterms")]
    numbers = [number for each in found for number in (each if isinstance(each, list) else [each])]
    assert name in {index["docnames"][number] for number in numbers}


def test_search_index_has_every_page() -> None:
    names = set(search_index()["docnames"])
    assert {"docs/tutorial", "docs/commands", "README", "CONTRIBUTING", "examples/README"} <= names
    assert len(names) > 60


def test_search_works_in_a_browser_from_the_disk() -> None:
    if shutil.which(browsers.PROGRAM) is None:
        pytest.skip(f"{browsers.PROGRAM} is not installed")
    with browsers.opened() as browser:
        browser.open(f"{(SITE / 'search.html').as_uri()}?q=checkpoint")
        browser.until_shown("Checkpoint and resume")
        loaded = browser.ask(
            "[...document.querySelectorAll('script[src], link[href], img[src]')].map((each) => each.src || each.href)"
        )
        assert loaded
        assert [each for each in loaded if not each.startswith(("file:", "data:"))] == []
        browser.click("a[href*='checkpoints.html']")
        browser.until_shown("Windlass restarts tasks")
