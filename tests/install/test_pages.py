"""The pages for operators: options exist."""

import re
from pathlib import Path

import pytest

from windlass.cli.commands.install import install
from windlass.cli.commands.uninstall import uninstall

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("operations.md", "permissions.md")


@pytest.mark.parametrize("page", PAGES)
def test_options_exist(page: str) -> None:
    known = {
        option
        for command in (install, uninstall)
        for parameter in command.params
        for option in parameter.opts
    }
    text = "\n".join(
        line
        for line in (DOCS / page).read_text(encoding="utf-8").splitlines()
        if not re.search(r"\b(docker|helm)\b|--barrier-image=", line)
    )
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named
    assert named - known == set()


def test_every_install_option_is_documented() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    own = {option for parameter in install.params for option in parameter.opts}
    assert {option for option in own if option not in page} == {"--kubeconfig", "--context", "--local"}
