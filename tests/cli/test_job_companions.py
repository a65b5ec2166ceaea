"""Companions in `windlass submit`, `delete`, `status` and `describe`."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from in_process_cluster import ClusterNamespace
from operated import jobs

from windlass.cli.main import main
from windlass.model.base import Json

JOB: Json = {
    "name": "digits",
    "image": "x",
    "command": "true",
    "roles": {"worker": {"pod": {"metadata": {"annotations": jobs.FOREVER}}}},
    "volumes": {"output": {"hostPath": "/srv/output", "at": "/output"}},
}
BOARD: Json = {**JOB, "tensorboard": {}}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(BOARD))
    return str(path)


def run(place: ClusterNamespace, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words, *place.options])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def deployments(place: ClusterNamespace) -> list[str]:
    path = f"/apis/apps/v1/namespaces/{place.name}/deployments"
    return [each["metadata"]["name"] for each in place.client.get(path).expect(200).body["items"]]


# windlass submit


def test_submit_starts_companions(place: ClusterNamespace, file: str) -> None:
    assert run(place, "submit", file, "--no-preflight").stdout.splitlines() == [
        "digits: started tensorboard",
        f"digits submitted to namespace {place.name}",
        f"digits: open tensorboard with `windlass tensorboard digits -n {place.name}`",
    ]


def test_companions_only_starts_no_job(place: ClusterNamespace, file: str) -> None:
    assert run(place, "submit", file, "--companions-only").stdout.splitlines() == [
        "digits: started tensorboard",
        f"digits: open tensorboard with `windlass tensorboard digits -n {place.name}`",
    ]
    assert place.client.get(place.framework_path("digits")).code == 404
    again = run(place, "submit", file, "--companions-only", "-o", "name")
    assert again.stdout == "deployment.apps/digits-tensorboard\n"
    cluster, progress = again.stderr.splitlines()
    assert cluster.startswith("cluster: https://")
    assert progress == "digits: updated tensorboard"
    made = json.loads(run(place, "submit", file, "--companions-only", "-o", "json").stdout)
    assert (made["kind"], made["metadata"]["name"]) == ("Deployment", "digits-tensorboard")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", "kind: Deployment"),
        ("json", '"kind": "Service"'),
        ("name", "deployment.apps/digits-tensorboard\n"),
    ],
)
def test_dry_run_starts_no_companions(form: str, expected: str, place: ClusterNamespace, file: str) -> None:
    said = run(place, "submit", file, "--companions-only", "--dry-run", "-o", form).stdout
    assert expected in said
    assert "Framework" not in said
    assert not deployments(place)


def test_dry_run_shows_no_password_hash(place: ClusterNamespace, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**JOB, "jupyter": {}}))
    said = run(place, "submit", str(path), "--dry-run").stdout
    assert "kind: Secret" in said
    assert "argon2" not in said


@pytest.mark.parametrize("option", ["--wait", "--rerun"])
def test_job_options_are_rejected_with_companions_only(
    option: str, place: ClusterNamespace, file: str
) -> None:
    said = run(place, "submit", file, "--companions-only", option, code=2).stderr
    assert f"--companions-only and {option} are mutually exclusive" in said


def test_companions_only_is_rejected_for_a_file_without_companions(
    place: ClusterNamespace, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(JOB))
    assert (
        "no job has a companion: add" in run(place, "submit", str(path), "--companions-only", code=2).stderr
    )


# windlass status and describe


def test_status_lists_companions_with_urls(place: ClusterNamespace, file: str) -> None:
    run(place, "submit", file, "--no-preflight")
    place.wait_for_running("digits", 1)
    lines = run(place, "status", "digits").stdout.splitlines()
    at = lines.index("")
    tasks, _, companions = ("\n".join(lines[at + 1 :])).partition("\n\n")
    assert tasks.startswith("TASK")
    title, row, hint = companions.splitlines()
    assert title.split() == ["COMPANION", "STATE", "URL", "REASON"]
    assert row.split()[:3] == ["tensorboard", "Waiting", f"http://tensorboard.{place.name}.svc:6006/"]
    assert hint.split(maxsplit=1) == ["hint", f"windlass tensorboard digits -n {place.name}"]
    assert f"\n\ncompanions\n{companions}\n" in run(place, "describe", "digits").stdout
    shown = json.loads(run(place, "status", "digits", "-o", "json").stdout)
    assert shown["kind"] == "Framework"


def test_status_lists_companions_of_a_deleted_job(place: ClusterNamespace, file: str) -> None:
    run(place, "submit", file, "--companions-only")
    said = run(place, "status", "digits").stdout
    assert said.startswith(
        f"the job digits does not exist in the namespace {place.name}, but its companions do:"
    )
    assert "tensorboard" in said.splitlines()[-2]
    assert 'there is no job "digits"' in run(place, "status", "digits", "-o", "json", code=1).stderr
    assert 'there is no job "digit"' in run(place, "status", "digit", code=1).stderr


# windlass delete


def test_delete_keeps_companions_on_request(place: ClusterNamespace, file: str) -> None:
    run(place, "submit", file, "--no-preflight")
    assert run(place, "delete", "digits", "--keep-companions").stdout.splitlines() == [
        "digits deleted",
        f"Its companions are kept (tensorboard). Delete them with: windlass delete digits -n {place.name}",
    ]
    assert deployments(place) == ["digits-tensorboard"]
    assert run(place, "delete", "digits").stdout == "digits deleted\n"
    assert not deployments(place)
