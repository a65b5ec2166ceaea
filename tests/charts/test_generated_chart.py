"""The generated files of the chart and of the Kustomize base, and the values, without Helm."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import update_charts

TOP = Path(__file__).parents[2]
CHART = update_charts.CHART
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_templates_and_base_are_up_to_date() -> None:
    command = [sys.executable, "tools/update_charts.py", "--verify"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_templates_use_exactly_the_values_that_exist() -> None:
    text = "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    used = set(re.findall(r"\$\.Values\.([\w.]+)", text)) - {"image"}
    used |= {f"image.{name}" for name in ("repository", "tag", "digest")}  # by the helper
    settings = {name for name in used if name.startswith("configuration.")}
    assert used - settings == set(leaves(VALUES))


def leaves(values: dict[str, Any], parents: str = "") -> Iterator[str]:
    """Return the paths of the values. A map without named fields is one value."""
    for name, value in values.items():
        is_group = isinstance(value, dict) and name in {"image", "history", "ui", "monitoring"} | GROUPS
        if is_group:
            yield from leaves(value, f"{parents}{name}.")
        else:
            yield f"{parents}{name}"


GROUPS = {"podDisruptionBudget", "definitions", "networkPolicy"}


def test_schema_has_exactly_the_values() -> None:
    def named(schema: dict[str, Any], values: dict[str, Any], parents: str = "") -> Iterator[str]:
        for name, each in schema["properties"].items():
            if each and each.get("additionalProperties") is False:
                yield from named(each, values[name], f"{parents}{name}.")
            else:
                yield f"{parents}{name}"

    assert set(named(SCHEMA, VALUES)) - {"global"} == set(leaves(VALUES))


def test_every_value_is_explained() -> None:
    """By a comment above it or above its group; names say what resources, selectors and the like are."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    plain = {
        "repository",
        "enabled",
        "pullSecrets",
        "resources",
        "requests",
        "limits",
        "nodeSelector",
        "tolerations",
    }
    groups = {"image", "podDisruptionBudget", "definitions", "history", "ui", "networkPolicy"}
    keys = [
        (line.strip().partition(":")[0], above)
        for above, line in itertools.pairwise(lines)
        if re.match(r" {0,2}[a-zA-Z]+:", line)
    ]
    bare = {key for key, above in keys if not above.strip().startswith("#")}
    assert bare - plain - groups - {"podMonitor"} == set()


@pytest.mark.parametrize("text", ["a: {{ x }}", "null"])
def test_objects_that_could_not_be_templates_are_refused(text: str) -> None:
    """A list that is empty without an option would be null in YAML."""
    one = update_charts.Entry("x", text, ["$.Values.x"])
    with pytest.raises(ValueError, match="would be null"):
        update_charts._lines(update_charts.Branch(False, [one]), 0)
