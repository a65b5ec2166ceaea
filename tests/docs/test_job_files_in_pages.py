"""Every `yaml` block of a page that is a job file or a Framework is valid, and every `python` block compiles."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from windlass.render import documents
from windlass.wire.diagnostics import Diagnostic, Rule

TOP: Final = Path(__file__).parents[2]
OWN_TESTS: Final = frozenset(("docs/lint.md",))
"""Pages whose blocks contain errors on purpose; `test_lint_page.py` checks them."""
PAGES: Final = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in TOP.glob(pattern)
    if str(path.relative_to(TOP)) not in OWN_TESTS and ".venv" not in path.parts
)
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def is_expected(found: Diagnostic) -> bool:
    """Return whether it is the warning about shared GPUs, or about idle servers that never end."""
    return found.path.endswith("gpus.shared") or found.rule is Rule.NEVER_EXITS


def is_job(document: Any) -> bool:
    """Return whether it is complete: pages also show parts of files."""
    if not isinstance(document, dict):
        return False
    is_framework = document.get("kind") == "Framework" and "spec" in document
    return is_framework or ("name" in document and "roles" in document)


def blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if any(map(is_job, yaml.safe_load_all(block[1]))):
                yield str(page.relative_to(TOP)), block[1]


BLOCKS: Final = list(blocks())


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_job_file_is_valid(page: str, text: str) -> None:
    found = documents.read(text.encode(), page)
    assert [each for each in found.diagnostics if not is_expected(each)] == []
    assert found.submissions


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_python_compiles(page: Path) -> None:
    for block in _PYTHON.finditer(page.read_text(encoding="utf-8")):
        code = compile(block[1], str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert code.co_code


def test_pages_have_job_files() -> None:
    pages = {page for page, _ in BLOCKS}
    guides = (
        "tensorflow",
        "pytorch",
        "lightning",
        "accelerate",
        "jax",
        "mpi",
        "checkpoints",
        "storage",
        "job-file",
    )
    assert {"README.md", *(f"docs/{name}.md" for name in guides)} <= pages
