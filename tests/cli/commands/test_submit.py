"""`windlass submit`: its output, its exit codes, and dry runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main
from windlass.localcluster.apiserver.openapi import discovery

FAILS = {"metadata": {"annotations": jobs.fails(7)}}
FOREVER = {"metadata": {"annotations": jobs.FOREVER}}


def written(folder: Path, name: str = "digits", **fields: Any) -> str:
    body = {"name": name, "image": "x", "command": "true", "roles": {"worker": {"tasks": 2}}, **fields}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def submit(place: ClusterNamespace, *words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["submit", *words, *place.options], input=stdin)


def test_submit_prints_its_steps(place: ClusterNamespace, tmp_path: Path) -> None:
    result = submit(place, written(tmp_path), written(tmp_path, "other"))
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        f"digits submitted to namespace {place.name}\nother submitted to namespace {place.name}\n"
    )
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == ["cluster", "Follow it with"]


def warnings(result: Result) -> str:
    """Return standard error without the cluster and the suggested command."""
    lines = result.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("cluster: ", "Follow it with: ")))


def test_submit_warns_when_no_node_is_large_enough(place: ClusterNamespace, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "small", "labels": {"disk": "ssd"}},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
    }
    place.client.post("/api/v1/nodes", node).expect(201)
    try:
        large = submit(place, written(tmp_path, resources={"cpus": 64}, nodeSelector={"disk": "ssd"}))
        fitting = submit(place, written(tmp_path, "b", resources={"cpus": 2}, nodeSelector={"disk": "ssd"}))
        elsewhere = submit(place, written(tmp_path, "c", nodeSelector={"disk": "tape"}))
    finally:
        place.client.delete("/api/v1/nodes/small").expect(200)

    assert (large.exit_code, large.stdout) == (0, f"digits submitted to namespace {place.name}\n")
    assert warnings(large) == (
        "warning: digits: each task of worker needs 64 CPUs, the only node has 2. The job stays pending until such a "
        "node joins.\n"
    )
    assert warnings(fitting) == ""
    assert warnings(elsewhere).startswith("warning: c: worker requires a node with disk=tape, and none of ")


def test_same_job_in_two_files_is_rejected(place: ClusterNamespace, tmp_path: Path) -> None:
    """One file names the namespace, the other uses the same one by default. Neither job is submitted."""
    (tmp_path / "again").mkdir()
    result = submit(place, written(tmp_path), written(tmp_path / "again", namespace=place.name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"two jobs in the namespace {place.name} are called digits" in result.stderr
    assert place.client.get(place.framework_path()).expect(200).body["items"] == []


def test_file_is_read_from_standard_input(place: ClusterNamespace) -> None:
    result = submit(place, "-", stdin=json.dumps(jobs.framework("digits", jobs.role(life=jobs.SUCCEEDS))))
    assert result.exit_code == 0, result.output
    assert place.framework("digits")["metadata"]["name"] == "digits"


def test_output_name(place: ClusterNamespace, tmp_path: Path) -> None:
    result = submit(place, written(tmp_path), "-o", "name")
    assert result.stdout == "framework.frameworkcontroller.microsoft.com/digits\n"


def test_output_json(place: ClusterNamespace, tmp_path: Path) -> None:
    one = json.loads(submit(place, written(tmp_path), "-o", "json").stdout)
    assert (one["kind"], one["metadata"]["namespace"]) == ("Framework", place.name)
    two = submit(place, written(tmp_path, "a"), written(tmp_path, "b"), "-o", "json")
    assert [item["metadata"]["name"] for item in json.loads(two.stdout)["items"]] == ["a", "b"]


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not report to be an embedded one."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


def test_dry_run_prints_the_objects(place: ClusterNamespace, tmp_path: Path, kubernetes: None) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("print()")
    file = written(tmp_path, code="src")
    result = submit(place, file, "--dry-run")
    assert result.exit_code == 0, result.output
    framework, code = yaml.safe_load_all(result.stdout)
    assert framework["spec"]["executionType"] == "Create"
    assert code["metadata"]["name"] == "digits-code"
    assert "1 file" in code["binaryData"]["code.tar.gz"]
    whole = json.loads(submit(place, file, "--dry-run", "-o", "json").stdout)
    assert len(whole["items"][1]["binaryData"]["code.tar.gz"]) > 100
    assert place.client.get(place.framework_path("digits")).code == 404
    real = submit(place, file)
    assert real.exit_code == 0, real.output
    assert "digits: code: 1 file, " in real.stdout
    assert "compressed" in real.stdout


def test_dry_run_shows_secrets_of_the_file_by_size(place: ClusterNamespace, tmp_path: Path) -> None:
    secret = {"data": {"a": "cGFzcw==", "b": "not base64"}, "stringData": {"c": "word"}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, **secret}
    file = Path(written(tmp_path))
    file.write_text(f"{yaml.safe_dump(body)}---\n{file.read_text()}")
    result = submit(place, str(file), "--dry-run")
    assert result.exit_code == 0, result.output
    shown, _ = yaml.safe_load_all(result.stdout)
    assert shown["data"]["a"] == shown["stringData"]["c"] == "(4 bytes)"
    assert not any(value in result.stdout for value in ("cGFzcw", "not base64", "word"))


@pytest.mark.parametrize("output", ["text", "json"])
def test_dry_run_of_an_mpi_job_has_no_key(place: ClusterNamespace, tmp_path: Path, output: str) -> None:
    file = written(tmp_path, runtime="mpi", roles={"launcher": {}, "worker": {"tasks": 2}})
    result = submit(place, file, "--dry-run", "-o", output)
    assert result.exit_code == 0, result.output
    secret, framework = (
        yaml.safe_load_all(result.stdout) if output == "text" else json.loads(result.stdout)["items"]
    )
    assert (secret["metadata"]["name"], framework["kind"]) == ("digits-ssh", "Framework")
    assert set(secret["data"]) == {"launch", "session", "ssh", "sshd"}
    assert place.client.get(f"/api/v1/namespaces/{place.name}/secrets/digits-ssh").code == 404


def test_dry_run_reports_errors(place: ClusterNamespace, tmp_path: Path) -> None:
    submit(place, written(tmp_path, pod=FOREVER))
    result = submit(place, written(tmp_path), "--dry-run")
    assert result.exit_code == 1
    assert "already" in result.stderr


EXITS: dict[str, tuple[dict[str, Any], tuple[str, ...], int, str]] = {
    "success": ({}, (), 0, "digits succeeded in "),
    "an exit code": ({"pod": FAILS}, (), 7, "digits failed: "),
    "too late": ({"pod": FOREVER}, ("--timeout", "0.05s"), 124, "not completed after 0.05 s"),
}


@pytest.mark.parametrize("case", EXITS)
def test_wait_returns_the_exit_code(case: str, place: ClusterNamespace, tmp_path: Path) -> None:
    fields, options, code, said = EXITS[case]
    result = submit(place, written(tmp_path, **fields), "--wait", *options)
    assert result.exit_code == code, result.output
    assert said in result.output


REFUSED: dict[str, tuple[str, str]] = {
    "no job": ("a: b", "name"),
    "no YAML": ("{", "error"),
    "nothing": ("", "the file has no job"),
    "not a label": ("name: Digits_1\nimage: x\ncommand: x\nroles: {worker: {}}", "name"),
    "for another namespace": (
        "name: digits\nnamespace: elsewhere\nimage: x\ncommand: x\nroles: {worker: {}}",
        "and --namespace is",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_files_are_rejected(case: str, place: ClusterNamespace) -> None:
    text, said = REFUSED[case]
    result = submit(place, "-", stdin=text)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "<stdin>" in result.stderr


def test_missing_file_is_reported(place: ClusterNamespace) -> None:
    result = submit(place, "missing.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        (
            "windlass: missing.yaml: cannot be read: No such file or directory. "
            "Write a job file for a script with `windlass init SCRIPT`.\n"
        ),
    )


def test_rerun_replaces_a_finished_job(place: ClusterNamespace, tmp_path: Path) -> None:
    file = written(tmp_path)
    assert submit(place, file, "--wait").exit_code == 0
    refused = submit(place, file)
    assert refused.exit_code == 1
    assert "--rerun" in refused.stderr
    again = submit(place, file, "--rerun", "--wait")
    assert again.exit_code == 0, again.output
    assert "replacing the finished job" in again.stdout
