"""The page about peer discovery: the variables of its examples are those that tasks get."""

import re
from pathlib import Path

import gang_objects
import pytest
from builders import framework, role

from windlass.discovery import environment, files
from windlass.discovery.peers import peers_with_dns_names
from windlass.model.feature_annotations import Runtime, TaskRange

PAGE = (Path(__file__).parents[2] / "docs" / "discovery.md").read_text()
BLOCKS = re.findall(r"^<!-- compared by \S+ -->\n```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ATTEMPT = "0_0b826e57-4139-40b5-8945-d098c9b643ce"


def shown(block: str) -> dict[str, str]:
    """Return the variables of a block: a name, its value and perhaps a comment, or the rest of the last value."""
    found: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        words = re.split(r" {2,}", line)
        if words[0]:
            name = words[0]
            found[name] = words[1]
        elif name == "TF_CONFIG":
            found[name] += line.strip()
    return found


def given(
    runtime: Runtime, roles: dict[str, int], task: tuple[str, int], **elastic: TaskRange
) -> dict[str, str]:
    peers = peers_with_dns_names(framework("digits", *(role(name, tasks) for name, tasks in roles.items())))
    return environment.variables_for_peers(runtime, peers, ATTEMPT, elastic=elastic)(*task)


def elastic_variables() -> dict[str, str]:
    """Return those that differ from the variables of a job that is not elastic."""
    plain = given(Runtime.PYTORCH, {"worker": 2}, ("worker", 1))
    elastic = given(Runtime.PYTORCH, {"worker": 2}, ("worker", 1), worker=TaskRange(2, 8))
    return {name: value for name, value in elastic.items() if plain.get(name) != value}


EXPECTED = {
    "tensorflow": given(Runtime.TENSORFLOW, {"ps": 2, "worker": 2}, ("worker", 0)),
    "pytorch": given(Runtime.PYTORCH, {"worker": 2}, ("worker", 1)),
    "elastic": elastic_variables(),
    "jax": given(Runtime.JAX, {"worker": 2}, ("worker", 1)),
    "barrier": files.variables(gang_objects.gang(gang_objects.TWO_ROLES)),
}


@pytest.mark.parametrize(
    ("block", "expected"), list(zip(BLOCKS, EXPECTED.values(), strict=True)), ids=EXPECTED
)
def test_variables_are_as_documented(block: str, expected: dict[str, str]) -> None:
    assert shown(block) == expected
