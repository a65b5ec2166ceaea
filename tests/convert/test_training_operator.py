"""Jobs of the training operator: what becomes of pods that fail, and the variables of the tasks, against its code in
release 1.9.4."""

import json
from typing import Any

import pytest
import yaml
from tests.convert.outcomes import Outcome, convert, framework, play, rendered

from windlass.convert.conversion import NoteKind
from windlass.model.base import Json
from windlass.objects import pod as pods

CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "JAXJob": "jax", "XGBoostJob": "xgboost"}
CONTAINERS |= {"PaddleJob": "paddle", "MPIJob": "main"}
FIELDS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "JAXJob": "jaxReplicaSpecs"}
FIELDS |= {"XGBoostJob": "xgbReplicaSpecs", "PaddleJob": "paddleReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def job(kind: str, replicas: str, spec: str = "", version: str = "v1") -> str:
    """Return a job in YAML. `replicas` are e.g. `PS: 1, Worker: 2 OnFailure`: type, number and restart policy."""
    specs: Json = {}
    for each in replicas.split(", "):
        name, _, rest = each.partition(": ")
        number, _, policy = rest.partition(" ")
        container = {"name": CONTAINERS[kind], "image": "i:1", "command": ["python", "train.py"]}
        specs[name] = {
            "replicas": int(number),
            **({"restartPolicy": policy} if policy else {}),
            "template": {"spec": {"containers": [container]}},
        }
    body = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "job"},
        "spec": {FIELDS[kind]: specs, **yaml.safe_load(f"{{{spec}}}")},
    }
    return yaml.safe_dump(body)


def verdict(text: str, *steps: str) -> tuple[str, dict[str, int]]:
    found: Outcome = play(text, *steps)
    return found.verdict, found.pods


def variables(text: str, role: str, index: int, container: int = 0) -> dict[str, Any]:
    """Return the variables that the controller sets or passes on in a pod of the job."""
    created = pods.pod(_with_attempt(text), role, index)
    found = created["spec"]["containers"][container]["env"]
    return {each["name"]: each.get("value") for each in found}


def _with_attempt(text: str) -> Any:
    from tests.decide.worlds import World

    world = World(framework(text))
    world.settle()
    return world.framework


# TFJob

TWO = "PS: 1, Worker: 2"


@pytest.mark.parametrize(
    ("replicas", "spec", "steps", "expected"),
    [
        (TWO, "", ["exit 0 worker-1"], "Active"),
        (TWO, "", ["exit 0 worker-0"], "Succeeded"),
        (TWO, "", ["exit 0 worker-1", "exit 0 worker-0"], "Succeeded"),
        (TWO, "", ["exit 1 worker-1"], "Failed"),
        (TWO, "", ["exit 1 ps-0"], "Failed"),
        (TWO, "successPolicy: AllWorkers", ["exit 0 worker-0"], "Active"),
        (TWO, "successPolicy: AllWorkers", ["exit 0 worker-0", "exit 0 worker-1"], "Succeeded"),
        ("Chief: 1, Worker: 2", "", ["exit 0 worker-0", "exit 0 worker-1"], "Active"),
        ("Chief: 1, Worker: 2", "", ["exit 0 chief-0"], "Succeeded"),
        ("Master: 1, Evaluator: 1", "", ["exit 0 master-0"], "Succeeded"),
        ("Chief: 1, Evaluator: 1", "", ["exit 1 evaluator-0"], "Failed"),
        (TWO, "enableDynamicWorker: true", ["exit 1 worker-1"], "Active"),
        (TWO, "enableDynamicWorker: true", ["exit 1 ps-0"], "Failed"),
        (TWO, "enableDynamicWorker: true", ["delete worker-0", "exit 0 worker-0"], "Succeeded"),
        (TWO, "enableDynamicWorker: true", ["exit 1 worker-1", "exit 0 worker-0"], "Succeeded"),
        (TWO, "enableDynamicWorker: true", ["exit 1 worker-0", "exit 0 worker-1"], "Failed"),
        (TWO, "enableDynamicWorker: true", ["exit 1 worker-0", "exit 143 worker-1"], "Failed"),
        (TWO, "enableDynamicWorker: true, successPolicy: AllWorkers", ["exit 1 worker-1"], "Active"),
        (
            TWO,
            "enableDynamicWorker: true, successPolicy: AllWorkers",
            ["exit 1 worker-1", "exit 0 worker-0"],
            "Failed",
        ),
        (
            "Chief: 1, Worker: 2",
            "enableDynamicWorker: true",
            ["exit 1 worker-0", "exit 143 worker-1", "exit 0 chief-0"],
            "Succeeded",
        ),
        # Keys are matched without case, as by the defaults of the operator.
        ("ps: 1, WORKER: 1", "", ["exit 0 worker-0"], "Succeeded"),
    ],
)
def test_tfjob_verdict(replicas: str, spec: str, steps: list[str], expected: str) -> None:
    assert play(job("TFJob", replicas, spec), *steps).verdict == expected


@pytest.mark.parametrize(
    ("policy", "spec", "steps", "expected"),
    [
        ("Never", "", ["exit 1 worker-0"], ("Failed", 1)),
        ("OnFailure", "", ["exit 1 worker-0", "exit 0 worker-0"], ("Succeeded", 2)),
        ("Always", "", ["disrupt worker-0"], ("Active", 2)),
        ("ExitCode", "", ["exit 127 worker-0"], ("Failed", 1)),
        ("ExitCode", "", ["exit 128 worker-0", "exit 137 worker-0", "exit 0 worker-0"], ("Succeeded", 3)),
        ("ExitCode", "", ["exit 130 worker-0", "exit 1 worker-0"], ("Failed", 2)),
        ("Never", "", ["delete worker-0"], ("Failed", 1)),
        # backoffLimit is the sum of container restarts; only 0 forbids replacing failed pods, but not deleted ones.
        ("Always", "backoffLimit: 0", ["delete worker-0", "delete worker-0"], ("Active", 3)),
        ("ExitCode", "backoffLimit: 0", ["delete worker-0", "exit 1 worker-0"], ("Failed", 2)),
        ("OnFailure", "backoffLimit: 0", ["disrupt worker-0"], ("Failed", 1)),
        ("OnFailure", "backoffLimit: 0", ["exit 1 worker-0"], ("Failed", 1)),
        ("ExitCode", "backoffLimit: 0", ["exit 130 worker-0"], ("Failed", 1)),
        ("ExitCode", "backoffLimit: 1", ["exit 130 worker-0", "exit 130 worker-0"], ("Active", 3)),
        ("OnFailure", "backoffLimit: 2", ["restart worker-0"], ("Active", 1)),
        ("OnFailure", "backoffLimit: 2", ["restart worker-0", "restart worker-0"], ("Failed", 1)),
        ("OnFailure", "backoffLimit: 0", ["restart worker-0"], ("Failed", 1)),
        ("OnFailure", "", ["restart worker-0"] * 9, ("Active", 1)),
        ("Never", "backoffLimit: 1", ["exit 1 worker-0"], ("Failed", 1)),
    ],
)
def test_restart_policy_and_backoff_limit(
    policy: str, spec: str, steps: list[str], expected: tuple[str, int]
) -> None:
    found, created = verdict(job("TFJob", f"Worker: 1 {policy}", f"runPolicy: {{{spec}}}"), *steps)

    assert (found, created["worker"]) == expected


def test_backoff_limit_precedes_the_success_of_worker_0() -> None:
    text = job("TFJob", "Worker: 2 OnFailure", "runPolicy: {backoffLimit: 1}")

    rules = framework(text).spec.completion_policies
    assert [rule.name for rule in rules] == ["backoffLimit", "worker-0 succeeded"]
    assert play(text, "exit 0 worker-0").verdict == "Succeeded"


def test_backoff_limit_sums_the_restarts_of_all_replicas_that_restart() -> None:
    text = job("TFJob", "PS: 1 Never, Worker: 2 OnFailure", "runPolicy: {backoffLimit: 2}")

    assert play(text, "restart worker-0", "restart ps-0").verdict == "Active"
    assert play(text, "restart worker-0", "restart worker-1").verdict == "Failed"


def test_tf_config_has_the_form_of_the_operator() -> None:
    # The order of keys is that of Go's encoding/json, and evaluators are part of the cluster.
    value = variables(job("TFJob", "Worker: 2, PS: 1, Evaluator: 1"), "worker", 1)["TF_CONFIG"]

    assert value == (
        '{"cluster":{"evaluator":["job-evaluator-0.default.svc:2222"],"ps":["job-ps-0.default.svc:2222"],'
        '"worker":["job-worker-0.default.svc:2222","job-worker-1.default.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


@pytest.mark.parametrize(
    ("role", "index", "cluster"),
    [
        (
            "worker",
            1,
            {"worker": {"1": "job-worker-1.default.svc:2222"}, "ps": ["job-ps-0.default.svc:2222"]},
        ),
        ("ps", 0, {"worker": {}, "ps": ["job-ps-0.default.svc:2222"]}),
        ("chief", 0, {"worker": {}, "ps": []}),
    ],
)
def test_dynamic_workers_get_a_sparse_tf_config(role: str, index: int, cluster: Json) -> None:
    text = job("TFJob", "Chief: 1, PS: 1, Worker: 2", "enableDynamicWorker: true")

    found = json.loads(variables(text, role, index)["TF_CONFIG"])

    assert found == {"cluster": cluster, "task": {"type": role, "index": index}}


def test_permanent_exit_code_of_a_dynamic_worker_fails_the_job() -> None:
    body = yaml.safe_load(job("TFJob", TWO, "enableDynamicWorker: true"))
    body["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    text = yaml.safe_dump(body)

    assert play(text, "exit 130 worker-1", "exit 127 worker-1").verdict == "Failed"
    assert play(text, "exit 130 worker-1").verdict == "Active"


def test_single_replica_gets_no_tf_config_of_the_operator() -> None:
    assert "environment" not in variables(job("TFJob", "Worker: 1"), "worker", 0)["TF_CONFIG"]


def test_port_of_the_replica_is_that_with_the_name_of_the_operator() -> None:
    body = yaml.safe_load(job("TFJob", TWO))
    container = body["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "web", "containerPort": 80}, {"name": "tfjob-port", "containerPort": 3333}]

    cluster = json.loads(variables(yaml.safe_dump(body), "worker", 0)["TF_CONFIG"])["cluster"]

    assert cluster["ps"] == ["job-ps-0.default.svc:3333"]


def test_every_replica_has_a_service_with_the_name_of_its_pod() -> None:
    found = convert(job("TFJob", TWO)).objects

    assert [(each["kind"], each["metadata"]["name"]) for each in found] == [
        ("Service", "job-ps-0"),
        ("Service", "job-worker-0"),
        ("Service", "job-worker-1"),
    ]
    assert found[2]["spec"]["selector"] == {
        "FC_FRAMEWORK_NAME": "job",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }
    assert found[2]["metadata"]["labels"] == {"windlass.dev/job": "job"}


def test_hostname_is_the_name_of_the_pod() -> None:
    created = pods.pod(_with_attempt(job("TFJob", TWO)), "worker", 1)

    assert created["metadata"]["name"] == created["spec"]["hostname"] == "job-worker-1"


def test_pods_have_the_labels_of_the_original() -> None:
    labels = pods.pod(_with_attempt(job("TFJob", TWO)), "worker", 1)["metadata"]["labels"]

    assert (
        labels.items()
        >= {
            "training.kubeflow.org/job-name": "job",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "1",
        }.items()
    )


# The other kinds


@pytest.mark.parametrize(
    ("kind", "replicas", "spec", "steps", "expected"),
    [
        ("PyTorchJob", "Master: 1, Worker: 1", "", ["exit 0 worker-0"], "Active"),
        ("PyTorchJob", "Master: 1, Worker: 1", "", ["exit 0 master-0"], "Succeeded"),
        ("PyTorchJob", "Worker: 2", "", ["exit 0 worker-0"], "Active"),
        ("PyTorchJob", "Worker: 2", "", ["exit 0 worker-0", "exit 0 worker-1"], "Succeeded"),
        ("PyTorchJob", "Worker: 2", "elasticPolicy: {maxReplicas: 3}", ["exit 0 worker-1"], "Succeeded"),
        # OnFailure is the default of PyTorchJobs, Never that of the others.
        ("PyTorchJob", "Worker: 1", "", ["exit 1 worker-0", "exit 0 worker-0"], "Succeeded"),
        ("PyTorchJob", "Worker: 1 Never", "", ["exit 1 worker-0"], "Failed"),
        ("JAXJob", "Worker: 2", "", ["exit 0 worker-0"], "Active"),
        ("JAXJob", "Worker: 2", "", ["exit 0 worker-1", "exit 0 worker-0"], "Succeeded"),
        ("JAXJob", "Worker: 2", "", ["exit 1 worker-1"], "Failed"),
        ("XGBoostJob", "Master: 1, Worker: 1", "", ["exit 0 worker-0"], "Active"),
        ("XGBoostJob", "Master: 1, Worker: 1", "", ["exit 0 master-0"], "Succeeded"),
        # The operator fails an XGBoostJob with a failed pod, whatever its restart policy, except ExitCode.
        ("XGBoostJob", "Master: 1, Worker: 1 OnFailure", "", ["exit 1 worker-0"], "Failed"),
        ("XGBoostJob", "Master: 1 ExitCode", "", ["exit 130 master-0", "exit 0 master-0"], "Succeeded"),
        ("PaddleJob", "Worker: 2", "", ["exit 0 worker-0", "exit 0 worker-1"], "Succeeded"),
        ("PaddleJob", "Master: 1, Worker: 1", "", ["exit 0 master-0"], "Succeeded"),
    ],
)
def test_verdict(kind: str, replicas: str, spec: str, steps: list[str], expected: str) -> None:
    assert play(job(kind, replicas, spec), *steps).verdict == expected


def test_pytorch_variables_with_a_master() -> None:
    found = variables(job("PyTorchJob", "Master: 1, Worker: 2", 'nprocPerNode: "4"'), "worker", 1)

    assert (
        found.items()
        >= {
            "MASTER_ADDR": "job-master-0",
            "MASTER_PORT": "23456",
            "PET_MASTER_ADDR": "job-master-0",
            "PET_MASTER_PORT": "23456",
            "WORLD_SIZE": "12",
            "RANK": "2",
            "PET_NODE_RANK": "2",
            "PET_NPROC_PER_NODE": "4",
            "PET_NNODES": "3",
            # torchrun's defaults, which the operator leaves.
            "PET_RDZV_BACKEND": "static",
            "PYTHONUNBUFFERED": "1",
        }.items()
    )


def test_pytorch_variables_of_an_elastic_job() -> None:
    policy = (
        "elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: etcd, rdzvPort: 29400, maxRestarts: 7, "
        "rdzvConf: [{key: a, value: x}, {key: b, value: z}], nProcPerNode: 2}"
    )
    found = variables(job("PyTorchJob", "Worker: 3", policy), "worker", 2)

    assert (
        found.items()
        >= {
            "PET_RDZV_ENDPOINT": "job-worker-0:29400",
            "PET_RDZV_BACKEND": "etcd",
            "PET_NNODES": "1:4",
            "PET_MAX_RESTARTS": "7",
            "PET_NPROC_PER_NODE": "2",
            "PET_RDZV_CONF": "a=x,b=z",
        }.items()
    )


def test_jax_variables() -> None:
    found = variables(job("JAXJob", "Worker: 2"), "worker", 1)

    assert {name: found[name] for name in found if name.startswith(("COORDINATOR", "NUM_", "PROCESS_"))} == {
        "COORDINATOR_ADDRESS": "job-worker-0",
        "COORDINATOR_PORT": "6666",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
    }


def test_xgboost_variables() -> None:
    found = variables(job("XGBoostJob", "Master: 1, Worker: 2"), "worker", 0)

    assert (
        found.items()
        >= {
            "MASTER_ADDR": "job-master-0",
            "MASTER_PORT": "9999",
            "WORLD_SIZE": "3",
            "RANK": "1",
            "WORKER_PORT": "9999",
            "WORKER_ADDRS": "job-worker-0,job-worker-1",
        }.items()
    )


def test_variables_are_in_all_containers_of_a_pytorch_job() -> None:
    body = yaml.safe_load(job("PyTorchJob", "Worker: 2"))
    containers = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "sidecar", "image": "i:1", "env": [{"name": "PET_NNODES", "value": "9"}]})

    created = pods.pod(_with_attempt(yaml.safe_dump(body)), "worker", 0)["spec"]["containers"]

    assert [each["name"] for each in created] == ["pytorch", "sidecar"]
    assert {"name": "PET_NNODES", "value": "2"} in created[1]["env"]


# The run policy


def test_run_policy_becomes_fields_of_the_job_file() -> None:
    policy = "runPolicy: {activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0, suspend: true, cleanPodPolicy: All}"
    spec = rendered(job("TFJob", "Worker: 1", policy))["spec"]

    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"], spec["suspend"]) == (60, 0, True)
    assert (spec["completedPods"], spec["retryPolicy"]["maxRetryCount"]) == ("Delete", 0)


def test_scheduling_policy_is_kept_in_an_annotation_with_a_warning() -> None:
    found = convert(job("TFJob", "Worker: 1", "runPolicy: {schedulingPolicy: {minAvailable: 2, queue: a}}"))

    assert found.document["annotations"]["windlass.dev/scheduling-policy"] == '{"minAvailable":2,"queue":"a"}'
    assert [note.path for note in found.notes if note.kind is NoteKind.NO_EFFECT] == [
        "spec.runPolicy.schedulingPolicy"
    ]


@pytest.mark.parametrize(
    ("kind", "replicas", "spec", "path"),
    [
        (
            "TFJob",
            "Worker: 1",
            "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}",
            "spec.runPolicy.managedBy",
        ),
        ("TFJob", "Worker: 1", "runPolicy: {cleanPodPolicy: Some}", "spec.runPolicy.cleanPodPolicy"),
        ("TFJob", "Chief: 1, Master: 1", "", "spec.tfReplicaSpecs.Master"),
        ("TFJob", "Worker: 1", "successPolicy: AllPS", "spec.successPolicy"),
        ("TFJob", "Worker: 1 Sometimes", "", "spec.tfReplicaSpecs.Worker.restartPolicy"),
        ("TFJob", "Trainer: 1", "", "spec.tfReplicaSpecs.Trainer"),
        ("TFJob", "Worker: 1", "tfReplicaSpec: {}", "spec.tfReplicaSpec"),
        ("PyTorchJob", "Master: 2", "", "spec.pytorchReplicaSpecs.Master.replicas"),
        ("PyTorchJob", "Master: 1", "elasticPolicy: {maxReplicas: 2}", "spec.elasticPolicy"),
        ("XGBoostJob", "Worker: 1", "", "spec.xgbReplicaSpecs"),
        ("MPIJob", "Worker: 1", "", "spec.mpiReplicaSpecs"),
        ("MPIJob", "Launcher: 1 ExitCode", "", "spec.mpiReplicaSpecs.Launcher.restartPolicy"),
    ],
)
def test_field_that_cannot_be_converted_is_refused(kind: str, replicas: str, spec: str, path: str) -> None:
    found = convert(job(kind, replicas, spec))

    assert path in [note.path for note in found.notes if note.kind is NoteKind.REFUSED]


def test_container_with_another_name_is_refused() -> None:
    found = convert(job("JAXJob", "Worker: 1").replace("name: jax", "name: main"))

    assert [note.text for note in found.notes if note.kind is NoteKind.REFUSED] == [
        "no container is named jax, which the operator requires: rename the main container"
    ]


# A network that all pods share


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TFJob", {"TF_CONFIG": '{"cluster":{"worker":["127.0.0.1:4000","127.0.0.1:4001"]},"task":'}),
        ("PyTorchJob", {"PET_NNODES": "2", "PET_NODE_RANK": "1"}),
        ("JAXJob", {"COORDINATOR_ADDRESS": "127.0.0.1", "COORDINATOR_PORT": "4000", "PROCESS_ID": "1"}),
    ],
)
def test_addresses_on_a_shared_network_are_those_of_the_tasks(kind: str, expected: dict[str, str]) -> None:
    options = pods.PodOptions(ports={"worker": 4000})
    containers = pods.pod(_with_attempt(job(kind, "Worker: 2")), "worker", 1, options)["spec"]["containers"]

    found: dict[str, str] = {each["name"]: each.get("value", "") for each in containers[0]["env"]}
    assert {name: found[name][: len(value)] for name, value in expected.items()} == expected
