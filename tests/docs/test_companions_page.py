"""The page about companions: its examples are valid job files, and Services and permissions are as rendered."""

import getpass
import json
import re
from pathlib import Path
from typing import Any

import pytest

from windlass.model.base import Json
from windlass.model.companions import Companion
from windlass.render import documents, prerequisites
from windlass.render.companions import passwords

PAGE = (Path(__file__).parents[2] / "docs" / "companions.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ALL = b"""
name: digits
image: x
command: python train.py
volumes: {output: {pvc: results, at: /output}}
tensorboard: {}
jupyter: {}
hub: {}
roles: {worker: {}}
"""


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_a_valid_job_file(example: str) -> None:
    found = documents.read(example.encode(), "companions.md")
    assert found.diagnostics == ()
    assert found.submissions


@pytest.mark.parametrize("companion", Companion)
def test_every_companion_has_an_example(companion: Companion) -> None:
    assert any(f"\n{companion}: " in example or f"\n{companion}:\n" in example for example in EXAMPLES)


def test_hub_passwords_on_the_page_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    typed = {"ana: ": "one", "ben: ": ' "two" '}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(getpass, "getpass", typed.__getitem__)
    exec(compile(script, "companions.md", "exec"), {})  # noqa: S102
    hashes = json.loads((tmp_path / "passwords.json").read_text())
    assert {user: passwords.verify_hub(hashed, typed[f"{user}: "]) for user, hashed in hashes.items()} == {
        "ana": True,
        "ben": True,
    }


# Rendered objects


def objects(kind: str) -> dict[str, Json]:
    """Return the objects by companion."""
    (submission,) = documents.read(ALL, "all.yaml").submissions
    assert submission.job is not None
    rendered = (piece.body for piece in prerequisites.objects_of(submission.job))
    label = "windlass.dev/companion"
    return {body["metadata"]["labels"][label]: body for body in rendered if body["kind"] == kind}


def row(section: str, beginning: str) -> str:
    """Return the rows of the table in that section."""
    _, _, text = PAGE.partition(f"\n## {section}\n")
    return next(line for line in text.splitlines() if line.startswith(f"| {beginning} |"))


TITLES = {Companion.TENSORBOARD: "TensorBoard", Companion.JUPYTER: "JupyterLab", Companion.HUB: "JupyterHub"}


@pytest.mark.parametrize(("companion", "title"), TITLES.items(), ids=TITLES)
def test_service_names_are_as_rendered(companion: Companion, title: str) -> None:
    service, told = objects("Service")[companion], row("Services and URLs", title)
    name, (port,) = service["metadata"]["name"], service["spec"]["ports"]
    assert f"`{name.replace('digits', '{job}')}`" in told
    assert told.endswith(f"| {port['port']} |")


WHO = {Companion.JUPYTER: "the server of `jupyter`", Companion.HUB: "the hub"}


@pytest.mark.parametrize(("companion", "who"), WHO.items(), ids=WHO)
def test_every_permission_is_documented(companion: Companion, who: str) -> None:
    told = row("For platform engineers", who)
    rules: list[Any] = objects("Role")[companion]["rules"]
    for rule in rules:
        assert ", ".join(rule["verbs"]) in told
        named = "its own Deployment" if "resourceNames" in rule else None
        for resource in rule["resources"]:
            assert (named or f"`{resource}`") in told
