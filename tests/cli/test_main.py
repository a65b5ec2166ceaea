"""Suggestions for misspelt commands and options."""

import pytest
from click.testing import CliRunner

from windlass.cli.main import main

MEANT = {
    "a misspelt command": (("rnu",), "No such command 'rnu'. Did you mean 'run'?"),
    "an unknown command": (("frobnicate",), "No such command 'frobnicate'."),
    "a misspelt option": (("list", "--all-namespace"), "--all-namespaces"),
    "a command without --": (("run", "--workers", "2", "python", "train.py"), "write a command after --"),
    "no time": (("run", "--timeout", "0s", "job.yaml"), "found '0s', expected more than 0"),
    "invalid duration": (("wait", "digits", "--timeout", "soon"), "expected a duration such as 90s"),
}


@pytest.mark.parametrize(("words", "expected"), MEANT.values(), ids=MEANT.keys())
def test_similar_command_is_suggested(words: tuple[str, ...], expected: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_unrelated_word_gets_no_suggestion() -> None:
    assert "Did you mean" not in CliRunner().invoke(main, ["frobnicate"]).stderr
