"""The page about the job file: every field is documented and has an example, and every example is valid."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

import job_docs
from windlass.jobfile import schema
from windlass.model.job import Job
from windlass.render import documents

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "job-file.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_a_valid_job_file(example: str) -> None:
    found = documents.read(example.encode(), "job-file.md")
    # Each use of shared GPUs has a warning.
    assert [each for each in found.diagnostics if not each.path.endswith("gpus.shared")] == []
    assert found.submissions
    for document in yaml.safe_load_all(example):
        jsonschema.validate(document, msgspec.json.decode(schema.read_published()))


def test_every_field_is_documented_once() -> None:
    expected = [
        (name, field.encode_name)
        for name, struct in job_docs.STRUCTS.items()
        for field in msgspec.structs.fields(struct)
    ]
    assert sorted(job_docs.tables(PAGE)) == sorted(expected)


def test_every_field_has_an_example() -> None:
    jobs = [document for example in EXAMPLES for document in yaml.safe_load_all(example)]
    shown = {found for job in jobs for found in _fields(job, Job)}
    missing = [each for each in job_docs.tables(PAGE) if each not in shown]
    assert missing == []


def _fields(value: Any, struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """Return struct and field of everything in a job file."""
    for field in msgspec.structs.fields(struct):
        written = value.get(field.encode_name)
        if written is None:
            continue
        yield struct.__name__, field.encode_name
        called = re.findall(r"\w+", str(field.type))
        inner = next((each for name, each in job_docs.STRUCTS.items() if name in called), None)
        if inner is not None:
            for each in _each(written, str(field.type)):
                # `gpus` is a number or a mapping.
                yield from _fields(each, inner) if isinstance(each, dict) else ()


def _each(written: Any, kind: str) -> list[Any]:
    if kind.startswith("dict"):
        return list(written.values())
    return list(written) if kind.startswith("tuple") else [written]
