"""`windlass render`: golden files of complete outputs, options, and rejected files.

For every `NAME.job.yaml` and `NAME.config.yaml` in tests/data/rendered there are `NAME.framework.yaml` and
`NAME.plain.yaml`. `WINDLASS_REGENERATE=1` rewrites them. Read the difference before you commit it.
"""

import base64
import io
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.main import main

RENDERED = Path(__file__).parents[2] / "data" / "rendered"
INPUTS = sorted((*RENDERED.glob("*.job.yaml"), *RENDERED.glob("*.config.yaml")))
TARGETS = ("framework", "plain")
JOB: dict[str, Any] = {"name": "digits", "image": "i:1", "command": "true", "roles": {"worker": {"tasks": 2}}}
FRAMEWORK = {
    "apiVersion": "launcher.microsoft.com/v1",
    "kind": "Framework",
    "metadata": {"name": "old"},
    "spec": {
        "executionType": "Start",
        "taskRoles": [
            {
                "name": "worker",
                "taskNumber": 1,
                "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
                "task": {
                    "pod": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i:1"}]}}
                },
            }
        ],
    },
}


def render(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["render", *map(str, words)], input=stdin)


def written(folder: Path, *bodies: Any, **fields: Any) -> Path:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all(bodies or [{**JOB, **fields}], sort_keys=False))
    return file


def objects(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def kinds(result: Result) -> list[str]:
    return [f"{body['kind']} {body['metadata']['name']}" for body in objects(result)]


@pytest.mark.usefixtures("production_cost")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", INPUTS, ids=lambda file: file.name)
def test_output_matches_the_golden_file(file: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)
    monkeypatch.setattr("secrets.token_urlsafe", "a".__mul__)
    result = render(file, "--target", target)
    assert result.exit_code == 0, result.output
    name = file.name.removesuffix(".yaml").removesuffix(".job").removesuffix(".config")
    golden = RENDERED / f"{name}.{target}.yaml"
    if os.environ.get("WINDLASS_REGENERATE"):
        golden.write_text(result.stdout, encoding="utf-8")
    assert result.stdout == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_an_input() -> None:
    names = {file.name.removesuffix(".yaml").rpartition(".")[0] for file in INPUTS}
    golden = {file.name for target in TARGETS for file in RENDERED.glob(f"*.{target}.yaml")}
    assert golden == {f"{name}.{target}.yaml" for name in names for target in TARGETS}


def test_unusual_values_are_rendered_unchanged() -> None:
    given = yaml.safe_load((RENDERED / "odd-values.job.yaml").read_text())
    for target in TARGETS:
        bodies = objects(render(RENDERED / "odd-values.job.yaml", "--target", target))
        (pod,) = (
            body["spec"]["template"] if target == "plain" else body["spec"]["taskRoles"][0]["task"]["pod"]
            for body in bodies
            if body["kind"] in ("Job", "Framework")
        )
        found = {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"]}
        assert given["env"].items() <= found.items()
        assert bodies[-1]["metadata"]["name"] in ("yes", "yes-null")


# Input and output


def test_file_is_an_argument_an_option_or_standard_input(tmp_path: Path) -> None:
    file = written(tmp_path)
    first = render(file)
    assert kinds(first) == ["Framework digits"]
    assert render("--config", file).stdout == first.stdout
    assert render("-", stdin=file.read_text()).stdout == first.stdout


def test_out_is_written_atomically(tmp_path: Path) -> None:
    file, out = written(tmp_path), tmp_path / "rendered.yaml"
    for _ in range(2):
        result = render("--config", file, "--out", out)
        assert (result.exit_code, result.stdout) == (0, "")
        assert out.read_text() == render(file).stdout


def test_nothing_is_written_after_an_error(tmp_path: Path) -> None:
    out = tmp_path / "rendered.yaml"
    out.write_text("before")
    result = render(written(tmp_path, name="a" * 60), "--target", "plain", "--out", out)
    assert result.exit_code == 2
    assert out.read_text() == "before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["job.yaml", "rendered.yaml"]


# Objects


def test_objects_of_the_file_come_first(tmp_path: Path) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    file = written(tmp_path, JOB, FRAMEWORK, settings)
    assert kinds(render(file)) == ["ConfigMap settings", "Framework digits", "Framework old"]
    assert objects(render(file))[2] == FRAMEWORK


def test_only_selected_parts_are_printed(tmp_path: Path) -> None:
    file = written(tmp_path)
    plain = (file, "--target", "plain")
    assert kinds(render(*plain, "--only", "roles")) == ["Job digits-worker"]
    assert kinds(render(*plain, "--only", "roles", "--only", "cluster")) == [
        "ConfigMap digits-cluster",
        "Job digits-worker",
    ]
    result = render(*plain, "--only", "nfs")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--only nfs: the file has no such part. Parts: cluster, services, roles" in result.stderr


def test_preflight_pod_is_printed_only_on_request(tmp_path: Path) -> None:
    volumes = {"data": {"nfs": {"server": "s", "path": "/p"}, "at": "/data"}}
    file = written(tmp_path, volumes=volumes, needs=["/data/x"])
    for target in TARGETS:
        assert "Pod digits-preflight" not in kinds(render(file, "--target", target))
        assert kinds(render(file, "--target", target, "--only", "preflight")) == ["Pod digits-preflight"]


def test_namespace_option_applies_to_objects_without_one(tmp_path: Path) -> None:
    for target in TARGETS:
        bodies = objects(render(written(tmp_path), "-n", "training", "--target", target))
        assert {body["metadata"]["namespace"] for body in bodies} == {"training"}
    assert "digits-worker-0.training.svc.cluster.local" in str(bodies)
    (framework,) = objects(render(written(tmp_path, FRAMEWORK), "-n", "training"))
    assert framework["metadata"] == {"name": "old", "namespace": "training"}


MPI = {"runtime": "mpi", "roles": {"launcher": {}, "worker": {"tasks": 2, "slots": 3}}}


@pytest.mark.parametrize("target", TARGETS)
def test_each_rendering_of_an_mpi_job_has_a_new_key_and_says_so(tmp_path: Path, target: str) -> None:
    file = written(tmp_path, **MPI)
    results = [render(file, "--target", target) for _ in range(2)]
    (first, *others), (second, *others_again) = map(objects, results)
    assert others == others_again, "all other objects are the same"
    assert first["metadata"]["name"] == second["metadata"]["name"] == "digits-ssh"
    assert first["data"]["id_ed25519"] != second["data"]["id_ed25519"]
    assert (
        "generated for this submission or rendering"
        in first["metadata"]["annotations"]["kubernetes.io/description"]
    )
    assert "Secret digits-ssh contains the private key" in results[0].stderr
    assert "PRIVATE KEY" not in results[0].stderr


def test_rendering_without_the_key_is_deterministic(tmp_path: Path) -> None:
    result = render(written(tmp_path, **MPI), "--only", "framework")
    assert (kinds(result), result.stderr) == (["Framework digits"], "")
    (framework,) = objects(result)
    worker = framework["spec"]["taskRoles"][1]["task"]["pod"]
    assert worker["metadata"]["annotations"] == {"windlass.dev/slots": "3"}


@pytest.mark.parametrize("target", TARGETS)
def test_code_is_rendered_as_a_config_map(tmp_path: Path, target: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    bodies = objects(render(written(tmp_path, code="src"), "--target", target))
    (config_map,) = (body for body in bodies if body["metadata"]["name"] == "digits-code")
    packed = base64.b64decode(config_map["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["train.py"]
    assert "digits-code" in str(bodies[-1])


def test_load_data_folders_are_rendered(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1\n")
    volumes = {"data": {"pvc": "files", "at": "/data"}}
    file = written(tmp_path, volumes=volumes, loadData=[{"folder": "data", "to": "/data"}])
    for target in TARGETS:
        found = kinds(render(file, "--target", target, "--only", "load-data"))
        assert found == ["ConfigMap digits-load-data-0", "Job digits-load-data"]
    missing = written(tmp_path, volumes=volumes, loadData=[{"folder": "nowhere", "to": "/data"}])
    result = render(missing)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "loadData[0].folder: " in result.stderr
    assert "nowhere does not exist" in result.stderr


def test_nfs_server_address_is_used(tmp_path: Path) -> None:
    file = written(tmp_path, nfsServer={}, volumes={"data": {"share": "/data", "at": "/data"}})
    for target in TARGETS:
        result = render(file, "--target", target)
        assert "digits-nfs.default.svc.cluster.local" in str(objects(result)[-1])
        assert "warning: the address of the NFS server of the job digits is the name" in result.stderr
        result = render(file, "--target", target, "--nfs-server", "10.96.0.12")
        assert "'server': '10.96.0.12'" in str(objects(result)[-1])
        assert "digits-nfs.default" not in result.stdout
        assert result.stderr == ""
    server = render(file, "--only", "nfs")
    assert server.stderr == "", "no object mounts the server"


# Companions

VOLUMES = {"output": {"pvc": "o", "at": "/output"}}


@pytest.mark.parametrize("target", TARGETS)
def test_companions_are_equal_for_all_targets(tmp_path: Path, target: str) -> None:
    file = written(tmp_path, volumes=VOLUMES, tensorboard={}, jupyter={}, hub={"users": ["ana", "ben"]})
    result = render(file, "--target", target)
    found = kinds(result)
    for each in ("Deployment digits-tensorboard", "Service tensorboard", "Deployment digits-jupyter"):
        assert each in found
    shown = re.findall(r"generated password of (.*) of the job digits \(shown once\): (\S+)", result.stderr)
    assert [whose for whose, _ in shown] == ["jupyter", "ana at hub", "ben at hub"]
    assert not [password for _, password in shown if password in result.stdout]
    only = render(file, "--target", target, "--only", "tensorboard")
    assert kinds(only) == ["Deployment digits-tensorboard", "Service tensorboard"]
    assert only.stderr == ""


def test_own_password_is_read_only_if_it_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, volumes=VOLUMES, tensorboard={}, jupyter={"passwordFrom": {"env": "MINE"}})
    monkeypatch.delenv("MINE", raising=False)
    result = render(file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "jupyter.passwordFrom: the variable MINE is not set" in result.stderr
    assert render(file, "--only", "framework").exit_code == 0
    monkeypatch.setenv("MINE", "hush hush")
    result = render(file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "hush" not in result.stdout


# Rejections

PORTS = {"ps": {"tasks": 1}, "worker": {"tasks": 1}}
ON_THE_NODE = {"runtime": "tensorflow", "roles": PORTS, "pod": {"spec": {"hostNetwork": True}}}
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "no image": ({"image": ""}, (), "the job digits has no image"),
    "no image, plain": ({"image": ""}, ("--target", "plain"), "the job digits has no image"),
    "a long name, plain": (
        {"name": "a" * 60},
        ("--target", "plain"),
        "has 69 characters, but the limit is 63",
    ),
    "duplicate port": (ON_THE_NODE, (), "the roles ps and worker both use port 2222"),
    "duplicate port, plain": (
        ON_THE_NODE,
        ("--target", "plain"),
        "the roles ps and worker both use port 2222",
    ),
    "another namespace": ({"namespace": "a"}, ("-n", "b"), "has the namespace a, and --namespace is b"),
    "no code": ({"code": "nowhere"}, (), "nowhere does not exist"),
    "no such namespace": ({}, ("-n", "A B"), "expected lower-case letters"),
    "no address": ({}, ("--nfs-server", "a b"), "expected an address, e.g. 10.96.0.12"),
    "an unknown part": ({}, ("--only", "pods"), "'pods' is not one of"),
    "a faulty job": ({"nmae": "x"}, (), "nmae"),
    "a NUL": ({"env": {"A": "a\0b"}}, (), "job.yaml: a value in Framework digits contains a NUL"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_jobs_and_options_are_rejected(case: str, tmp_path: Path) -> None:
    fields, words, message = REFUSED[case]
    result = render(written(tmp_path, **fields), *words)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_framework_is_rejected_for_target_plain(tmp_path: Path) -> None:
    result = render(written(tmp_path, FRAMEWORK), "--target", "plain")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "old is a Framework, which needs a controller" in result.stderr


def test_two_objects_of_the_same_name_are_rejected(tmp_path: Path) -> None:
    """The names of the two jobs differ, but the names of their objects are equal."""
    other = {**JOB, "name": "digits-worker-0"}
    file = written(tmp_path, JOB, other)
    assert kinds(render(file)) == ["Framework digits", "Framework digits-worker-0"]
    result = render(file, "--target", "plain")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "two objects have the same name: Service digits-worker-0." in result.stderr


def test_wrong_files_are_rejected(tmp_path: Path) -> None:
    file = written(tmp_path)
    for words, message in (
        ((), "Missing argument 'FILE'"),
        ((file, "--config", file), "FILE is given twice"),
        ((file, "--out", file), "--out is the input file"),
        ((tmp_path / "nowhere.yaml",), "cannot be read"),
    ):
        result = render(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    result = render(file, "--out", tmp_path / "no" / "where.yaml")
    assert result.exit_code == 1
    assert "--out: " in result.stderr


def test_omitted_parts_are_reported(tmp_path: Path) -> None:
    file = written(tmp_path, barrier=True)
    assert render(file).stderr == ""
    result = render(file, "--target", "plain")
    assert result.exit_code == 0
    assert f"{file}: warning: the job digits has a barrier" in result.stderr


def test_persistent_volume_is_bound_to_one_namespace(tmp_path: Path) -> None:
    file = written(
        tmp_path, volumes={"d": {"at": "/d", "cephfs": {"clusterID": "a", "fsName": "b", "secret": "c"}}}
    )
    assert (
        "has no namespace, so its PersistentVolumes are for claims in the namespace default"
        in render(file).stderr
    )
    assert render(file, "-n", "other").stderr == ""


def test_hyphen_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path)
    assert render(file, "--out", "-").stdout == render(file).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]
