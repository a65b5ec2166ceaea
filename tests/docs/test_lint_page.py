"""Every rule of `windlass lint` is on its page, with an example that breaks it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.cli.commands import lint
from windlass.wire.diagnostics import Rule

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text()
_, _, RULES = PAGE.partition("## The rules\n")
INTRODUCTION, *SECTIONS = re.split(r"^### `", RULES, flags=re.MULTILINE)
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITHOUT_AN_EXAMPLE = {Rule.MISSING_FILE, Rule.TOO_MANY_FAULTS, Rule.DOUBTFUL}


def example_of(section: str) -> str:
    (text,) = BLOCK.findall(section)
    return str(text)


GOOD = example_of(INTRODUCTION)
EXAMPLES = {
    section.partition("`")[0]: example_of(section)
    for section in SECTIONS
    if section.partition("`")[0] not in WITHOUT_AN_EXAMPLE
}


def merged(base: Any, change: Any) -> Any:
    """Merge a change into the good example; lists are merged by position."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}
    if isinstance(base, list) and isinstance(change, list) and all(isinstance(item, dict) for item in change):
        return [merged(base[at] if at < len(base) else None, item) for at, item in enumerate(change)]
    return change


def whole(example: str) -> str:
    """Return whether the example stands alone: it cannot be merged or is another object."""
    try:
        change = yaml.safe_load(example)
    except yaml.YAMLError:
        return example
    stands_for_itself = not isinstance(change, dict) or "kind" in change or example.count("  name:") > 1
    return example if stands_for_itself else yaml.safe_dump(merged(yaml.safe_load(GOOD), change))


def test_good_example_has_no_diagnostics() -> None:
    assert lint.diagnose(GOOD.encode(), "good.yaml") == ()


def test_every_rule_is_documented() -> None:
    assert {section.partition("`")[0] for section in SECTIONS} == {str(rule) for rule in Rule}


@pytest.mark.parametrize(("rule", "example"), EXAMPLES.items(), ids=EXAMPLES)
def test_example_breaks_the_rule(rule: str, example: str) -> None:
    found = lint.diagnose(whole(example).encode(), "example.yaml")

    assert rule in {fault.rule for fault in found}
