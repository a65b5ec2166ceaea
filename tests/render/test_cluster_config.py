"""Configs with imports and resources: objects for both targets, and imported templates."""

import json
import textwrap
from typing import Any

import kubernetes_schemas
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.discovery import environment
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.model.job import Job, Role
from windlass.render import documents
from windlass.render.companions import passwords
from windlass.render.documents import Contents
from windlass.render.framework import builder
from windlass.render.manifest_parts import Part
from windlass.render.plain import manifests

CONFIG = textwrap.dedent(
    """\
    imports: [{path: tensorflow-cluster.jinja}, {path: jupyter-service.jinja}]
    resources:
    - name: tf
      type: tensorflow-cluster
      properties:
        image: tensorflow/tensorflow:2.21.0
        namespace: research
        jobs: [{name: ps, num_tasks: 2, port: 2222}, {name: worker, num_tasks: 2}]
    - type: jupyter-service
      properties: {image: jupyter, namespace: research, password: secret}
    """
)
OWN = textwrap.dedent(
    """\
    imports: [{path: own.jinja}, {path: parts/labels.jinja}]
    resources:
    - name: mine
      type: own
      properties: {namespace: research, entries: {a: "yes", b: "{{ 7*7 }}"}}
    """
)
TEMPLATE = textwrap.dedent(
    """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: {{ name }}, namespace: {{ env.namespace }}}
    data: {{ entries | yaml }}
    """
)


def read(text: str, templates: dict[str, str] | None = None) -> Contents:
    return documents.read(text.encode(), "config.yaml", templates=templates)


def changed(old: str, new: str) -> str:
    assert CONFIG.count(old) == 1, old
    return CONFIG.replace(old, new)


def plain_objects(contents: Contents) -> dict[str, Json]:
    """Return the objects by kind and name."""
    bodies = [
        rendered.body
        for submission in contents.submissions
        if submission.job is not None
        for rendered in manifests.plain(submission.job, prefix=submission.plain_prefix)
    ]
    bodies += [rendered.body for rendered in contents.extra_objects(is_plain=True)]
    return {f"{body['kind']} {body['metadata']['name']}": body for body in bodies}


def cluster_variable(contents: Contents, *, is_plain: bool) -> Json | None:
    """Return the variable of the notebook with the cluster spec."""
    (pod,) = (
        rendered.body["spec"]["template"]["spec"]
        for rendered in contents.extra_objects(is_plain=is_plain)
        if rendered.body["kind"] == "Deployment"
    )
    found = [variable for variable in pod["containers"][0]["env"] if variable["name"] == "CLUSTER_CONFIG"]
    return found[0] if found else None


# Built-in types


def test_tensorflow_cluster_becomes_job_of_idle_servers() -> None:
    contents = read(CONFIG)
    (submission,) = contents.submissions
    assert contents.diagnostics == ()
    assert contents.has_config
    assert submission.job == Job(
        name="tf",
        namespace="research",
        runtime=Runtime.TENSORFLOW,
        image="tensorflow/tensorflow:2.21.0",
        idle=True,
        roles={"ps": Role(tasks=2, port=2222), "worker": Role(tasks=2, port=8080)},
    )


def test_plain_objects_are_named_after_tasks() -> None:
    found = plain_objects(read(CONFIG))
    assert list(found) == [
        "ConfigMap tf-cluster",
        "Service tf",
        "Service ps-0",
        "Service ps-1",
        "Service worker-0",
        "Service worker-1",
        "StatefulSet ps",
        "StatefulSet worker",
        "Secret jupyter-service",
        "ConfigMap jupyter-service",
        "Deployment jupyter-service",
        "Service jupyter-service",
    ]
    assert json.loads(found["ConfigMap tf-cluster"]["data"]["cluster.json"]) == {
        "ps": ["ps-0.research.svc.cluster.local:2222", "ps-1.research.svc.cluster.local:2222"],
        "worker": ["worker-0.research.svc.cluster.local:8080", "worker-1.research.svc.cluster.local:8080"],
    }
    for body in found.values():
        assert list(kubernetes_schemas.faults(body)) == []
        assert body["metadata"]["namespace"] == "research"


@pytest.mark.parametrize("name", ["ps", "worker", "master", "chief", "anything"])
def test_servers_become_stateful_sets(name: str) -> None:
    found = plain_objects(read(changed("name: ps", f"name: {name}" if name != "worker" else "name: ps")))
    assert not [each for each in found if each.startswith("Job ")]
    assert f"StatefulSet {name}" in found


def test_notebook_gets_addresses_from_config_map_of_cluster() -> None:
    assert cluster_variable(read(CONFIG), is_plain=True) == {
        "name": "CLUSTER_CONFIG",
        "valueFrom": {"configMapKeyRef": {"name": "tf-cluster", "key": "cluster.json"}},
    }


TOLD: dict[str, tuple[str, bool, str]] = {
    # config, plain?, the first worker
    "in another namespace": (
        changed("jupyter, namespace: research", "jupyter, namespace: a"), True,
        "worker-0.research.svc.cluster.local:8080",
    ),
    "of a Framework": (CONFIG, False, "worker-0.tf:8080"),
    "of a Framework in another namespace": (
        changed("jupyter, namespace: research", "jupyter, namespace: a"), False,
        "worker-0.tf.research.svc.cluster.local:8080",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "is_plain", "worker"), TOLD.values(), ids=TOLD)
def test_notebook_without_config_map_gets_addresses_as_value(text: str, is_plain: bool, worker: str) -> None:
    variable = cluster_variable(read(text), is_plain=is_plain)
    assert variable is not None
    assert json.loads(variable["value"])["worker"][0] == worker


def test_notebook_has_labels_of_a_companion() -> None:
    for is_plain in (True, False):
        labels = {"windlass.dev/job": "jupyter-service", "windlass.dev/companion": "jupyter"}
        bodies = [rendered.body for rendered in read(CONFIG).extra_objects(is_plain=is_plain)]
        assert all(body["metadata"]["labels"] == labels for body in bodies)
        assert bodies[-1]["spec"]["selector"] == labels


def hash_in(contents: Contents) -> str:
    secret = next(
        rendered.body
        for rendered in contents.extra_objects(is_plain=True)
        if rendered.body["kind"] == "Secret"
    )
    config = json.loads(secret["stringData"]["jupyter_server_config.json"])
    return str(config["PasswordIdentityProvider"]["hashed_password"])


@pytest.mark.parametrize("password", ["secret", " x ", '"x\\x07 y"'])
def test_notebook_password_may_have_any_character(password: str) -> None:
    contents = read(changed("password: secret", f"password: {msgspec.json.encode(password).decode()}"))
    assert contents.diagnostics == ()
    assert passwords.verify_jupyter(hash_in(contents), password)
    assert contents.generated_passwords == {}


@pytest.mark.parametrize("old", [", password: secret", "password: secret"])
def test_missing_password_is_generated_and_shown(old: str) -> None:
    contents = read(changed(old, "" if old[0] == "," else "password: null"))
    assert contents.diagnostics == ()
    assert passwords.verify_jupyter(hash_in(contents), contents.generated_passwords["jupyter-service"])


@pytest.mark.parametrize("password", ["", "  ", "\\n\\x07"])
def test_blank_password_is_rejected(password: str) -> None:
    (diagnostic,) = read(changed("password: secret", f'password: "{password}"')).errors
    assert (diagnostic.line, diagnostic.path) == (10, "resources[1].properties.password")
    assert "it is empty" in diagnostic.message


def test_notebook_without_cluster_has_no_addresses() -> None:
    contents = read("resources: [{type: jupyter-service, properties: {image: i, password: p}}]")
    assert contents.diagnostics == ()
    assert contents.submissions == ()
    assert [body["kind"] for body in contents.extra_manifests] == ["Secret", "Deployment", "Service"]
    assert cluster_variable(contents, is_plain=True) is None


def test_other_documents_of_config_file_are_kept() -> None:
    other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n"
    contents = read(f"{other}---\n{CONFIG}")
    assert contents.diagnostics == ()
    assert contents.extra_objects(is_plain=True)[0].part is Part.OTHERS
    kinds = [body["kind"] for body in contents.extra_manifests]
    assert kinds == ["Namespace", "Secret", "ConfigMap", "Deployment", "Service"]


def test_config_with_invalid_job_is_rejected() -> None:
    (diagnostic,) = read(
        changed("num_tasks: 2, port", "num_tasks: 9999, port").replace("num_tasks: 2}", "num_tasks: 9999}")
    ).errors
    assert (diagnostic.line, diagnostic.path) == (3, "resources[0]")
    assert "found 19998 tasks, expected at most 16000" in diagnostic.message


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z][a-z0-9]{0,30}", fullmatch=True), st.integers(0, 3), st.integers(1, 65535)),
        min_size=1,
        max_size=4,
        unique_by=lambda job: job[0],
    ),
    st.sampled_from(["", "default", "a-1"]),
)  # fmt: skip
def test_every_task_has_service_with_its_address(jobs: list[tuple[str, int, int]], namespace: str) -> None:
    properties: Json = {
        "jobs": [{"name": name, "num_tasks": tasks, "port": port} for name, tasks, port in jobs]
    }
    properties |= {"image": "i", "namespace": namespace} if namespace else {"image": "i"}
    config = {"resources": [{"name": "the-cluster", "type": "tensorflow-cluster", "properties": properties}]}
    contents = read(json.dumps(config))
    if contents.errors:
        assert not any(tasks for _, tasks, _ in jobs) or "no server" in contents.errors[0].message
        return
    found = plain_objects(contents)
    spec = json.loads(found["ConfigMap the-cluster-cluster"]["data"]["cluster.json"])
    listed = {address for addresses in spec.values() for address in addresses}
    domain = f".{namespace}.svc.cluster.local" if namespace else ""
    assert listed == {
        f"{name}-{index}{domain}:{port}" for name, tasks, port in jobs for index in range(tasks)
    }
    for address in listed:
        name, _, port = address.rpartition(":")
        assert found[f"Service {name.split('.')[0]}"]["spec"]["ports"] == [{"port": int(port)}]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["tensorflow-cluster", "own"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "path",
                    "name",
                    "type",
                    "properties",
                    "jobs",
                    "num_tasks",
                    "port",
                    "image",
                    "namespace",
                    "password",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(_JSON, _JSON)
def test_any_config_results_in_diagnostics_or_objects(imports: Any, resources: Any) -> None:
    contents = read(json.dumps({"imports": imports, "resources": resources}), {"own": TEMPLATE})
    for is_plain in (True, False):
        assert isinstance(contents.extra_objects(is_plain=is_plain), tuple)
    assert contents.errors or contents.configs


KEPT_NAMES = ["workers", "master", "pserver", "parameterserver"]


@pytest.mark.parametrize("name", KEPT_NAMES)
@pytest.mark.parametrize("is_plain", [True, False])
def test_job_names_keep_their_spelling(name: str, is_plain: bool) -> None:
    """In CLUSTER_CONFIG and TF_CONFIG of the tasks, and in the variable of a notebook in another namespace."""
    text = changed("jupyter, namespace: research", "jupyter, namespace: a").replace(
        "name: worker", f"name: {name}"
    )
    contents = read(text)
    variable = cluster_variable(contents, is_plain=is_plain)
    assert variable is not None
    assert list(json.loads(variable["value"])) == ["ps", name]
    (submission,) = contents.submissions
    assert submission.job is not None
    if is_plain:
        script = plain_objects(contents)["ConfigMap tf-cluster"]["data"][f"{name}.env"]
        assert f'"task":{{"type":"{name}"' in script
        assert f"JOB_NAME={name}\n" in script
        return
    framework = msgspec.convert(builder.framework(submission.job), Framework)
    variables = environment.variables_of(framework)(name, 1)
    assert list(json.loads(variables["CLUSTER_CONFIG"])) == ["ps", name]
    assert json.loads(variables["TF_CONFIG"])["task"] == {"type": name, "index": 1}


def test_usual_job_names_need_no_annotation() -> None:
    (submission,) = read(CONFIG).submissions
    assert submission.job is not None
    assert submission.job.annotations == {}


def test_missing_images_have_defaults() -> None:
    text = changed("image: tensorflow/tensorflow:2.21.0\n    ", "").replace("image: jupyter, ", "")
    images = {
        name: body["spec"]["template"]["spec"]["containers"][0]["image"]
        for name, body in plain_objects(read(text)).items()
        if "template" in body.get("spec", {})
    }
    assert images == {
        "StatefulSet ps": "tensorflow/tensorflow:2.21.0",
        "StatefulSet worker": "tensorflow/tensorflow:2.21.0",
        "Deployment jupyter-service": "quay.io/jupyter/tensorflow-notebook:2026-10-05",
    }


# Imported templates


def made(text: str, templates: dict[str, str]) -> list[Any]:
    contents = read(text, templates)
    assert contents.diagnostics == ()
    return list(contents.extra_manifests)


def test_imported_template_is_rendered() -> None:
    (body,) = made(OWN, {"own.jinja": TEMPLATE, "parts/labels.jinja": ""})
    assert body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mine", "namespace": "research"},
        "data": {"a": "yes", "b": "{{ 7*7 }}"},
    }


def test_imported_template_replaces_built_in_type() -> None:
    text = changed(
        "{path: jupyter-service.jinja}", "{path: jupyter-service.jinja}, {path: a, name: tensorflow-cluster}"
    )
    assert "imported" in read(text, {"a": TEMPLATE}).errors[0].message
    template = "apiVersion: v1\nkind: Own\nmetadata: {name: {{ properties['jobs'][0].name }}-{{ type }}}\n"
    contents = read(CONFIG, {"tensorflow-cluster.jinja": template})
    assert contents.diagnostics == ()
    assert contents.submissions == ()
    assert contents.extra_manifests[0]["metadata"]["name"] == "ps-tensorflow-cluster"


def test_template_may_have_any_properties() -> None:
    text = OWN.replace("entries: {", "name: other, type: t, env: e, properties: p, entries: {")
    (body,) = made(text, {"own.jinja": TEMPLATE, "parts/labels.jinja": ""})
    assert body["metadata"] == {"name": "mine", "namespace": "research"}


def test_template_may_render_lists_and_several_documents() -> None:
    item = "{apiVersion: v1, kind: A, metadata: {name: a{{ i }}}}"
    listed = f"apiVersion: v1\nkind: List\nitems: [{{% for i in range(2) %}}{item},{{% endfor %}}]\n"
    bodies = made(OWN, {"own.jinja": f"{TEMPLATE}---\n---\n{listed}", "parts/labels.jinja": ""})
    assert [body["metadata"]["name"] for body in bodies] == ["mine", "a0", "a1"]


def test_template_may_include_other_imported_templates() -> None:
    template = TEMPLATE.replace("{{ name }}", "{% include 'parts/labels.jinja' %}")
    (body,) = made(OWN, {"own.jinja": template, "parts/labels.jinja": "x-{{ name }}"})
    assert body["metadata"]["name"] == "x-mine"


def test_removed_api_versions_are_rendered_with_one_warning_each() -> None:
    item = "{apiVersion: %s, kind: %s, metadata: {name: {{ name }}-%s}}\n---\n"
    outputs = [("extensions/v1beta1", "Deployment", "a"), ("extensions/v1beta1", "Deployment", "b"),
               ("apps/v1", "Deployment", "c"), ("batch/v1beta1", "CronJob", "d")]  # fmt: skip
    contents = read(OWN, {"own.jinja": "".join(item % each for each in outputs), "parts/labels.jinja": ""})
    assert [body["apiVersion"] for body in contents.extra_manifests] == [version for version, _, _ in outputs]
    assert contents.errors == ()
    first, second = contents.diagnostics
    assert (first.file, first.line, first.path) == ("config.yaml", 4, "resources[0].type")
    assert first.message == (
        "the output of own.jinja: line 1: Kubernetes 1.16 and later have no Deployment in extensions/v1beta1. "
        "Use apps/v1, and set spec.selector, which it requires."
    )
    assert (
        "line 7: Kubernetes 1.25 and later have no CronJob in batch/v1beta1. Use batch/v1." in second.message
    )


def test_template_is_rendered_with_trimmed_blocks() -> None:
    template = TEMPLATE.replace(
        "data: {{ entries | yaml }}", "data:\n  text: |\n      {% if 1 %}\n    a\n      {% endif %}\n    b"
    )
    (body,) = made(OWN, {"own.jinja": template, "parts/labels.jinja": ""})
    assert body["data"]["text"] == "a\nb\n"


def test_template_may_be_used_twice_without_names() -> None:
    text = OWN.replace("name: mine\n  type", "type") + "- type: own\n  properties: {a: other}\n"
    template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ properties['a'] or 'first' }}}}"
    bodies = made(text, {"own.jinja": template, "parts/labels.jinja": ""})
    assert [body["metadata"]["name"] for body in bodies] == ["first", "other"]


BAD_TEMPLATES = {
    "an undefined variable": ("a: 1\n{{ entrys }}", 'own.jinja:2: the variable "entrys" is not defined. Did you mean'),
    "an undefined property": ("{{ properties.entrys }}", 'own.jinja:1: the value has no entry "entrys"'),
    "no Jinja": ("\n\n{% if %}", "own.jinja:3: invalid Jinja syntax"),
    "a template that is not imported": ("{% include 'x' %}", 'own.jinja:1: cannot find the template "x"'),
    "no end": ("{% for i in range(10**9) %}{% endfor %}", "own.jinja:1: the ranges of the template"),
    "nothing": ("\n", "own.jinja renders nothing"),
    "no YAML": ("a: 1\nb: [", "the output of own.jinja is invalid: line 2: invalid YAML"),
    "a text": ("hello", "line 1: found the string \"hello\", expected a Kubernetes object"),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}", "line 1: this object has no kind"),
    "no name": ("\napiVersion: v1\nkind: A", "line 2: this object has no metadata.name"),
    "a name that is a number": (
        "{apiVersion: v1, kind: A, metadata: {name: 1}}", "line 1: this object has no metadata.name"
    ),
    "a key twice": (f"{TEMPLATE}data: {{}}\n", 'line 5: duplicate key "data", already in line 4'),
}  # fmt: skip


@pytest.mark.parametrize(("template", "words"), BAD_TEMPLATES.values(), ids=BAD_TEMPLATES)
def test_template_error_is_reported_once(template: str, words: str) -> None:
    contents = read(OWN, {"own.jinja": template, "parts/labels.jinja": ""})
    (diagnostic,) = contents.diagnostics
    assert (diagnostic.file, diagnostic.line, diagnostic.path) == ("config.yaml", 4, "resources[0].type")
    assert words in diagnostic.message
    assert contents.extra_manifests == ()


def test_missing_template_is_reported() -> None:
    first, second = read(OWN).errors
    assert 'found no file "own.jinja" in the folder of the config' in first.message
    assert 'found no file "parts/labels.jinja"' in second.message
