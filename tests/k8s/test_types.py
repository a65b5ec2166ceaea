"""The types of built-in kinds match the published package and are complete."""

import subprocess
import sys
from importlib import resources
from pathlib import Path

from windlass.k8s import types as k8s_types

ROOT = Path(__file__).parents[2]


def test_types_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools/update_kubernetes_types.py"), "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_types_file_is_small() -> None:
    assert len(resources.files("windlass.k8s").joinpath("types.json").read_bytes()) <= 300 * 1024


def test_all_referenced_types_exist() -> None:
    types = k8s_types.types()
    scalars = {
        *("any", "boolean", "bytes", "date-time", "int-or-string", "integer", "number", "object", "quantity"),
        "string",
    }

    kinds = {kind.lstrip("[]{}") for one in types.values() for kind in one.fields.values()}

    assert kinds <= scalars | set(types)
    assert all(set(one.required) <= set(one.fields) for one in types.values())
