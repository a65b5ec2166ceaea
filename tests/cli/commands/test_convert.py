"""`windlass convert`: output, summary and rejected input; and jobs of other systems in the commands for job files."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace

from windlass.cli.main import main

JAXJOB = """\
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: digits, resourceVersion: "7"}
spec:
  runPolicy: {schedulingPolicy: {queue: a}}
  jaxReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: jax, image: "i:1", command: [python, train.py], resources: {limits: {cpu: 1}}}
status: {conditions: []}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jaxjobs.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "names": {"kind": "JAXJob", "plural": "jaxjobs"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def windlass(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*map(str, words)], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "jaxjob.yaml"
    written.write_text(JAXJOB)
    return written


def test_job_file_follows_the_added_objects(file: Path) -> None:
    result = windlass("convert", file)

    assert result.exit_code == 0, result.output
    *services, job = yaml.safe_load_all(result.stdout)
    assert [each["metadata"]["name"] for each in services] == ["digits-worker-0", "digits-worker-1"]
    assert (job["name"], job["runtime"], job["roles"]["worker"]["tasks"]) == ("digits", "jax", 2)
    comment, retry = result.stdout.splitlines()[-9:], "# the original does not restart a failed job"
    assert retry in result.stdout.splitlines(), comment


def test_output_file_with_the_name_of_a_dash_is_standard_output(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert windlass("convert", file, "--out", "-").stdout == windlass("convert", file).stdout != ""
    assert not (tmp_path / "-").exists()


def test_output_is_a_valid_job_file(file: Path, tmp_path: Path) -> None:
    assert windlass("convert", file, "--out", tmp_path / "job.yaml").exit_code == 0

    assert windlass("lint", "--strict", tmp_path / "job.yaml").stdout == "1 file, 0 errors, 0 warnings\n"
    rendered = windlass("render", tmp_path / "job.yaml").stdout
    assert list(yaml.safe_load_all(rendered)) == list(yaml.safe_load_all(windlass("render", file).stdout))


def test_framework_is_that_of_render(file: Path) -> None:
    assert windlass("convert", "--to", "framework", file).stdout == windlass("render", file).stdout


def test_plain_objects_are_refused(file: Path) -> None:
    result = windlass("render", "--target", "plain", file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "was converted from JAXJob/digits, whose policies need the controller: use --target framework"
        in result.stderr
    )


def test_summary_names_mapped_fields_and_fields_without_effect(file: Path) -> None:
    warning, summary, *notes = windlass("convert", file).stderr.splitlines()

    assert warning.startswith(f"{file}:5:15: warning: spec.runPolicy.schedulingPolicy: no effect: kept in")
    assert summary == "JAXJob digits: 5 fields mapped, 1 without effect, 0 refused, added 2 Services"
    assert [each.split(":")[0].strip() for each in notes] == ["note", "no effect"]
    assert "metadata" not in "".join(notes), "fields that the API server sets are not listed"


def test_other_objects_come_along() -> None:
    result = windlass("convert", "-", stdin=f"{CONFIG_MAP}---\n{JAXJOB}")

    kinds = [each.get("kind", "job file") for each in yaml.safe_load_all(result.stdout)]
    assert kinds == ["ConfigMap", "Service", "Service", "job file"]


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        ({"queue: a": "queue: a, colour: red"}, 5, None),
        ({"replicas: 2": "replica: 2"}, 8, "spec.jaxReplicaSpecs.Worker.replica: unknown field"),
        ({"replicas: 2": "replicas: two"}, 8, "spec.jaxReplicaSpecs.Worker.replicas: expected an integer"),
        ({"template:": "template: 7 #"}, 9, "spec.jaxReplicaSpecs.Worker.template: expected a mapping"),
        (
            {"image:": "imag:"},
            12,
            "spec.jaxReplicaSpecs.Worker.template.spec.containers[0].imag: unknown field",
        ),
        ({"name: digits, ": "generateName: digits-, "}, 3, "metadata.generateName: a job needs a name"),
        ({"cpu: 1": "cpu: much"}, 12, "spec.jaxReplicaSpecs.Worker.template.spec.containers[0].resources"),
    ],
)
def test_diagnostics_refer_to_the_original(change: dict[str, str], line: int, message: str | None) -> None:
    text = JAXJOB
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    text = "\n".join(text.splitlines()[:9]) if "#" in text else text

    result = windlass("lint", "-", stdin=text)

    found = [each for each in result.stdout.splitlines() if each.startswith(f"<stdin>:{line}:")]
    assert found, result.stdout
    assert message is None or any(message in each and "error" in each for each in found)
    assert "Traceback" not in result.output


def test_file_without_a_job_of_another_system_is_rejected() -> None:
    job = "name: digits\nimage: i:1\ncommand: 'true'\nroles: {worker: {}}\n"
    result = windlass("convert", "-", stdin=job)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing to convert" in result.stderr


@pytest.mark.parametrize("words", [[], ["job.yaml", "--from-cluster", "tfjob/digits"]])
def test_file_and_cluster_are_mutually_exclusive(words: list[str]) -> None:
    assert windlass("convert", *words).exit_code == 2


def test_live_job_is_read_from_the_cluster(place: ClusterNamespace) -> None:
    place.client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    path = f"/apis/kubeflow.org/v1/namespaces/{place.name}/jaxjobs"
    body = yaml.safe_load(JAXJOB)
    del body["metadata"]["resourceVersion"]
    place.client.post(path, body).expect(201)

    result = CliRunner().invoke(main, ["convert", "--from-cluster", "jaxjob/digits", *place.options])
    missing = CliRunner().invoke(main, ["convert", "--from-cluster", "jaxjob/other", *place.options])
    unknown = CliRunner().invoke(main, ["convert", "--from-cluster", "cronjob/other", *place.options])

    *_, job = yaml.safe_load_all(result.stdout)
    assert (job["name"], job["namespace"]) == ("digits", place.name)
    assert f"has no JAXJob other in the namespace {place.name}" in missing.stderr
    assert "expected TYPE/NAME with one of these types" in unknown.stderr
    assert (missing.exit_code > 0, unknown.exit_code > 0) == (True, True)


def test_added_objects_are_created_with_the_job_and_deleted_with_it(
    place: ClusterNamespace, file: Path
) -> None:
    submitted = CliRunner().invoke(main, ["submit", *place.options, str(file)])
    assert submitted.exit_code == 0, submitted.output
    services = f"/api/v1/namespaces/{place.name}/services"
    created = {each["metadata"]["name"] for each in place.client.get(services).body["items"]}
    assert {"digits-worker-0", "digits-worker-1"} <= created

    deleted = CliRunner().invoke(main, ["delete", *place.options, "digits"])

    assert deleted.exit_code == 0, deleted.output
    left = {each["metadata"]["name"] for each in place.client.get(services).body["items"]}
    assert not {"digits-worker-0", "digits-worker-1"} & left


def test_plan_simulates_the_converted_job(file: Path) -> None:
    result = windlass("plan", file)

    assert result.exit_code == 0, result.output
    assert "2 pods created" in result.stdout
