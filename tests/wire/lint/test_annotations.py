"""Diagnostics of annotations and of the ports that they require."""

from typing import Final

import pytest

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Severity
from windlass.wire.lint import framework
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

HEAD: Final = "apiVersion: frameworkcontroller.microsoft.com/v1\nkind: Framework\n"


def diagnostics_of(
    annotations: str = "", name: str = "job", role: str = "worker", pod: str = ""
) -> list[tuple[Severity, str, str]]:
    """Return severity, path and message of each diagnostic."""
    text = (
        f"{HEAD}metadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
        f"spec:\n  taskRoles:\n  - name: {role}\n    taskNumber: 1\n"
        f"    task: {{pod: {{spec: {{restartPolicy: Never, {pod}}}}}}}\n"
    )
    [document] = yaml_parse.parse(text.encode()).documents
    assert isinstance(document.root, tree.Mapping)
    checked = diagnostics.collect(framework.check(document.root), "job.yaml")
    return [(diagnostic.severity, diagnostic.path, diagnostic.message) for diagnostic in checked]


ENTRYPOINT: Final = "containers: [{name: a, image: b, ports: [{containerPort: 2222}]}]"
ONE_PORT: Final = "containers: [{name: a, image: b, command: [c], ports: [{containerPort: 2222}]}]"
NO_PORT: Final = "containers: [{name: a, image: b, command: [c]}]"
SAME_PORT: Final = (
    "containers: [{name: a, image: b, ports: [{containerPort: 5000}]}, "
    "{name: c, image: b, ports: [{containerPort: 5000}]}]"
)
TWO_PROTOCOLS: Final = (
    "containers: [{name: a, image: b, ports: [{containerPort: 5000}, {containerPort: 5000, protocol: UDP}]}]"
)
RUNTIME: Final = "windlass.dev/runtime: tensorflow"
IDLE: Final = f"{RUNTIME}, windlass.dev/idle"


@pytest.mark.parametrize(
    "fields",
    [
        {"pod": NO_PORT},
        {"annotations": RUNTIME, "pod": ONE_PORT},
        {"annotations": 'windlass.dev/barrier: "true"', "pod": ONE_PORT},
        {"annotations": "windlass.dev/barrier: own", "pod": ONE_PORT},
        {"annotations": "windlass.dev/runtime: mpi", "pod": NO_PORT},
        {"annotations": "windlass.dev/runtime: plain", "pod": NO_PORT},
        {"annotations": "windlass.dev/runtime: jax", "role": "0worker", "pod": ONE_PORT},
        {"name": "1job", "pod": NO_PORT},
        {"pod": SAME_PORT},
        {"pod": f"hostNetwork: true, {TWO_PROTOCOLS}"},
        {"annotations": "example.com/runtime: anything", "pod": NO_PORT},
        {"annotations": f'{IDLE}: "true"', "pod": ENTRYPOINT},
        {"annotations": f'{IDLE}: "true"', "pod": ONE_PORT},
        {"annotations": f'{IDLE}: "false"', "pod": ENTRYPOINT},
        {"annotations": f"{IDLE}: worker", "pod": ENTRYPOINT},
        {"annotations": RUNTIME, "role": "jupyter", "pod": ENTRYPOINT},
        {"annotations": "windlass.dev/runtime: jax", "pod": ENTRYPOINT},
    ],
)
def test_valid_annotations_have_no_diagnostics(fields: dict[str, str]) -> None:
    assert diagnostics_of(**fields) == []


@pytest.mark.parametrize(
    ("fields", "severity", "path", "words"),
    [
        (
            {"annotations": "windlass.dev/runtime: tensorflw", "pod": ONE_PORT},
            Severity.ERROR,
            'metadata.annotations["windlass.dev/runtime"]',
            'found "tensorflw". Did you mean "tensorflow"?',
        ),
        (
            {"annotations": 'windlass.dev/barrier: "yes"', "pod": ONE_PORT},
            Severity.ERROR,
            'metadata.annotations["windlass.dev/barrier"]',
            'found "yes". Known names: false, true, own.',
        ),
        (
            {
                "annotations": 'windlass.dev/runtime: pytorch, windlass.dev/elastic: "worker=4:1"',
                "pod": ONE_PORT,
            },
            Severity.ERROR,
            'metadata.annotations["windlass.dev/elastic"]',
            'found "worker=4:1", expected ROLE=MIN:MAX',
        ),
        (
            {"annotations": RUNTIME, "name": "1job", "pod": ONE_PORT},
            Severity.ERROR,
            "metadata.name",
            "may not start with a digit",
        ),
        (
            {"annotations": RUNTIME, "role": "0worker", "pod": ONE_PORT},
            Severity.ERROR,
            "spec.taskRoles[0].name",
            "0WORKER_HOSTS",
        ),
        ({"annotations": RUNTIME, "pod": NO_PORT}, Severity.WARNING, "spec.taskRoles[0]", "connect to 2222"),
        (
            {"annotations": 'windlass.dev/barrier: "true"', "pod": NO_PORT},
            Severity.WARNING,
            "spec.taskRoles[0]",
            "connect to 2222",
        ),
        (
            {"annotations": f"{IDLE}: wrker", "pod": ENTRYPOINT},
            Severity.ERROR,
            'metadata.annotations["windlass.dev/idle"]',
            'found "wrker". Did you mean "worker"?',
        ),
        (
            {"annotations": 'windlass.dev/runtime: jax, windlass.dev/idle: "true"', "pod": ENTRYPOINT},
            Severity.WARNING,
            'metadata.annotations["windlass.dev/idle"]',
            "idle servers need windlass.dev/runtime: tensorflow",
        ),
        (
            {"annotations": RUNTIME, "pod": ENTRYPOINT},
            Severity.WARNING,
            "spec.taskRoles[0]",
            "runs the entrypoint of its image. On an embedded cluster, this release",
        ),
        (
            {"annotations": f"{IDLE}: worker", "pod": ONE_PORT},
            Severity.WARNING,
            "spec.taskRoles[0]",
            "the container has a command, so it runs no idle TensorFlow server",
        ),
        (
            {"pod": f"hostNetwork: true, {SAME_PORT}"},
            Severity.ERROR,
            "spec.taskRoles[0].task.pod.spec.containers",
            "port 5000 is declared twice",
        ),
    ],
)
def test_invalid_annotation_is_reported(
    fields: dict[str, str], severity: Severity, path: str, words: str
) -> None:
    [(found_severity, found_path, message)] = diagnostics_of(**fields)
    assert (found_severity, found_path) == (severity, path)
    assert words in message
