"""Statement 54: the Frameworks of the launcher's manual load unchanged, and lint reports their mistakes."""

from pathlib import Path

import msgspec
import pytest

from windlass.wire import codec, diagnostics
from windlass.wire.diagnostics import Severity
from windlass.wire.lint import framework as lint_framework
from windlass.wire.yaml import dump as yaml_dump
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

FOLDER = Path(__file__).parents[1] / "data" / "launcher"

MISSPELT = 'unknown field "olumeMounts" of Container. Did you mean "volumeMounts"?'
OTHER_NAME = 'framework_name=tf-example does not match the name of this Framework, "tfexample"'
NOT_DECLARED = "port {} is not declared by any container of the Framework. Did you mean {}, which"
PS_PORT = NOT_DECLARED.format(46867, 49867)
WORKER_PORT = NOT_DECLARED.format(46866, 49866)

NEVER_ENDS = "those of this role never exit: a parameter server runs until it is stopped"

WORKER = "spec.taskRoles[0].task.pod.spec"
PS = "spec.taskRoles[1].task.pod.spec"
INIT = "initContainers[0].command[2]"

EXPECTED: dict[str, list[tuple[int, str, str]]] = {
    "simple-tensorflow.yaml": [
        (30, f"{WORKER}.containers[0].command[2]", OTHER_NAME),
        (32, "spec.taskRoles[1].name", NEVER_ENDS),
        (50, f"{PS}.containers[0].command[2]", OTHER_NAME),
    ],
    "init-container.yaml": [
        (32, f"{WORKER}.containers[0].olumeMounts", MISSPELT),
        (42, f"{WORKER}.{INIT}", PS_PORT),
        (42, f"{WORKER}.{INIT}", WORKER_PORT),
        (80, f"{PS}.{INIT}", PS_PORT),
        (80, f"{PS}.{INIT}", WORKER_PORT),
    ],
    "nfs-volume.yaml": [],
    "host-path-single-node.yaml": [],
    "host-path-node-affinity.yaml": [],
    "tensorflow-nfs.yaml": [
        (32, f"{WORKER}.containers[0].olumeMounts", MISSPELT),
        (44, f"{WORKER}.{INIT}", PS_PORT),
        (44, f"{WORKER}.{INIT}", WORKER_PORT),
        (86, f"{PS}.{INIT}", PS_PORT),
        (86, f"{PS}.{INIT}", WORKER_PORT),
    ],
}


def test_every_example_has_expected_warnings() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(EXPECTED)


def read(data: bytes) -> tree.Mapping:
    (document,) = yaml_parse.parse(data).documents
    assert isinstance(document.root, tree.Mapping)
    return document.root


@pytest.mark.parametrize("name", EXPECTED)
def test_example_loads_with_expected_warnings(name: str) -> None:
    root = read((FOLDER / name).read_bytes())
    found = diagnostics.collect(lint_framework.check(root, ""), name)

    framework = codec.decode_framework(msgspec.json.encode(tree.plain(root)))
    assert framework.group == "launcher.microsoft.com"
    assert {diagnostic.severity for diagnostic in found} <= {Severity.WARNING}
    assert [(diagnostic.line, diagnostic.path) for diagnostic in found] == [
        (line, path) for line, path, _ in EXPECTED[name]
    ]
    for diagnostic, (_, _, words) in zip(found, EXPECTED[name], strict=True):
        assert words in diagnostic.message


@pytest.mark.parametrize("name", EXPECTED)
def test_example_survives_a_yaml_round_trip(name: str) -> None:
    written = tree.plain(read((FOLDER / name).read_bytes()))

    assert tree.plain(read(yaml_dump.dump(written))) == written
