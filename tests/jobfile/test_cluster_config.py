"""Diagnostics and conversion of a config with imports and resources."""

import textwrap

import pytest

from windlass.jobfile import cluster_config
from windlass.model.cluster_config import ClusterConfig, Import, Resource, ResourceType
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

VALID = textwrap.dedent(
    """\
    imports:
    - path: tensorflow-cluster.jinja
    - path: jupyter-service.jinja
    - path: own.yaml.jinja
    resources:
    - name: tf
      type: tensorflow-cluster
      properties:
        image: tensorflow/tensorflow:2.21.0
        namespace: default
        jobs:
        - {name: ps, num_tasks: 2, port: 8080}
        - {name: worker, num_tasks: 2}
    - type: jupyter-service
      properties: {image: jupyter, password: "x y", port: 8888}
    - type: own
      properties: {anything: [1]}
    """
)
TEMPLATES = ("own.yaml.jinja",)
ONE_TASK = "{name: a, num_tasks: 1}"


def node_of(text: str) -> tree.Node:
    (document,) = yaml_parse.parse(text.encode()).documents
    return document.root


def diagnostics_of(text: str) -> list[Diagnostic]:
    return list(cluster_config.check(node_of(text), "", TEMPLATES))


def replaced(old: str, new: str) -> str:
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


def test_valid_config_has_no_diagnostics() -> None:
    assert diagnostics_of(VALID) == []


INVALID: dict[str, tuple[str, int, str, str]] = {
    # text, line, path, words of the message
    "an unknown field": (VALID + "outputs: []", 18, "outputs",
                         'unknown field "outputs". Known names: imports, resources.'),
    "no resources": ("imports: [{path: jupyter-service.jinja}]", 1, "resources", "no resources: add"),
    "an empty list": ("resources: []", 1, "resources", "no resources: add"),
    "resources of another shape": ("imports: []\nresources: {a: 1}", 2, "resources", "expected a list"),
    "an import without path": (
        replaced("path: tensorflow-cluster.jinja", "name: a"), 2, "imports[0]", 'missing required field "path"'
    ),
    "a path that climbs out": (
        replaced("path: jupyter-service.jinja", "path: a/../../b.jinja"), 3, "imports[1].path", "is outside the folder"
    ),
    "an absolute path": (
        replaced("path: jupyter-service.jinja", "path: /etc/b.jinja"), 3, "imports[1].path", "relative to the config"
    ),
    "a path of Windows": (
        replaced("path: jupyter-service.jinja", "path: 'C:\\b.jinja'"), 3, "imports[1].path", "relative to the config"
    ),
    "an empty path": (replaced("path: jupyter-service.jinja", "path: ''"), 3, "imports[1].path", "the name of a file"),
    "no such file": (
        replaced("path: jupyter-service.jinja", "path: jupiter-service.jinja"), 3, "imports[1].path",
        'in the folder of the config, and no built-in type "jupiter-service". Did you mean "jupyter-service"?',
    ),
    "imported twice": (
        replaced("path: jupyter-service.jinja", "path: tensorflow-cluster.jinja"), 3, "imports[1].path",
        "already imported in line 2"
    ),
    "no type": (replaced("- type: jupyter-service", "- name: a"), 14, "resources[1]", 'missing required field "type"'),
    "an unknown type": (
        replaced("type: jupyter-service\n", "type: notebook\n"), 14, "resources[1].type",
        'unknown resource type "notebook". Known types: tensorflow-cluster, jupyter-service, ',
    ),
    "a misspelt type": (
        replaced("type: tensorflow-cluster\n", "type: tensorflow-clusters\n"), 7, "resources[0].type",
        'unknown resource type "tensorflow-clusters". Did you mean "tensorflow-cluster"? Known types: ',
    ),
    "a name of capitals": (replaced("name: tf", "name: TF"), 6, "resources[0].name", "a DNS label"),
    "a name with a digit first": (
        replaced("name: tf", "name: 1tf"), 6, "resources[0].name", "starts with a letter"
    ),
    "two of one name": (
        replaced("- type: jupyter-service", "- name: tf\n  type: jupyter-service"), 14, "resources[1].name",
        'found "tf", which is also the name of the resource in line 6: give each resource its own name',
    ),
    "two without a name": (
        VALID + "- type: jupyter-service", 18, "resources[3].name",
        'found no name, and the default is "jupyter-service", which is also the name of the resource in line 14'
    ),
    "two templates of one name": (
        VALID + "- {type: own, name: tf}", 18, "resources[3].name",
        'found "tf", which is also the name of the resource in line 6'
    ),
    "properties of another shape": (
        replaced("{image: jupyter, password: \"x y\", port: 8888}", "5"), 15, "resources[1].properties", "a mapping"
    ),
    "a misspelt property": (
        replaced("image: tensorflow/", "imag: tensorflow/"), 9, "resources[0].properties.imag",
        'unknown field "imag". Did you mean "image"?'
    ),
    "an image with a space": (
        replaced("image: jupyter,", "image: my jupyter,"), 15, "resources[1].properties.image", "without spaces"
    ),
    "a namespace of capitals": (
        replaced("namespace: default", "namespace: Team"), 10, "resources[0].properties.namespace", "a DNS label"
    ),
    "a password that is a number": (
        replaced('"x y"', "1234"), 15, "resources[1].properties.password", "expected a string: put it in quotes"
    ),
    "a port beyond": (replaced("port: 8888", "port: 88888"), 15, "resources[1].properties.port", "from 1 to 65535"),
    "a type of Service": (
        replaced("port: 8888", "service_type: Ingress"), 15, "resources[1].properties.service_type",
        "one of LoadBalancer, NodePort, ClusterIP",
    ),
    "no jobs": (
        replaced("jobs:\n    - {name: ps, num_tasks: 2, port: 8080}\n    - {name: worker, num_tasks: 2}", "jobs: []"),
        11, "resources[0].properties.jobs", "no job has tasks",
    ),
    "no tasks": (
        replaced("num_tasks: 2, port: 8080}\n    - {name: worker, num_tasks: 2}", "num_tasks: 0}"),
        12, "resources[0].properties.jobs", "no job has tasks",
    ),
    "no number of tasks": (
        replaced("name: ps, num_tasks: 2", "name: ps"), 12, "resources[0].properties.jobs[0]",
        'missing required field "num_tasks"'
    ),
    "less than no tasks": (
        replaced("name: ps, num_tasks: 2", "name: ps, num_tasks: -1"), 12, "resources[0].properties.jobs[0].num_tasks",
        "from 0 to",
    ),
    "half a task": (
        replaced("name: ps, num_tasks: 2", "name: ps, num_tasks: 0.5"), 12, "resources[0].properties.jobs[0].num_tasks",
        "an integer",
    ),
    "a job with a hyphen": (
        replaced("name: ps,", "name: p-s,"), 12, "resources[0].properties.jobs[0].name", "without hyphens"
    ),
    "a job with a digit first": (
        replaced("name: ps,", "name: 1ps,"), 12, "resources[0].properties.jobs[0].name", "starts with a letter"
    ),
    "a job that is not a server": (
        replaced("name: ps,", "name: evaluator,"), 12, "resources[0].properties.jobs[0].name",
        "a name reserved for roles outside the TensorFlow cluster"
    ),
    "two jobs of one name": (
        replaced("name: worker,", "name: ps,"), 13, "resources[0].properties.jobs[1].name",
        "also the name of the job in line 12"
    ),
    "two jobs of one name in one line": (
        f"resources: [{{type: tensorflow-cluster, properties: {{jobs: [{ONE_TASK}, {ONE_TASK}]}}}}]", 1,
        "resources[0].properties.jobs[1].name", "the name of the job in line 1",
    ),
    "two clusters with jobs of one name": (
        replaced(
            "- type: own\n  properties: {anything: [1]}",
            "- type: tensorflow-cluster\n  properties: {namespace: default, jobs: [{name: ps, num_tasks: 1}]}",
        ),
        17, "resources[2].properties.jobs[0].name", "also the name of the job in line 12",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "path", "words"), INVALID.values(), ids=INVALID)
def test_one_mistake_is_one_error(text: str, line: int, path: str, words: str) -> None:
    (diagnostic,) = diagnostics_of(text)
    assert (diagnostic.line, diagnostic.path) == (line, path)
    assert words in diagnostic.message
    assert diagnostic.is_error


VALID_VARIANTS = {
    "a built-in type without import": f"resources: [{{type: tensorflow-cluster, properties: {{jobs: [{ONE_TASK}]}}}}]",
    "by its path": (
        "imports: [{path: tensorflow-cluster.jinja}]\n"
        "resources: [{type: tensorflow-cluster.jinja, properties: {jobs: [{name: a, num_tasks: 1}]}}]"
    ),
    "by a name of its own": (
        "imports: [{path: own.yaml.jinja, name: mine}]\nresources: [{type: mine}, {name: b, type: own.yaml.jinja}]"
    ),
    "two clusters in two namespaces": (
        f"resources: [{{name: a, type: tensorflow-cluster, properties: {{namespace: a, jobs: [{ONE_TASK}]}}}}, "
        f"{{name: b, type: tensorflow-cluster, properties: {{namespace: b, jobs: [{ONE_TASK}]}}}}]"
    ),
    "a job without tasks beside others": replaced("name: worker, num_tasks: 2", "name: worker, num_tasks: 0"),
    "two of a template without a name": VALID + "- type: own",
    "a notebook without image": replaced("image: jupyter, ", ""),
    "a cluster without image": replaced("image: tensorflow/tensorflow:2.21.0\n    ", ""),
    "nulls": replaced("namespace: default", "namespace: null"),
    "a password of several lines": replaced('"x y"', r'"x\ny"'),
    "no password": replaced('password: "x y", ', ""),
}  # fmt: skip


@pytest.mark.parametrize("text", VALID_VARIANTS.values(), ids=VALID_VARIANTS)
def test_valid_variant_has_no_diagnostics(text: str) -> None:
    assert diagnostics_of(text) == []


SHAPES = {
    "a config": (VALID, True),
    "imports alone": ("imports: []", True),
    "a list of resources": ("resources: []", True),
    "a job file with resources": ("name: a\nresources: {cpus: 2}\nroles: {a: {}}", False),
    "an object": ("apiVersion: v1\nkind: A\nimports: []", False),
    "a list": ("[]", False),
}


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES)
def test_is_config(text: str, expected: bool) -> None:
    assert cluster_config.is_config(node_of(text)) is expected


def test_config_is_converted() -> None:
    config = cluster_config.config_of(
        node_of(
            "imports: [{path: a/own.jinja}]\nresources: [{type: own, properties: {a: null}}, {type: b, name: null}]"
        )
    )
    assert config == ClusterConfig(
        imports=(Import(path="a/own.jinja"),),
        resources=(Resource(type="own", properties={"a": None}), Resource(type="b")),
    )


def test_import_paths_are_inside_the_folder_of_the_config() -> None:
    node = node_of("imports: [{path: a.jinja}, {path: ../b}, {path: /c}, {path: d/e.jinja}, {path: 5}, {}]")
    assert cluster_config.import_paths(node) == ("a.jinja", "d/e.jinja")


TEMPLATE_OF_TYPE = {
    "a file beside it": ("own", ("own.jinja",), "own.jinja"),
    "by its path": ("own.jinja", ("own.jinja",), "own.jinja"),
    "one's own cluster": ("tensorflow-cluster", ("tensorflow-cluster.jinja",), "tensorflow-cluster.jinja"),
    "built in": ("tensorflow-cluster", (), None),
    "built in, though another file is there": ("tensorflow-cluster", ("own.jinja",), None),
}


@pytest.mark.parametrize(
    ("resource_type", "templates", "expected"), TEMPLATE_OF_TYPE.values(), ids=TEMPLATE_OF_TYPE
)
def test_template_of_a_resource_type(
    resource_type: str, templates: tuple[str, ...], expected: str | None
) -> None:
    imports = (Import(path="own.jinja"), Import(path="tensorflow-cluster.jinja"))
    config = ClusterConfig(imports=imports)
    assert cluster_config.template_of(config, resource_type, templates) == expected


def test_built_in_type_has_its_own_name_and_the_names_of_its_imports() -> None:
    config = ClusterConfig(
        imports=(Import(path="x/jupyter-service.jinja"), Import(path="y", name="tensorflow-cluster"))
    )
    assert cluster_config.built_in(config, "x/jupyter-service.jinja") is ResourceType.JUPYTER_SERVICE
    assert cluster_config.built_in(config, "y") is ResourceType.TENSORFLOW_CLUSTER
    assert cluster_config.built_in(config, "jupyter-service") is ResourceType.JUPYTER_SERVICE
