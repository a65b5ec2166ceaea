"""Decoding of job files and manifests, and their diagnostics."""

import textwrap

import msgspec
import pytest
import yaml

from windlass.model import names
from windlass.render import documents

JOB = "name: digits\ncode: ./src\ncommand: python train.py\nroles: {worker: {tasks: 2}}\n"
FRAMEWORK = textwrap.dedent(
    """\
    apiVersion: launcher.microsoft.com/v1
    kind: Framework
    metadata: {name: old, namespace: team}
    spec:
      taskRoles:
      - name: worker
        taskNumber: 1
        task: {pod: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}}
    """
)
INLINE = msgspec.json.encode(yaml.safe_load(FRAMEWORK)).decode()
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"


def read(*texts: str) -> documents.Contents:
    return documents.read("---\n".join(texts).encode(), "f.yaml")


def test_file_with_jobs_frameworks_and_other_objects() -> None:
    found = read(CONFIG_MAP, JOB, FRAMEWORK)

    assert found.diagnostics == ()
    assert [other["kind"] for other in found.extra_manifests] == ["ConfigMap"]
    job, framework = found.submissions
    assert (job.name, job.namespace, job.code, job.group) == ("digits", "", "./src", names.CONTROLLER_GROUP)
    assert (framework.name, framework.namespace, framework.code) == ("old", "team", "")
    assert framework.group == names.LAUNCHER_GROUP
    assert framework.framework is not None
    assert framework.framework["spec"]["taskRoles"][0]["taskNumber"] == 1
    assert job.framework is None


def test_other_object_of_a_removed_api_version_is_kept_with_a_warning() -> None:
    other = "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: web}\n"
    found = read(JOB, other)
    (diagnostic,) = found.diagnostics
    assert not diagnostic.is_error
    assert "have no Ingress in extensions/v1beta1. Use networking.k8s.io/v1." in diagnostic.message
    assert [body["apiVersion"] for body in found.extra_manifests] == ["extensions/v1beta1"]


def test_items_of_a_list_are_read() -> None:
    items = textwrap.indent(CONFIG_MAP, "  ").replace("  api", "- api", 1) + textwrap.indent(
        FRAMEWORK, "  "
    ).replace("  api", "- api", 1)
    found = read(f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert found.diagnostics == ()
    assert ([each.name for each in found.submissions], len(found.extra_manifests)) == (["old"], 1)


def test_template_paths_include_configs_in_lists() -> None:
    config = "imports: [{path: PATH.jinja}]\nresources: [{type: PATH}]\n"
    item = textwrap.indent(config, "  ").replace("  imports", "- imports", 1)
    text = config.replace("PATH", "a") + "---\nkind: List\nitems:\n" + item.replace("PATH", "b")
    assert documents.template_paths(text.encode()) == ("a.jinja", "b.jinja")


BAD: dict[str, tuple[str, int, str, str]] = {
    "an empty file": ("", 1, "", "the file has no job and no Framework"),
    "others only": (CONFIG_MAP, 1, "", "the file has no job and no Framework"),
    "no YAML": (JOB + "---\na: [\n", 6, "", "invalid YAML"),
    "a text": (f"{JOB}---\nhello\n", 6, "", "expected a job file, or an object"),
    "an object without a name": (
        f"{JOB}---\napiVersion: v1\nkind: Secret\n", 6, "metadata", 'missing required field "name"',
    ),
    "two jobs of one name": (f"{JOB}---\n{JOB}", 6, "name", "also the name of the job in line 1"),
    "a job and a Framework of one name": (
        f"{JOB}namespace: team\n---\n{FRAMEWORK.replace('old', 'digits')}", 9, "metadata.name",
        "also the name of the job in line 1",
    ),
    "in a list": (
        f"apiVersion: v1\nkind: List\nitems: [{INLINE}, {INLINE}]\n", 3, "items[1].metadata.name",
        "also the name of the job in line 3",
    ),
    "a misspelt field of a pod": (
        FRAMEWORK.replace("image", "imaeg"), 8, "spec.taskRoles[0].task.pod.spec.containers[0].imaeg", '"image"?',
    ),
    "a key twice": (f"{JOB}name: again\n", 5, "", "in line 1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "path", "words"), BAD.values(), ids=BAD.keys())
def test_error_names_line_and_path(text: str, line: int, path: str, words: str) -> None:
    found = read(text)
    assert [(diagnostic.line, diagnostic.path) for diagnostic in found.errors] == [(line, path)], found.errors
    assert words in found.errors[0].message
    assert (found.submissions, found.extra_manifests) == ((), ())
    assert found.errors[0].file == "f.yaml"


def test_same_name_in_two_namespaces_is_valid() -> None:
    found = read(JOB, f"{JOB}namespace: other\n")
    assert [each.namespace for each in found.submissions] == ["", "other"]


def test_number_of_diagnostics_is_limited() -> None:
    nonsense = "".join(f"rols{number}: {number}\n" for number in range(3000))
    found = read(f"{JOB}{nonsense}")
    assert "more than 1000 problems" in found.errors[-1].message
    assert len(found.diagnostics) == 1001


TWICE = {
    "unknown-namespace": ("", 0),
    "other-namespace": ("default", 0),
    "same-namespace": ("team", 1),
}


@pytest.mark.parametrize(("namespace", "faults"), TWICE.values(), ids=TWICE)
def test_duplicate_name_depends_on_default_namespace(namespace: str, faults: int) -> None:
    text = f"{JOB}---\n{JOB}namespace: team\n"
    assert len(documents.read(text.encode(), "f.yaml", namespace).diagnostics) == faults
