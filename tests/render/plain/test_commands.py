"""Wrapped commands: Kubernetes expands its variables, and the shell those of the script."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.localcluster.kubelet.containers import expansion
from windlass.render.plain import commands

TOLD = {"PS_HOSTS": "a:1,b:1", "TASK_INDEX": "3"}
SHOW = ("/usr/bin/printf", "%s\\0")


def run(folder: Path, words: list[str], env: dict[str, str], args: list[str] | None = None) -> list[str]:
    """Return the arguments of a program in a pod whose script sets the variables in TOLD."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    container: dict[str, Any] = {"command": [*SHOW, *words], "env": variables, "args": args or []}
    told = [name for name in TOLD if name not in env]
    script = folder / "worker.env"
    wrapped = commands.wrapped(container, str(script), told)
    lines = [f"export {name}='{TOLD[name]}'" for name in told]
    script.write_text("\n".join((*lines, *wrapped.exports, "")))

    known: dict[str, str] = {}
    for variable in wrapped.container["env"]:
        known[variable["name"]] = expansion.expand(variable["value"], known)
    started = [expansion.expand(word, known) for word in wrapped.container["command"]]
    assert "args" not in wrapped.container
    answer = subprocess.run(started, env=known, capture_output=True, check=True, timeout=60)  # noqa: S603
    return answer.stdout.decode().split("\0")[:-1]


CASES: dict[str, tuple[list[str], dict[str, str], list[str]]] = {
    "words": (["a b", "", "'", '"$x"', "`y`"], {}, ["a b", "", "'", '"$x"', "`y`"]),
    "a name of the script": (["--ps=$(PS_HOSTS)", "x"], {}, ["--ps=a:1,b:1", "x"]),
    "two names in one word": (["$(TASK_INDEX)/$(PS_HOSTS)."], {}, ["3/a:1,b:1."]),
    "many words": ([*"abcdefghijkl", "$(TASK_INDEX)"], {}, [*"abcdefghijkl", "3"]),
    "an escaped reference": (["$$(PS_HOSTS)", "$(PS_HOSTS)"], {}, ["$(PS_HOSTS)", "a:1,b:1"]),
    "an unknown name": (["$(NO)$(TASK_INDEX)"], {}, ["$(NO)3"]),
    "one of the container": (["$(MINE)", "$(TASK_INDEX)"], {"MINE": "'\";$x"}, ["'\";$x", "3"]),
    "the container's wins": (["$(TASK_INDEX)"], {"TASK_INDEX": "7"}, ["7"]),
    "a variable that refers to the script": (
        ["$(ADDRESS)"],
        {"A": "it's", "ADDRESS": "$(A) $$(B) $(C) $(PS_HOSTS)\"'$x"},
        ["it's $(B) $(C) a:1,b:1\"'$x"],
    ),
    "a variable that refers to such a one": (["$(Y)"], {"X": "<$(TASK_INDEX)>", "Y": "$(X)!"}, ["<3>!"]),
    "an empty one": (["$(PS_HOSTS)", "", "$(TASK_INDEX)"], {}, ["a:1,b:1", "", "3"]),
}


@pytest.mark.parametrize("case", CASES)
def test_program_gets_expanded_arguments(case: str, tmp_path: Path) -> None:
    words, env, expected = CASES[case]
    assert run(tmp_path, words, env) == expected


def test_arguments_follow_the_command(tmp_path: Path) -> None:
    assert run(tmp_path, ["a"], {}, ["b", "$(TASK_INDEX)"]) == ["a", "b", "3"]


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("$(){}'\"\\`"), max_size=12
)
WORDS = st.lists(TEXTS | st.sampled_from(["$(PS_HOSTS)", "$$(TASK_INDEX)", "$(MINE)"]), max_size=4).map(
    "".join
)


@settings(deadline=None, max_examples=40)
@given(words=st.lists(WORDS, min_size=1, max_size=4), mine=TEXTS, other=WORDS)
def test_expansion_equals_that_of_kubernetes(
    words: list[str], mine: str, other: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The result is the same as in a pod whose manifest contains all variables."""
    known = {**TOLD, "MINE": expansion.expand(mine, TOLD)}
    known["OTHER"] = expansion.expand(other, known)
    words = [*words, "$(OTHER)"]
    found = run(tmp_path_factory.mktemp("task"), words, {"MINE": mine, "OTHER": other})
    assert found == [expansion.expand(word, known) for word in words]
