"""Jobs rendered to plain objects, created and followed on an embedded cluster."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner
from pods.place import Place

from conformance.client import Json
from conformance.waiting import wait_for
from windlass.cli.main import main

SECONDS = 300.0
KINDS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "Job": ("/apis/batch/v1", "jobs"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
}


def path(place: Place, kind: str, name: str = "") -> str:
    root, plural = KINDS[kind]
    return f"{root}/namespaces/{place.namespace}/{plural}/{name}".rstrip("/")


def rendered(folder: Path, place: Place, job: Json) -> list[Json]:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    words = ["render", str(file), "--target", "plain", "-n", place.namespace]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def log_of(place: Place, selector: str) -> str:
    answer = place.client.get(place.path("pods"), labelSelector=selector).expect(200)
    names = sorted(each["metadata"]["name"] for each in answer.body["items"])
    return "".join(
        place.client.get(f"{place.path('pods', name)}/log", headers={"Accept": "*/*"}).raw.decode()
        for name in names
    )


def wait_until_running(place: Place, selector: str) -> None:
    def is_running() -> bool:
        answer = place.client.get(place.path("pods"), labelSelector=selector).expect(200)
        return any(each["status"].get("phase") == "Running" for each in answer.body["items"])

    wait_for(f"a running pod with {selector}", is_running, SECONDS)


def completed(place: Place, name: str, job: str = "digits") -> None:
    """Wait for the success of the Job `name` of a rendered job."""

    def is_complete() -> bool:
        status = place.client.get(path(place, "Job", name)).expect(200).body.get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        assert conditions.get("Failed") != "True", json.dumps(status)
        return conditions.get("Complete") == "True"

    try:
        wait_for(f"the Job {name}", is_complete, SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log_of(place, f'windlass.dev/job={job}')}") from None
