"""Write the CustomResourceDefinitions into charts/windlass/definitions.

    python tools/update_crds.py             write them
    python tools/update_crds.py --verify    fail if one is out of date

The descriptions are the docstrings of the model, read from its source.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import yaml

import docstrings  # next to this file
from windlass.model import completion, failures, framework, gang, history, names, states, status
from windlass.wire.crd import manifests

FOLDER = Path(__file__).parents[1] / "charts" / "windlass" / "definitions"
MODULES = (framework, failures, status, completion, states, gang, history)
HEADER = "# Made from the model by tools/update_crds.py. Do not edit.\n"


def documents() -> dict[Path, str]:
    """Return the content of each file."""
    prose = {entry: text for module in MODULES for entry, text in descriptions(module)}
    definitions = [
        *(manifests.framework_crd(group, prose) for group in names.GROUPS),
        manifests.gang_crd(prose),
        manifests.record_crd(prose),
    ]
    return {
        FOLDER / f"{definition['metadata']['name']}.yaml": HEADER
        + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=110)
        for definition in definitions
    }


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full, and multi-line text as blocks."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, text: str) -> yaml.Node:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _Dumper.represent_text)


def descriptions(module: ModuleType) -> Iterator[tuple[tuple[str, str], str]]:
    """Return the first paragraph of the docstring of each (class, field), with the values of enumerations."""
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields = {field: _first_paragraph(text) for field, text in docstrings.of_fields(node)}
        is_enumeration = any(isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases)
        own = [_first_paragraph(ast.get_docstring(node) or "")]
        if is_enumeration:
            values = {member.name: member.value for member in getattr(module, node.name)}
            own += [f"{values[field]}: {text}" for field, text in fields.items()]
            fields = {}
        yield (node.name, ""), "\n".join(filter(None, own))
        for field, text in fields.items():
            yield (node.name, field), text


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--verify", action="store_true", help="write nothing; exit 1 if a file is out of date"
    )
    verify = parser.parse_args().verify
    stale = [
        (path, text)
        for path, text in documents().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if verify:
            print(f"{path} is out of date; run: make docs", file=sys.stderr)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    if stale and verify:
        print("run: python tools/update_crds.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
