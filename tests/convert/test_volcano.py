"""Volcano Jobs: which failure leads to which verdict, and what the plugins add to the pods."""

from typing import Any

import msgspec
import pytest
import yaml
from tests.convert import outcomes
from tests.convert.outcomes import Outcome, play

from windlass.convert.conversion import Conversion, NoteKind
from windlass.model.base import Json
from windlass.objects.pod import pod

POD: Json = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "image:1", "command": ["train"]}],
    }
}


def task(name: str = "worker", replicas: int = 2, **fields: Any) -> Json:
    return {"name": name, "replicas": replicas, "template": POD, **fields}


def job(*tasks: Json, **spec: Any) -> str:
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "digits"},
        "spec": {"tasks": list(tasks or (task(),)), **spec},
    }
    return yaml.safe_dump(body)


def policy(event: str, action: str, **fields: Any) -> Json:
    return {"event": event, "action": action, **fields}


def converted(*tasks: Json, **spec: Any) -> Conversion:
    found = outcomes.convert(job(*tasks, **spec))
    refused = [f"{note.path}: {note.text}" for note in found.notes if note.kind is NoteKind.REFUSED]
    assert refused == []
    return found


# Verdicts

MASTER = task("master", 1, policies=[policy("TaskCompleted", "CompleteJob")])
RESTART = [policy("PodFailed", "RestartJob")]
VERDICTS: dict[str, tuple[str, tuple[str, ...], tuple[str, int, int]]] = {
    "all pods succeed": (job(), ("exit 0 worker-0", "exit 0 worker-1"), ("Succeeded", 2, 0)),
    "a failed pod does not end the job": (job(), ("exit 1 worker-0",), ("Active", 2, 0)),
    "a failed pod counts at the end": (job(), ("exit 1 worker-0", "exit 0 worker-1"), ("Failed", 2, 0)),
    "minAvailable below the sum of the tasks": (
        job(minAvailable=1),
        ("exit 1 worker-0", "exit 0 worker-1"),
        ("Succeeded", 2, 0),
    ),
    "minAvailable of each task": (
        job(task("ps", 2, minAvailable=1), task("worker", 2, minAvailable=1), minAvailable=2),
        ("exit 0 ps-0", "exit 0 ps-1", "exit 1 worker-0", "exit 1 worker-1"),
        ("Failed", 4, 0),
    ),
    "minAvailable of each task reached": (
        job(task("ps", 2, minAvailable=1), task("worker", 2, minAvailable=1), minAvailable=2),
        ("exit 0 ps-0", "exit 1 ps-1", "exit 1 worker-0", "exit 0 worker-1"),
        ("Succeeded", 4, 0),
    ),
    "minSuccess ends the job": (job(minSuccess=1), ("exit 0 worker-1",), ("Succeeded", 2, 0)),
    "minSuccess not reached": (job(minSuccess=1), ("exit 1 worker-0", "exit 1 worker-1"), ("Failed", 2, 0)),
    "a deleted pod is created again": (
        job(),
        ("delete worker-0", "exit 0 worker-0", "exit 0 worker-1"),
        ("Succeeded", 3, 0),
    ),
    "RestartJob": (
        job(policies=RESTART),
        ("exit 1 worker-0", "exit 0 worker-0", "exit 0 worker-1"),
        ("Succeeded", 4, 1),
    ),
    "RestartJob until maxRetry": (
        job(policies=RESTART, maxRetry=2),
        ("exit 1 worker-0", "exit 1 worker-0"),
        ("Failed", 4, 1),
    ),
    "maxRetry is 3 by default": (
        job(policies=RESTART),
        ("exit 1 worker-0", "exit 1 worker-0", "exit 1 worker-0"),
        ("Failed", 6, 2),
    ),
    "RestartJob after a deletion": (
        job(policies=[policy("PodEvicted", "RestartJob")]),
        ("delete worker-0", "exit 0 worker-0", "exit 0 worker-1"),
        ("Succeeded", 4, 1),
    ),
    "RestartPod": (
        job(policies=[policy("PodFailed", "RestartPod")]),
        ("exit 1 worker-0", "exit 0 worker-0", "exit 0 worker-1"),
        ("Succeeded", 3, 0),
    ),
    "RestartPod until maxRetry, in all pods together": (
        job(policies=[policy("PodFailed", "RestartPod")], maxRetry=2),
        ("exit 1 worker-0", "exit 1 worker-1"),
        ("Failed", 3, 0),
    ),
    "RestartTask with one pod": (
        job(task(replicas=1), policies=[policy("PodFailed", "RestartTask")]),
        ("exit 1 worker-0", "exit 0 worker-0"),
        ("Succeeded", 2, 0),
    ),
    "AbortJob": (job(policies=[policy("PodFailed", "AbortJob")]), ("exit 1 worker-0",), ("Failed", 2, 0)),
    "CompleteJob when a task is complete": (job(MASTER, task()), ("exit 0 master-0",), ("Succeeded", 3, 0)),
    "policies of the task come first": (
        job(task("ps", 1, policies=[policy("PodFailed", "TerminateJob")]), task(), policies=RESTART),
        ("exit 1 ps-0",),
        ("Failed", 3, 0),
    ),
    "an exit code of its own": (
        job(policies=[{"exitCode": 3, "action": "TerminateJob"}, policy("PodFailed", "RestartJob")]),
        ("exit 4 worker-0", "exit 3 worker-0"),
        ("Failed", 4, 1),
    ),
    "exit codes without a policy": (
        job(policies=[{"exitCode": 3, "action": "RestartJob"}]),
        ("exit 4 worker-0", "exit 0 worker-1"),
        ("Failed", 2, 0),
    ),
    "TaskFailed counts restarts of containers": (
        job(task(maxRetry=2), policies=[policy("TaskFailed", "TerminateJob")]),
        ("restart worker-0", "restart worker-1"),
        ("Failed", 2, 0),
    ),
    "TaskFailed below maxRetry": (
        job(task(maxRetry=3), policies=[policy("TaskFailed", "TerminateJob")]),
        ("restart worker-0", "restart worker-1"),
        ("Active", 2, 0),
    ),
    "ResumeJob does nothing": (
        job(policies=[policy("PodFailed", "ResumeJob")]),
        ("exit 1 worker-0",),
        ("Active", 2, 0),
    ),
    "a task waits for the readiness of another": (
        job(task("ps", 1), task(dependsOn={"name": ["ps"]})),
        ("ready ps-0",),
        ("Active", 3, 0),
    ),
    "a task waits for a part of another": (
        job(task("ps", 2, minAvailable=1), task(dependsOn={"name": ["ps"]})),
        ("ready ps-1",),
        ("Active", 4, 0),
    ),
}


@pytest.mark.parametrize(("text", "steps", "expected"), VERDICTS.values(), ids=VERDICTS.keys())
def test_verdict(text: str, steps: tuple[str, ...], expected: tuple[str, int, int]) -> None:
    found: Outcome = play(text, *steps)
    assert (found.verdict, sum(found.pods.values()), found.restarts) == expected


def test_dependent_task_waits() -> None:
    found = outcomes.Play(job(task("ps", 1), task(dependsOn={"name": ["ps"]}))).outcome()
    assert found.pods == {"ps": 1}


def test_dependent_task_waits_for_all_tasks_of_its_list() -> None:
    text = job(task("ps", 1), task("data", 2, minAvailable=1), task(dependsOn={"name": ["ps", "data"]}))
    created = {"ps": 1, "data": 2}
    assert play(text, "ready data-0").pods == created
    assert play(text, "ready ps-0").pods == created
    assert play(text, "ready data-0", "ready ps-0").pods == {**created, "worker": 2}


REFUSED: dict[str, tuple[str, str]] = {
    "RestartTask with several pods": (job(policies=[policy("PodFailed", "RestartTask")]), "spec.policies[0].action"),
    "RestartPartition": (job(policies=[policy("PodFailed", "RestartPartition")]), "spec.policies[0].action"),
    "CompleteJob after a failure": (job(policies=[policy("PodFailed", "CompleteJob")]), "spec.policies[0].action"),
    "any event": (job(policies=[policy("*", "RestartJob")]), "spec.policies[0].action"),
    "RestartPod after TaskFailed": (job(policies=[policy("TaskFailed", "RestartPod")]), "spec.policies[0].action"),
    "a delayed action": (job(policies=[policy("PodFailed", "RestartJob", timeout="5m")]), "spec.policies[0].timeout"),
    "an unknown action": (job(policies=[policy("PodFailed", "Stop")]), "spec.policies[0].action"),
    "an unknown event": (job(policies=[policy("PodRunning", "AbortJob")]), "spec.policies[0]"),
    "an event twice": (job(policies=[*RESTART, policy("PodFailed", "AbortJob")]), "spec.policies[1]"),
    "RestartJob after PodPending": (
        job(policies=[policy("PodPending", "RestartJob", timeout="5m")]),
        "spec.policies[0].action",
    ),
    "any of several tasks": (
        job(task("a"), task("b"), task(dependsOn={"name": ["a", "b"], "iteration": "any"})),
        "spec.tasks[2].dependsOn.iteration",
    ),
    "an unknown task": (job(task(dependsOn={"name": ["ps"]})), "spec.tasks[0].dependsOn.name[0]"),
    "two tasks with a name": (job(task(), task()), "spec.tasks[1].name"),
    "minAvailable too large": (job(minAvailable=3), "spec.minAvailable"),
    "minSuccess too large": (job(minSuccess=3), "spec.minSuccess"),
    "an unknown plugin": (job(plugins={"custom": []}), "spec.plugins.custom"),
    "an unknown argument": (job(plugins={"ssh": ["--key=a"]}), "spec.plugins.ssh"),
    "mpi without a master": (job(plugins={"mpi": []}), "spec.plugins.mpi"),
    "an unknown field": (job(nproc=2), "spec.nproc"),
    "a value of another type": (job({**task(), "replicas": "two"}), "spec.tasks[0].replicas"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_field_is_named(text: str, path: str) -> None:
    notes = outcomes.convert(text).notes
    assert path in [note.path for note in notes if note.kind is NoteKind.REFUSED]


def test_pending_timeout_is_the_pending_deadline() -> None:
    found = converted(policies=[policy("PodPending", "TerminateJob", timeout="1h10m")])
    assert found.document["pendingDeadline"] == 4200


# Pods


def spec_of(text: str, role: str, index: int) -> Json:
    """Return the pod of a task as the controller creates it."""
    play_ = outcomes.Play(text)
    made: Json = pod(play_.world.framework, role, index)
    return made


def env_of(body: Json) -> dict[str, Any]:
    env = body["spec"]["containers"][0]["env"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in env}


def test_names_and_labels_of_pods() -> None:
    body = spec_of(
        job(task("data-prep", 2, partitionPolicy={"totalPartitions": 2, "partitionSize": 1})), "dataprep", 1
    )
    assert body["metadata"]["name"] == "digits-dataprep-1"
    assert (body["spec"]["hostname"], body["spec"]["subdomain"]) == ("digits-data-prep-1", "digits")
    labels = body["metadata"]["labels"]
    expected = {"task-spec": "data-prep", "task-index": "1", "job-name": "digits", "partition-id": "1"}
    assert {key: labels[f"volcano.sh/{key}"] for key in expected} == expected


def test_restart_policy_is_always_by_default() -> None:
    template = {"spec": {"containers": POD["spec"]["containers"]}}
    assert spec_of(job(task(template=template)), "worker", 0)["spec"]["restartPolicy"] == "Always"


PYTORCH = job(task("master", 1), task(), plugins={"pytorch": ["--port=2000", "--wait-master-enabled"]})


def test_env_plugin() -> None:
    variables = env_of(spec_of(job(plugins={"env": []}), "worker", 1))
    assert (variables["VC_TASK_INDEX"], variables["VK_TASK_INDEX"]) == ("1", "1")


def test_pytorch_plugin() -> None:
    worker, master = spec_of(PYTORCH, "worker", 1), spec_of(PYTORCH, "master", 0)
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    assert [env_of(worker)[name] for name in names] == ["digits-master-0.digits", "2000", "3", "2"]
    assert [env_of(master)[name] for name in names] == ["digits-master-0.digits", "2000", "3", "0"]
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 2000}]
    assert [each["name"] for each in worker["spec"]["initContainers"]] == ["wait-for-master"]
    assert "initContainers" not in master["spec"]


def test_tensorflow_plugin() -> None:
    text = job(task("ps", 1), task(), plugins={"tensorflow": []})
    expected = {
        "cluster": {
            "ps": ["digits-ps-0.digits:2222"],
            "worker": ["digits-worker-0.digits:2222", "digits-worker-1.digits:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }
    found = env_of(spec_of(text, "worker", 1))["TF_CONFIG"]
    assert found == msgspec.json.encode(expected).decode()


def test_mpi_plugin_implies_svc_and_ssh() -> None:
    text = job(task("master", 1), task(), plugins={"mpi": []})
    body = spec_of(text, "master", 0)
    assert env_of(body)["MPI_HOST"] == "digits-worker-0.digits,digits-worker-1.digits"
    assert env_of(body)["VC_WORKER_NUM"] == {
        "configMapKeyRef": {"name": "digits-svc", "key": "VC_WORKER_NUM"}
    }
    mounts = {each["mountPath"]: each["name"] for each in body["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["/etc/volcano"] == "digits-svc"
    assert mounts["/root/.ssh"] == "digits-ssh"
    found = outcomes.convert(text)
    by_name = {each["metadata"]["name"]: each for each in found.objects}
    data = by_name["digits-svc"]["data"]
    assert data["worker.host"] == "digits-worker-0.digits\ndigits-worker-1.digits"
    assert (data["VC_WORKER_HOSTS"], data["VC_MASTER_NUM"]) == (
        "digits-worker-0.digits,digits-worker-1.digits",
        "1",
    )
    assert (
        "Host digits-worker-1\n  HostName digits-worker-1.digits\n  Port 22\n"
        in by_name["digits-ssh-config"]["data"]["config"]
    )
    assert found.document["annotations"]["windlass.dev/ssh-key"] == "true"


def test_given_ssh_key_is_in_the_secret() -> None:
    found = converted(plugins={"ssh": ["--ssh-private-key=KEY", "--ssh-public-key", "PUBLIC"]})
    (secret,) = [each for each in found.objects if each["kind"] == "Secret"]
    assert secret["stringData"] == {"id_rsa": "KEY", "id_rsa.pub": "PUBLIC"}
    assert "windlass.dev/ssh-key" not in found.document["annotations"]


def test_ray_plugin() -> None:
    template: Json = {"spec": {"containers": [{"name": "head", "image": "ray:2"}]}}
    worker: Json = {"spec": {"containers": [{"name": "worker", "image": "ray:2"}]}}
    text = job(task("head", 1, template=template), task(template=worker), plugins={"ray": []})
    assert spec_of(text, "worker", 0)["spec"]["containers"][0]["command"][-1].endswith(
        "--address=digits-head-0.digits:6379"
    )
    head = spec_of(text, "head", 0)["spec"]["containers"][0]
    assert "ray start --head --block" in head["command"][-1]
    assert [each["containerPort"] for each in head["ports"]] == [6379, 8265, 10001]
    assert "digits-head-svc" in [each["metadata"]["name"] for each in outcomes.convert(text).objects]


def test_hcclrank_plugin_numbers_workers_after_masters() -> None:
    text = job(task("master", 2), task(), plugins={"hcclrank": []})
    ranks = [
        spec_of(text, role, 1)["metadata"]["annotations"]["hccl/rankIndex"] for role in ("master", "worker")
    ]
    assert ranks == ["1", "3"]


def test_volumes_and_claims() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    found = converted(
        volumes=[{"mountPath": "/in", "volumeClaimName": "data"}, {"mountPath": "/out", "volumeClaim": claim}]
    )
    pod_spec = found.document["roles"]["worker"]["pod"]["spec"]
    claims = [each["persistentVolumeClaim"]["claimName"] for each in pod_spec["volumes"]]
    assert claims == ["data", "digits-pvc-1"]
    assert [each["mountPath"] for each in pod_spec["containers"][0]["volumeMounts"]] == ["/in", "/out"]
    assert [each["metadata"]["name"] for each in found.objects] == ["digits-pvc-1"]


def test_scheduling_fields_are_kept_in_an_annotation() -> None:
    found = converted(minAvailable=2, queue="research", priorityClassName="high", schedulerName="volcano")
    kept = msgspec.json.decode(found.document["annotations"]["windlass.dev/scheduling-policy"])
    expected = {
        "minAvailable": 2,
        "queue": "research",
        "priorityClassName": "high",
        "minTaskMember": {"worker": 2},
    }
    assert kept == expected
    pod_spec = found.document["roles"]["worker"]["pod"]["spec"]
    assert pod_spec["priorityClassName"] == "high"
    assert "schedulerName" not in pod_spec
    assert {note.path for note in found.notes if note.kind is NoteKind.NO_EFFECT} == {
        "spec.queue",
        "spec.schedulerName",
    }


def test_other_schedulers_are_kept() -> None:
    found = converted(schedulerName="kueue")
    assert found.document["roles"]["worker"]["pod"]["spec"]["schedulerName"] == "kueue"
