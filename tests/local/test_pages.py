"""The README and the pages whose commands start pods: the commands are run and print what the pages show."""

import functools
import subprocess
import sys

import pages
import pytest

DOCS = pages.TOP / "docs"
FOLDER = DOCS / "migrating"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
WAYS = [name for name in PAGES if name != "README.md"]
WITH_PODS = [
    str(path.relative_to(pages.TOP))
    for path in (pages.TOP / "README.md", *sorted(DOCS.glob("**/*.md")))
    if pages.runs_pods(path.read_text())
]

_PROBE = "from windlass.localcluster.sandbox import capability_probe; print(capability_probe.probe().reason, end='')"


@functools.cache
def why_no_pods() -> str:
    """Return why pods have no mounts on this machine, from a process with one thread."""
    command = [sys.executable, "-c", _PROBE]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


@pytest.mark.parametrize("page", WITH_PODS)
def test_commands_print_what_the_page_shows(page: str) -> None:
    reason = why_no_pods()
    needs_a_cluster = not page.startswith("docs/migrating/")
    if reason and needs_a_cluster:
        pytest.skip(reason)
    pages.assert_page_matches(pages.TOP / page, has_pods=not reason)


@pytest.mark.parametrize("way", WAYS)
def test_every_page_names_the_old_and_the_new_command(way: str) -> None:
    page = (FOLDER / way).read_text()
    assert "**Before**" in page
    assert "**Now**" in page
    assert any(isinstance(step, pages.Typed) for step in pages.steps(page))


def test_every_page_is_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text()
    assert [way for way in WAYS if f"]({way})" not in index] == []
