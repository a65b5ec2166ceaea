"""Sphinx configuration of the documentation site, which `make docs-site` builds.

The pages are the Markdown files of the repository, which GitHub shows too. Lists of links are the navigation: each
heading of docs/index.md is a section with the linked pages, and the pages in `PARENTS` have those of their folder below
them.
"""

import re
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

import windlass

project = "Windlass"
author = "The authors of Windlass"
release = windlass.__version__
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [
    ".*",
    "bench",
    "charts",
    "deploy",
    "dist",
    "docker",
    "docs/_build",
    "requirements",
    "src",
    "tests",
    "tools",
    "ui",
]
myst_heading_anchors = 4
highlight_language = "text"

html_theme = "furo"
html_title = f"Windlass {release}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_static_path: list[str] = []

PARENTS = ("docs/migrating/README", "examples/README")
_LINK = re.compile(r"\[(?P<title>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<page>[^)#\s:]+)\.md\)")
_START = """\
<!doctype html>
<meta charset="utf-8">
<title>Windlass</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<a href="docs/index.html">Documentation of Windlass</a>
"""


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the headings of the table of contents, and the links of each as `title <page>`."""
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return [
        (heading, [f"{link['title']} <{link['page']}>" for link in _LINK.finditer(part)])
        for heading, part in zip(parts[::2], parts[1::2], strict=True)
    ]


def _tree(entries: list[str], caption: str = "") -> str:
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n```{{toctree}}\n{options}\n" + "\n".join(entries) + "\n```\n"


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    if page == root_doc:
        source[0] += "".join(_tree(entries, caption) for caption, entries in sections(source[0]))
    elif page in PARENTS:
        folder = PurePosixPath(page).parent
        own = sorted(
            each
            for each in app.project.docnames
            if PurePosixPath(each).is_relative_to(folder) and each != page
        )
        source[0] += _tree([f"/{each}" for each in own])


def write_start_page(app: Sphinx, error: Exception | None) -> None:
    """Write a page at the top of the site that leads to the first one."""
    if error is None:
        Path(app.outdir, "index.html").write_text(_START, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_start_page)
