"""The published examples of the other systems convert, or are listed here with what is missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.convert.upstream import modules
from tests.convert.upstream.modules import Module

from windlass.convert import kinds
from windlass.render import documents
from windlass.render.framework import builder

ROWS: list[tuple[str, str]] = []
"""Files with their results, for the table."""

_VOLCANO = "volcano.sh/volcano@v1.15.0/example"
_FLUX = "kubeflow/trainer@v2.3.0/examples/flux"
NOT_CONVERTED: dict[str, str] = {
    # Their runtime is in another file, and Flux is not supported.
    f"{_FLUX}/flux-interactive.yaml": "flux-distributed is not in the file",
    f"{_FLUX}/lammps-train-gpus.yaml": "flux-distributed is not in the file",
    f"{_FLUX}/lammps-train-job.yaml": "flux-distributed is not in the file",
    # Volcano's webhook rejects these three too.
    f"{_VOLCANO}/invalid_jobs/duplicatedPolicyEvent-webhook-deny.yaml": "another policy has PodFailed already",
    f"{_VOLCANO}/invalid_jobs/duplicatedTaskName-webhook-deny.yaml": "greater than the number of pods",
    f"{_VOLCANO}/invalid_jobs/minAvailable-webhook-deny.yaml": "greater than the number of pods",
    f"{_VOLCANO}/kubecon-2019-china/task-priority/elastic-job.yaml": 'unknown field "priorityClass" of PodSpec',
}
"""A part of the message for each file that is refused, by module and path."""


def examples(module: Module) -> Iterator[Path]:
    folder = module.folder()
    supported = {(kind.api_version, kind.kind) for kind in kinds.kinds()}
    for file in sorted((folder / module.examples).rglob("*.y*ml")):
        found = {(each.get("apiVersion"), each.get("kind")) for each in modules.documents_of(file)}
        if found & supported:
            yield file


@pytest.mark.parametrize(
    "module", [each for each in modules.MODULES if each.examples], ids=lambda each: each.id
)
def test_examples_convert(module: Module) -> None:
    found = list(examples(module))
    assert found, "the module has no examples"
    unexpected = {}
    for file in found:
        name = f"{module.id}/{file.relative_to(module.folder())}"
        contents = documents.read(file.read_bytes(), file.name)
        errors = [diagnostic.message for diagnostic in contents.errors]
        for submission in contents.submissions:
            assert submission.job is None or builder.framework(submission.job)["spec"]["taskRoles"]
        ROWS.append((name, f"missing: {errors[0]}" if errors else _kinds(contents)))
        expected = NOT_CONVERTED.get(name)
        if bool(errors) != (expected is not None) or not any(
            expected or "" in each for each in errors or [""]
        ):
            unexpected[name] = errors
    assert unexpected == {}


def _kinds(contents: documents.Contents) -> str:
    return "converts: " + ", ".join(f"{each.kind} {each.document['name']}" for each in contents.conversions)
