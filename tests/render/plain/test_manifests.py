"""Plain objects of a job for a cluster without a controller: kinds, names, errors and warnings."""

from typing import Any

import kubernetes_schemas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.discovery import tf_server
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import CompletionPolicySpec, StartCondition
from windlass.model.job import Job, JobCompletion, LoadData, Nfs, Retry, Role, Volume
from windlass.render import code
from windlass.render.manifest_parts import Part
from windlass.render.plain import manifests, unsupported
from windlass.render.storage import load_data

LABELS = {"windlass.dev/job": "digits"}


def job(**fields: Any) -> Job:
    given_fields = {"name": "digits", "image": "i:1", "command": "true", "roles": {"worker": Role(tasks=2)}}
    return Job(**{**given_fields, **fields})


def made(wanted: Job, **more: Any) -> dict[tuple[str, str], Json]:
    """Return the objects by kind and name."""
    assert list(unsupported.errors(wanted, more.get("prefix"))) == []
    bodies = [rendered.body for rendered in manifests.plain(wanted, **more)]
    return {(body["kind"], body["metadata"]["name"]): body for body in bodies}


def workload(wanted: Job, role: str = "worker") -> Json:
    (found,) = (
        body
        for (kind, name), body in made(wanted).items()
        if kind in ("Job", "StatefulSet") and name == f"{wanted.name}-{role}"
    )
    return found


def main_container(body: Json) -> Json:
    container: Json = body["spec"]["template"]["spec"]["containers"][0]
    return container


KINDS: dict[str, tuple[Job, dict[str, str]]] = {
    "workers end": (job(), {"worker": "Job"}),
    "a ps does not": (
        job(runtime=Runtime.TENSORFLOW, roles={"ps": Role(), "worker": Role()}),
        {"ps": "StatefulSet", "worker": "Job"},
    ),
    "workers end beside a chief, too": (
        job(runtime=Runtime.TENSORFLOW, roles={"chief": Role(), "worker": Role(tasks=2)}),
        {"chief": "Job", "worker": "Job"},
    ),
    "idle servers do not": (
        job(runtime=Runtime.TENSORFLOW, command=None, roles={"master": Role(), "worker": Role()}),
        {"master": "StatefulSet", "worker": "StatefulSet"},
    ),
    "requested servers do not": (
        job(runtime=Runtime.TENSORFLOW, command=tf_server.COMMAND),
        {"worker": "StatefulSet"},
    ),
    "a TensorBoard does not": (
        job(roles={"worker": Role(), "tensorboard": Role()}),
        {"worker": "Job", "tensorboard": "StatefulSet"},
    ),
    "no task, no object": (job(roles={"worker": Role(), "spare": Role(tasks=0)}), {"worker": "Job"}),
}


@pytest.mark.parametrize("case", KINDS)
def test_workload_kind_of_role(case: str) -> None:
    wanted, expected = KINDS[case]
    found = {
        name.removeprefix("digits-"): kind for kind, name in made(wanted) if kind in ("Job", "StatefulSet")
    }
    assert found == expected


def test_fields_of_indexed_job() -> None:
    wanted = job(retry=Retry(task=2), active_deadline="1h", ttl="500ms", annotations={"a": "b"})
    body = workload(wanted)
    template = body["spec"].pop("template")
    assert body["metadata"] == {"name": "digits-worker", "labels": LABELS, "annotations": {"a": "b"}}
    assert body["spec"] == {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 4,
        "activeDeadlineSeconds": 3600,
        "ttlSecondsAfterFinished": 1,
    }
    assert template["metadata"]["labels"] == {**LABELS, "windlass.dev/role": "worker"}
    assert template["spec"]["restartPolicy"] == "Never"


def test_mpi_workers_are_ssh_servers_with_a_host_file_for_the_launcher() -> None:
    roles = {"launcher": Role(), "worker": Role(tasks=2, slots=4), "tensorboard": Role(command="board")}
    wanted = job(runtime=Runtime.MPI, command="mpirun train", roles=roles)
    found = made(wanted)
    cluster = found["ConfigMap", "digits-cluster"]["data"]
    assert cluster["hostfile"] == "digits-worker-0 slots=4\ndigits-worker-1 slots=4\n"
    assert "export HYDRA_HOST_FILE=/windlass/cluster/hostfile.hydra\n" in cluster["launcher.env"]
    commands = {
        name.removeprefix("digits-"): (kind, main_container(body)["command"][4:])
        for (kind, name), body in found.items()
        if kind in ("Job", "StatefulSet")
    }
    assert commands == {
        "launcher": ("Job", ["/windlass/ssh/launch", "mpirun", "train"]),
        "worker": ("StatefulSet", ["/windlass/ssh/sshd"]),
        "tensorboard": ("StatefulSet", ["board"]),
    }
    assert "windlass-ssh" not in str(found["StatefulSet", "digits-tensorboard"])


def test_single_task_has_no_index() -> None:
    body = workload(job(roles={"worker": Role()}))
    assert "completionMode" not in body["spec"]
    assert "JOB_COMPLETION_INDEX" not in str(body)


def test_fields_of_stateful_set() -> None:
    body = workload(job(runtime=Runtime.TENSORFLOW, roles={"ps": Role(tasks=3), "worker": Role()}), "ps")
    spec = body["spec"]
    assert (spec["replicas"], spec["serviceName"], spec["podManagementPolicy"]) == (3, "digits", "Parallel")
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


RETRIES = {
    "none": (Retry(), None, 0),
    "of the task": (Retry(task=2, job=7), None, 2),
    "of the role": (Retry(task=2), 5, 5),
    "of the role: none": (Retry(task=2), 0, 0),
    "of the job by default": (Retry(job=3), None, 3),
}


@pytest.mark.parametrize("case", RETRIES)
def test_retry_policy_of_task(case: str) -> None:
    retry, own, expected = RETRIES[case]
    body = workload(job(retry=retry, roles={"worker": Role(retry=own)}))
    assert body["spec"]["backoffLimit"] == expected


def test_each_task_has_service_and_peers_know_its_name() -> None:
    """Every task has a Service that selects one pod, and its peers use that name."""
    wanted = job(runtime=Runtime.TENSORFLOW, roles={"ps": Role(), "chief": Role(), "worker": Role(tasks=2)})
    found = made(wanted)
    selectors = {name: body["spec"]["selector"] for (kind, name), body in found.items() if kind == "Service"}
    assert selectors == {
        "digits": LABELS,
        "digits-ps-0": {"statefulset.kubernetes.io/pod-name": "digits-ps-0"},
        "digits-chief-0": {**LABELS, "windlass.dev/role": "chief"},
        **{
            f"digits-worker-{index}": {
                **LABELS,
                "windlass.dev/role": "worker",
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            for index in range(2)
        },
    }
    cluster = found["ConfigMap", "digits-cluster"]["data"]["cluster.json"]
    assert cluster == (
        '{"ps":["digits-ps-0:2222"],"chief":["digits-chief-0:2222"],'
        '"worker":["digits-worker-0:2222","digits-worker-1:2222"]}'
    )


def test_names_are_fully_qualified_if_namespace_is_known() -> None:
    found = made(job(namespace="training", port=80))
    cluster = found["ConfigMap", "digits-cluster"]["data"]["cluster.json"]
    assert '"digits-worker-0.training.svc.cluster.local:80"' in cluster
    assert {body["metadata"]["namespace"] for body in found.values()} == {"training"}


def test_task_names_without_job_name() -> None:
    found = made(job(namespace="default"), prefix="")
    assert ("Service", "worker-1") in found
    assert ("Job", "worker") in found
    assert "worker-1.default.svc" in found["ConfigMap", "digits-cluster"]["data"]["worker.env"]


def test_variables_of_job_are_not_overridden() -> None:
    found = made(job(env={"TASK_INDEX": 7, "HOSTS": "$(WORKER_HOSTS)"}))
    script = found["ConfigMap", "digits-cluster"]["data"]["worker.env"]
    assert "TASK_INDEX" not in script
    assert "export HOSTS=" in script
    names = [variable["name"] for variable in main_container(found["Job", "digits-worker"])["env"]]
    assert "TASK_INDEX" in names
    assert "HOSTS" not in names


def test_init_containers_unpack_code_and_wait_for_files() -> None:
    volumes = {"data": Volume(nfs=Nfs(server="s", path="/p"), at="/data")}
    wanted = job(volumes=volumes, needs=("/data/train.csv",))
    body = made(wanted, code=code.Packed("digits-code"))["Job", "digits-worker"]
    first, second = body["spec"]["template"]["spec"]["initContainers"]
    assert (first["name"], second["name"]) == ("windlass-preflight", "windlass-code")
    assert "/p/train.csv on the NFS server s" in str(first["command"])
    assert main_container(body)["workingDir"] == code.FOLDER


def test_tasks_wait_for_loaded_data() -> None:
    loads = (LoadData(to="/data/digits", folder="./data"), LoadData(to="/data", command="touch x"))
    volumes = {"data": Volume(nfs=Nfs(server="s", path="/p"), at="/data")}
    wanted = job(volumes=volumes, load_data=loads)
    assert list(unsupported.errors(wanted)) == []
    folders = {"./data": b"archive"}
    (loading,) = (body for body in load_data.objects(wanted, folders) if body["kind"] == "Job")
    marks = [
        f"{load.to}/{word}"
        for load, step in zip(loads, loading["spec"]["template"]["spec"]["initContainers"], strict=True)
        for word in step["command"]
        if word.startswith(load_data.MARKER_PREFIX)
    ]
    bodies = [rendered.body for rendered in manifests.plain(wanted, folders=folders)]
    (first,) = bodies[-1]["spec"]["template"]["spec"]["initContainers"]
    assert len(marks) == 2
    assert set(marks) <= set(first["command"])


def test_host_network_sets_dns_policy() -> None:
    template = workload(job(pod={"spec": {"hostNetwork": True}}))["spec"]["template"]
    assert template["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_restart_policy_of_pod_is_kept() -> None:
    template = workload(job(pod={"spec": {"restartPolicy": "OnFailure"}}))["spec"]["template"]
    assert template["spec"]["restartPolicy"] == "OnFailure"


ARGUMENTS = {"spec": {"containers": [{"name": "main", "args": ["--fast"]}]}}
OWN_MOUNT = {
    "spec": {
        "containers": [{"name": "main", "volumeMounts": [{"name": "x", "mountPath": "/windlass/cluster"}]}]
    }
}
REFUSED: dict[str, tuple[Job, str]] = {
    "a long name": (job(name="a" * 60), "has 69 characters, but the limit is 63"),
    "a long StatefulSet": (
        job(name="a" * 50, runtime=Runtime.TENSORFLOW, roles={"ps": Role(), "worker": Role()}),
        "has 53 characters, but the limit is 52",
    ),
    "a digit first": (job(name="1st"), "1st begins with a digit"),
    "arguments only": (job(command=None, pod=ARGUMENTS), "has args but no command"),
    "our folder": (job(pod=OWN_MOUNT), "has a volume at /windlass/cluster"),
    "too many tasks": (
        job(roles={"worker": Role(tasks=9999), "a": Role(tasks=9999)}),
        "a ConfigMap holds 1048576",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_feature_is_rejected(case: str) -> None:
    wanted, message = REFUSED[case]
    (found,) = unsupported.errors(wanted)
    assert message in found
    assert "\n" not in found


def test_leading_digit_is_valid_without_job_name_prefix() -> None:
    (found,) = unsupported.errors(job(roles={"1a": Role()}), prefix="")
    assert "1a begins with a digit" in found
    assert list(unsupported.errors(job(name="1st"), prefix="")) == []


WARNINGS = {
    "a barrier": (job(barrier=True), "barrier"),
    "a deadline": (job(pending_deadline=60), "pendingDeadline"),
    "a variable of the controller": (job(env={"OUTPUT": "/output/$(FC_FRAMEWORK_UID)"}), "FC_FRAMEWORK_UID"),
    "completion": (
        job(roles={"worker": Role(completion=CompletionPolicySpec())}),
        "sets the completion of worker",
    ),
    "completion of the job": (job(completion=JobCompletion(task="worker-0")), "sets completion.task"),
    "start order": (
        job(roles={"ps": Role(), "worker": Role(after={"ps": StartCondition.READY})}),
        "sets after of worker, which needs the controller: the roles start at the same time",
    ),
    "fields of the Framework": (
        job(framework={"completionPolicies": [], "taskRoles": [{"name": "worker", "parallelism": 1}]}),
        "sets framework.completionPolicies and framework.taskRoles, which only Frameworks have",
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_lost_feature_is_a_warning(case: str) -> None:
    wanted, message = WARNINGS[case]
    (warning,) = unsupported.warnings(wanted)
    assert message in warning
    assert list(unsupported.warnings(job())) == []


ROLES = st.dictionaries(
    st.sampled_from(["ps", "worker", "chief", "tensorboard", "a1"]),
    st.builds(Role, tasks=st.integers(0, 3), port=st.none() | st.integers(1, 65535)),
    max_size=3,
)


@settings(deadline=None, max_examples=40)
@given(
    ROLES,
    st.sampled_from(list(Runtime)),
    st.sampled_from([None, code.Packed("x")]),
    st.sampled_from(["", "ns"]),
)
def test_any_job_renders_to_valid_objects(
    roles: dict[str, Role], runtime: Runtime, packed: code.Code | None, namespace: str
) -> None:
    wanted = job(roles={"main": Role(), **roles}, runtime=runtime, namespace=namespace)
    objects = manifests.plain(wanted, packed)
    assert [rendered.part for rendered in objects] == sorted(
        (rendered.part for rendered in objects), key=list(Part).index
    )
    for rendered in objects:
        assert list(kubernetes_schemas.faults(rendered.body)) == []
    assert manifests.plain(wanted, packed) == objects
