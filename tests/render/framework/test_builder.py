"""Rendering of a job to a Framework."""

from typing import Any

import pytest

from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.job import CephFs, Elastic, Job, Nfs, Retry, Role, Volume
from windlass.model.resources import Resources
from windlass.render import code
from windlass.render.framework import pods
from windlass.render.framework.builder import framework
from windlass.render.framework.pods import NO_IMAGE

BACKOFF = {"initialSec": 5, "maxSec": 300}


def job(**fields: Any) -> Job:
    return Job(
        **{"name": "digits", "command": "python train.py", "roles": {"worker": Role(tasks=2)}, **fields}
    )


def role_of(made: Json, index: int = 0) -> Json:
    role: Json = made["spec"]["taskRoles"][index]
    return role


def spec_of(made: Json, index: int = 0) -> Json:
    spec: Json = role_of(made, index)["task"]["pod"]["spec"]
    return spec


def container_of(made: Json, index: int = 0) -> Json:
    container: Json = spec_of(made, index)["containers"][0]
    return container


def test_minimal_job() -> None:
    assert framework(job(), has_own_mounts=False) == {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "digits", "annotations": {"windlass.dev/runtime": "plain"}},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {
                "fancyRetryPolicy": True,
                "maxRetryCount": 0,
                "maxTransientRetryCount": 10,
                "retryBackoff": BACKOFF,
            },
            "completedPods": "Keep",
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": 2,
                    "frameworkAttemptCompletionPolicy": {
                        "minFailedTaskCount": 1,
                        "minSucceededTaskCount": -1,
                    },
                    "task": {
                        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                        "pod": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "main",
                                        "image": NO_IMAGE,
                                        "command": ["python", "train.py"],
                                        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
                                        "volumeMounts": [],
                                        "terminationMessagePolicy": "FallbackToLogsOnError",
                                    }
                                ],
                                "volumes": [],
                            }
                        },
                    },
                }
            ],
        },
    }


def test_metadata_and_deadlines_are_rendered() -> None:
    made = framework(
        job(
            namespace="team",
            description="Digits",
            labels={"team": "vision"},
            annotations={"a": "b"},
            barrier=True,
            pending_deadline="90s",
            active_deadline="1h30m",
            ttl="0.5s",
        )
    )
    assert made["metadata"] == {
        "name": "digits",
        "namespace": "team",
        "labels": {"team": "vision"},
        "annotations": {"a": "b", "windlass.dev/runtime": "plain", "windlass.dev/barrier": "true"},
    }
    spec = made["spec"]
    assert role_of(made)["task"]["pod"]["metadata"] == {"labels": {"team": "vision"}}
    assert spec["description"] == "Digits"
    assert (spec["pendingDeadlineSeconds"], spec["activeDeadlineSeconds"]) == (90, 5400)
    assert spec["ttlSecondsAfterFinished"] == 1


RETRIES: dict[str, tuple[Retry, int | None, Json]] = {
    # without retries of tasks, the job is retried, also after a lost node
    "no retries": (Retry(job=3), None, {"fancyRetryPolicy": False, "maxRetryCount": 0}),
    "of every task": (
        Retry(task=2),
        None,
        {"fancyRetryPolicy": True, "maxRetryCount": 2, "maxTransientRetryCount": 10, "retryBackoff": BACKOFF},
    ),
    "of this role": (
        Retry(task=2, transient=5),
        4,
        {"fancyRetryPolicy": True, "maxRetryCount": 4, "maxTransientRetryCount": 5, "retryBackoff": BACKOFF},
    ),
    "not of this role": (Retry(task=2), 0, {"fancyRetryPolicy": False, "maxRetryCount": 0}),
}


@pytest.mark.parametrize(("retry", "of_role", "expected"), RETRIES.values(), ids=RETRIES.keys())
def test_retry_policy_of_task(retry: Retry, of_role: int | None, expected: Json) -> None:
    made = framework(job(retry=retry, roles={"worker": Role(retry=of_role)}))
    assert role_of(made)["task"]["retryPolicy"] == expected
    assert made["spec"]["retryPolicy"]["maxRetryCount"] == retry.job
    assert made["spec"]["retryPolicy"]["maxTransientRetryCount"] == retry.transient


PORTS: dict[str, tuple[Runtime, int | None, int | None, list[Json]]] = {
    "TensorFlow's": (Runtime.TENSORFLOW, None, None, [{"containerPort": 2222}]),
    "the job's": (Runtime.JAX, 3333, None, [{"containerPort": 3333}]),
    "the role's": (Runtime.PYTORCH, 3333, 4444, [{"containerPort": 4444}]),
    "none of a plain job": (Runtime.PLAIN, None, None, []),
    "none of MPI": (Runtime.MPI, None, None, []),
    "a plain job's own": (Runtime.PLAIN, 80, None, [{"containerPort": 80}]),
}


@pytest.mark.parametrize(("runtime", "of_job", "of_role", "expected"), PORTS.values(), ids=PORTS.keys())
def test_declared_ports(
    runtime: Runtime, of_job: int | None, of_role: int | None, expected: list[Json]
) -> None:
    made = framework(job(runtime=runtime, port=of_job, roles={"worker": Role(port=of_role)}))
    assert container_of(made).get("ports", []) == expected


def test_container_is_named_after_runtime() -> None:
    assert container_of(framework(job(runtime=Runtime.JAX)))["name"] == "jax"


def test_requests_equal_limits() -> None:
    roles = {"a": Role(), "b": Role(resources=Resources(gpus=2)), "c": Role(resources=Resources())}
    made = framework(job(resources=Resources(cpus=0.5, memory="4Gi", gpus=1), roles=roles))
    amounts = {"cpu": "0.5", "memory": "4Gi"}
    assert container_of(made, 0)["resources"] == {
        "requests": amounts,
        "limits": {**amounts, "nvidia.com/gpu": "1"},
    }
    assert container_of(made, 1)["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert "resources" not in container_of(made, 2)


def test_variables_of_container() -> None:
    source = {"secretKeyRef": {"name": "keys", "key": "token"}}
    env = {"A": 1, "B": 0.5, "C": True, "D": "$(A)", "E": source, "PYTHONUNBUFFERED": ""}
    roles = {"worker": Role(env={"A": "own", "F": False})}
    made = framework(job(env=env, env_from=({"secretRef": {"name": "keys"}},), roles=roles))
    container = container_of(made)
    assert container["env"] == [
        {"name": "PYTHONUNBUFFERED", "value": ""},
        {"name": "WINDLASS_PROGRESS", "value": "/windlass/state/progress"},
        {"name": "A", "value": "own"},
        {"name": "B", "value": "0.5"},
        {"name": "C", "value": "true"},
        {"name": "D", "value": "$(A)"},
        {"name": "E", "valueFrom": source},
        {"name": "F", "value": "false"},
    ]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]


VOLUMES: dict[str, tuple[Volume, Json, Json]] = {
    "hostPath": (
        Volume(at="/a", host_path="/b"),
        {"hostPath": {"path": "/b", "type": "DirectoryOrCreate"}},
        {"mountPath": "/a"},
    ),
    "nfs": (
        Volume(at="/a", nfs=Nfs(server="s", path="/p"), read_only=True),
        {"nfs": {"server": "s", "path": "/p"}},
        {"mountPath": "/a", "readOnly": True},
    ),
    "pvc": (
        Volume(at="/a", pvc="claim", sub_path="x"),
        {"persistentVolumeClaim": {"claimName": "claim"}},
        {"mountPath": "/a", "subPath": "x"},
    ),
    "cephfs": (
        Volume(at="/a", cephfs=CephFs(cluster_id="c", fs_name="f", secret="key")),  # noqa: S106 — a name
        {"persistentVolumeClaim": {"claimName": "digits-v"}},
        {"mountPath": "/a"},
    ),
    "share": (
        Volume(at="/a", share="/data/x", sub_path="y"),
        {"nfs": {"server": "digits-nfs.default.svc.cluster.local", "path": "/data/x"}},
        {"mountPath": "/a", "subPath": "y"},
    ),
    "emptyDir": (
        Volume(at="/a", empty_dir={"sizeLimit": "1Gi"}),
        {"emptyDir": {"sizeLimit": "1Gi"}},
        {"mountPath": "/a"},
    ),
    "configMap": (Volume(at="/a", config_map="c"), {"configMap": {"name": "c"}}, {"mountPath": "/a"}),
    "secret": (Volume(at="/a", secret="s"), {"secret": {"secretName": "s"}}, {"mountPath": "/a"}),  # noqa: S106
}


@pytest.mark.parametrize(("volume", "source", "mount"), VOLUMES.values(), ids=VOLUMES.keys())
def test_volume_sources_and_mounts(volume: Volume, source: Json, mount: Json) -> None:
    made = framework(job(volumes={"v": volume}))
    assert spec_of(made)["volumes"][0] == {"name": "v", **source}
    assert container_of(made)["volumeMounts"][0] == {"name": "v", **mount}


def test_shared_memory_and_progress_need_mounts() -> None:
    shared = job(shm_size="8Gi")
    assert spec_of(framework(shared))["volumes"] == [
        {"name": "windlass-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "windlass-state", "emptyDir": {}},
    ]
    assert container_of(framework(shared))["volumeMounts"] == [
        {"name": "windlass-shm", "mountPath": "/dev/shm"},  # noqa: S108
        {"name": "windlass-state", "mountPath": "/windlass/state"},
    ]
    without = framework(shared, has_own_mounts=False)
    assert spec_of(without)["volumes"] == []
    assert pods.PROGRESS_VARIABLE not in str(without)


def test_elastic_job_has_retries_and_needs_its_minimum() -> None:
    roles = {"master": Role(), "worker": Role(tasks=3, elastic=Elastic(min=2, max=4))}
    made = framework(job(runtime=Runtime.PYTORCH, roles=roles))
    assert made["metadata"]["annotations"]["windlass.dev/elastic"] == "worker=2:4"
    policies = [role_of(made, index)["frameworkAttemptCompletionPolicy"] for index in range(2)]
    assert policies == [
        {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
        {"minFailedTaskCount": 1, "minSucceededTaskCount": 2},
    ]
    assert [role_of(made, index)["task"]["retryPolicy"]["maxRetryCount"] for index in range(2)] == [3, 3]
    more = framework(job(runtime=Runtime.PYTORCH, roles=roles, retry=Retry(task=7)))
    assert role_of(more, 1)["task"]["retryPolicy"]["maxRetryCount"] == 7


SHM_SIZES: dict[str, tuple[Job, str]] = {
    "no memory limit": (job(), "1Gi"),
    "half of the limit of the job": (job(resources=Resources(memory="3Gi")), "1536Mi"),
    "half of the limit of the role": (
        job(resources=Resources(memory="3Gi"), roles={"worker": Role(resources=Resources(memory="1G"))}),
        "500M",
    ),
    "a role without a memory limit": (
        job(resources=Resources(memory="3Gi"), roles={"worker": Role(resources=Resources(cpus=1))}),
        "1Gi",
    ),
    "size of the job": (job(shm_size="8Gi", resources=Resources(memory="3Gi")), "8Gi"),
    "size of the role": (job(shm_size="8Gi", roles={"worker": Role(shm_size="2Gi")}), "2Gi"),
    "a volume of the job": (job(volumes={"mine": Volume(at="/dev/shm/", empty_dir={})}), ""),  # noqa: S108
}


@pytest.mark.parametrize(("described", "size"), SHM_SIZES.values(), ids=SHM_SIZES.keys())
def test_size_of_shared_memory(described: Job, size: str) -> None:
    volumes = {each["name"]: each for each in spec_of(framework(described))["volumes"]}
    paths = [mount["mountPath"].rstrip("/") for mount in container_of(framework(described))["volumeMounts"]]
    assert volumes.get("windlass-shm", {"emptyDir": {"sizeLimit": ""}})["emptyDir"]["sizeLimit"] == size
    assert paths.count("/dev/shm") == 1  # noqa: S108


def test_tasks_with_host_ipc_use_the_memory_of_the_node() -> None:
    made = framework(job(pod={"spec": {"hostIPC": True}}))
    assert "windlass-shm" not in str(made)


def test_node_selection_fields() -> None:
    made = framework(
        job(
            service_account="trainer",
            image_pull_secrets=("key",),
            node_selector={"a": "1", "b": "2"},
            tolerations=({"key": "x"},),
            roles={"worker": Role(node_selector={"b": "3"}, tolerations=({"key": "y"},))},
        )
    )
    spec = spec_of(made)
    assert spec["serviceAccountName"] == "trainer"
    assert spec["imagePullSecrets"] == [{"name": "key"}]
    assert spec["nodeSelector"] == {"a": "1", "b": "3"}
    assert spec["tolerations"] == [{"key": "x"}, {"key": "y"}]


def test_role_overrides_job_and_pod_overrides_both() -> None:
    own = {"spec": {"containers": [{"name": "main", "image": "from-pod"}]}}
    roles = {"a": Role(image="of-a", command=["x"]), "b": Role(pod=own)}  # type: ignore[arg-type]
    made = framework(job(image="of-job", pod={"spec": {"hostIPC": True}}, roles=roles))
    assert (container_of(made, 0)["image"], container_of(made, 0)["command"]) == ("of-a", ["x"])
    assert (container_of(made, 1)["image"], container_of(made, 1)["command"]) == (
        "from-pod",
        ["python", "train.py"],
    )
    assert spec_of(made, 0)["hostIPC"] is spec_of(made, 1)["hostIPC"] is True


def test_code_in_place_sets_working_directory() -> None:
    made = framework(job(), code.InPlace("/home/me/src"))
    assert container_of(made)["workingDir"] == "/home/me/src"
    assert "initContainers" not in spec_of(made)


def test_packed_code_is_unpacked_by_init_container() -> None:
    made = framework(
        job(image="tf:1", resources=Resources(cpus=1, gpus=1)), code.Packed(code.config_map_name("digits"))
    )
    spec = spec_of(made)
    (unpacking,) = spec["initContainers"]
    assert container_of(made)["workingDir"] == code.FOLDER
    assert {"name": "windlass-code", "mountPath": code.FOLDER} in container_of(made)["volumeMounts"]
    assert {"name": "windlass-archive", "configMap": {"name": "digits-code"}} in spec["volumes"]
    assert unpacking["image"] == "tf:1"
    assert unpacking["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    assert unpacking["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_framework_is_deterministic() -> None:
    made = job(env={"B": 1, "A": 2}, roles={"b": Role(), "a": Role()})
    assert repr(framework(made)) == repr(framework(made))
    assert [role["name"] for role in framework(made)["spec"]["taskRoles"]] == ["b", "a"]


def test_pod_of_the_role_overrides_the_pod_of_the_job() -> None:
    pods = {"job": {"spec": {"hostIPC": True, "hostPID": True}}, "role": {"spec": {"hostIPC": False}}}
    job = Job(name="digits", command="python train.py", pod=pods["job"], roles={"a": Role(pod=pods["role"])})
    spec = framework(job)["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    assert (spec["hostIPC"], spec["hostPID"]) == (False, True)
