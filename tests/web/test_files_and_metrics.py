"""Pasted files, metrics of jobs, and the cluster."""

import math
from typing import Any

import pytest
from dashboards import Browser
from operated import jobs
from scripted_cluster import Place

from windlass.client import job_metrics, lookup
from windlass.client.connection import Connection
from windlass.client.job_metrics import MAX_KEPT, JobMetrics, Series
from windlass.client.usage import Usage
from windlass.model import names

JOB = "name: digits\nimage: x\ncommand: python3 -c pass\nroles: {worker: {tasks: 2}}\nretry: 1\n"


# Files


def test_lint_reports_lines(browser: Browser) -> None:
    answer = browser.post("files/lint", {"text": f"{JOB}comand: x\n", "name": "a.yaml"}).expect(200).body
    (found,) = answer["diagnostics"]
    assert (found["severity"], found["line"], found["column"]) == ("error", 6, 1)
    assert "comand" in found["message"]
    assert browser.post("files/lint", {"text": JOB}).body == {"jobs": ["digits"], "diagnostics": []}


@pytest.mark.parametrize("text", ["", "{", "a: [", "\x00", "kind: Pod"], ids=repr)
def test_lint_of_a_file_without_jobs_reports_an_error(browser: Browser, text: str) -> None:
    answer = browser.post("files/lint", {"text": text}).expect(200).body
    assert any(each["severity"] == "error" for each in answer["diagnostics"])


def test_plan_shows_injected_faults_as_a_timeline(browser: Browser) -> None:
    body = {"text": JOB, "faults": ["kill worker-1 after 5s"]}
    answer = browser.post("files/plan", body).expect(200).body
    assert answer["verdict"].startswith("digits ends with Succeeded (0) after 10m")
    timeline = answer["timeline"]
    bars = [dict(zip(timeline["columns"], bar, strict=True)) for bar in timeline["bars"]]
    found = [(bar["role"], bar["index"], bar["attempt"], bar["outcome"], bar["exitCode"]) for bar in bars]
    assert found == [
        ("worker", 0, 0, "stopped", -220),
        ("worker", 1, 0, "failed", 137),
        ("worker", 0, 1, "succeeded", 0),
        ("worker", 1, 1, "succeeded", 0),
    ]
    assert [each["outcome"] for each in timeline["jobAttempts"]] == ["failed", "succeeded"]
    assert all(bar["created"] <= bar["started"] <= bar["finished"] for bar in bars)
    assert any(each["message"] == "injected: kill" for each in timeline["events"])


def test_plan_simulates_the_chosen_job_of_a_file(browser: Browser) -> None:
    text = f"{JOB}---\n{JOB.replace('digits', 'letters')}"
    for job, name in (("", "digits"), ("digits", "digits"), ("letters", "letters")):
        answer = browser.post("files/plan", {"text": text, "job": job}).expect(200).body
        assert answer["verdict"].startswith(f"{name} ends with Succeeded")
    error = browser.post("files/plan", {"text": text, "job": "words"}).expect(400).body["error"]
    assert error["message"] == "job: the file has no job 'words'"


def test_jobs_of_other_systems_are_checked_simulated_and_submitted(place: Place, browser: Browser) -> None:
    template = "{spec: {restartPolicy: Never, containers: [{name: tensorflow, image: x, command: [x]}]}}"
    replicas = f"Chief: {{template: {template}}}, Worker: {{replicas: 2, template: {template}}}"
    text = f"""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: digits}}
spec: {{tfReplicaSpecs: {{{replicas}}}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: letters}}
spec: {{replicatedJobs: [{{name: worker, template: {{spec: {{backoffLimit: 0, template: {template}}}}}}}]}}
"""
    lint = browser.post("files/lint", {"text": text}).expect(200).body
    assert (lint["jobs"], lint["diagnostics"]) == (["digits", "letters"], [])
    typo = browser.post("files/lint", {"text": text.replace("Chief:", "Cheif:")}).body["diagnostics"]
    assert [(each["severity"], each["line"]) for each in typo] == [("error", 4)]
    body = {"text": text, "faults": ["exit 3 chief-0 after 5s"]}
    timeline = browser.post("files/plan", body).expect(200).body["timeline"]
    bars = [dict(zip(timeline["columns"], bar, strict=True)) for bar in timeline["bars"]]
    chief = next(bar for bar in bars if bar["role"] == "chief")
    assert (chief["outcome"], chief["exitCode"]) == ("failed", 3)
    answer = browser.post("files/submit", {"text": text, "namespace": place.name}).expect(200).body
    assert [each["name"] for each in answer["created"]] == ["digits", "letters"]
    roles = place.framework("digits")["spec"]["taskRoles"]
    assert [(role["name"], role["taskNumber"]) for role in roles] == [("chief", 1), ("worker", 2)]
    place.framework("letters")


def test_plan_rejects_errors_with_their_line(browser: Browser) -> None:
    error = browser.post("files/plan", {"text": f"{JOB}comand: x\n"}).expect(400).body["error"]
    assert error["line"] == 6
    body = {"text": JOB, "faults": ["kill chief-0"]}
    assert browser.post("files/plan", body).expect(400).body["error"]["message"].startswith("fault: ")


def test_submit_creates_the_job(place: Place, browser: Browser) -> None:
    body = {"text": JOB, "namespace": place.name}
    answer = browser.post("files/submit", body).expect(200).body
    assert answer["created"] == [{"namespace": place.name, "name": "digits"}]
    assert answer["messages"] == [f"digits submitted to namespace {place.name}"]
    place.framework("digits")
    assert browser.post("files/submit", body).expect(409).error == "exists"


# Metrics


def test_values_in_logs_become_series(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("digits", 2)
    for step in (1, 2, 3):
        place.write("digits-worker-0", f"windlass progress {step}/4 loss={1 / step} note=x\n")
    place.write("digits-worker-0", "result: accuracy=0.97\n")

    def series() -> dict[str, list[float]]:
        body = browser.get(f"jobs/{place.name}/digits/metrics").expect(200).body
        return {each["name"]: [value for _, value in each["points"]] for each in body["values"]}

    place.wait_for("the values", lambda: set(series()) == {"progress", "loss", "accuracy"})
    assert series() == {"progress": [0.25, 0.5, 0.75], "loss": [1.0, 0.5, 1 / 3], "accuracy": [0.97]}
    only = browser.get(f"jobs/{place.name}/digits/metrics?task=worker-1").body
    assert (only["values"], only["tasks"]) == ([], 2)


def test_missing_metrics_api_is_explained(place: Place, browser: Browser) -> None:
    place.submit(jobs.framework("digits", jobs.role(life=jobs.FOREVER)))
    place.wait_for_running("digits", 1)
    usage = browser.get(f"jobs/{place.name}/digits/metrics").expect(200).body["usage"]
    assert (usage["available"], usage["series"]) == (False, [])
    assert "Install metrics-server" in usage["reason"]


def test_series_is_downsampled_and_bounded() -> None:
    series = Series()
    for number in range(50_000):
        series.add(number, float(number))
    assert len(series.points) < MAX_KEPT
    points = series.latest(500)
    assert len(points) <= 500
    assert points == sorted(points)
    assert points[-1][0] >= 49_900
    series.add(50_000, float("nan"))
    assert all(math.isfinite(value) for _, value in series.points)


def test_many_tasks_are_shown_as_the_mean_of_their_role(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_metrics, "MAX_TASKS", 1)
    place.submit(jobs.framework("digits", jobs.role(tasks=2, life=jobs.FOREVER)))
    place.wait_for_running("digits", 2)

    async def read(connection: Connection) -> JobMetrics:
        found = JobMetrics(connection, "digits", lambda: 1.0)
        framework = await lookup.find(connection, "digits")
        used = {"digits-worker-0": Usage(1.0, 100), "digits-worker-1": Usage(3.0, 300, 0.5, 10)}
        found._add_usage(framework, used)
        return found

    found = place.use(read)
    assert {key: each.points for key, each in found.usage.items()} == {
        ("worker", "cpu"): [(1000, 2.0)],
        ("worker", "memory"): [(1000, 200.0)],
        ("worker", "gpu"): [(1000, 0.5)],
    }


# Cluster


def test_cluster_shows_nodes_and_waiting_tasks(place: Place, browser: Browser) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{place.name}"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    place.client.post("/api/v1/nodes", node).expect(201)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "labels": {names.JOB_LABEL: "digits"},
        },
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]},
    }
    waiting = {**pod, "spec": {**pod["spec"], "schedulerName": "none"}}
    bound = {**pod, "metadata": {"name": "b"}, "spec": {**pod["spec"], "nodeName": f"node-{place.name}"}}
    for each in (waiting, bound):
        place.client.post(place.path("pods"), each).expect(201)
    body = browser.get("cluster").expect(200).body
    found = next(each for each in body["nodes"] if each["name"] == f"node-{place.name}")
    assert found["capacity"] == {"cpu": 4.0, "memory": 8 * 2**30, "gpus": 2, "pods": 110}
    assert found["requested"] == {"cpu": 0.5, "memory": 0, "gpus": 0, "pods": 1}
    assert (found["used"], body["metricsAvailable"]) == (None, False)
    (pending,) = [each for each in body["pending"] if each["namespace"] == place.name]
    assert (pending["job"], pending["task"]) == ("digits", "a")
    place.client.delete(f"/api/v1/nodes/node-{place.name}")
