"""TrainJobs: what the Trainer makes of them and their runtimes, and the resulting job."""

from typing import Any

import pytest
import yaml
from tests.convert import outcomes

from windlass.convert import kinds, torchtune, training_runtime, trainjob
from windlass.convert.conversion import Conversion, NoteKind
from windlass.model.base import Json
from windlass.render import documents

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def replicated(name: str = "node", step: str = "trainer", **container: Any) -> Json:
    body = {"name": name if step != "trainer" else "node", "image": "image:1", **container}
    template: Json = {"spec": {"template": {"spec": {"containers": [body]}}}}
    if step:
        template["metadata"] = {"labels": {STEP: step}}
    return {"name": name, "template": template}


def runtime(policy: Json | None = None, *jobs: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "own"},
        "spec": {
            "mlPolicy": {"numNodes": 2, **(policy or {})},
            "template": {"spec": {"replicatedJobs": list(jobs or (replicated(),))}},
            **spec,
        },
    }


def train_job(trainer: Json | None = None, *, name: str = "own", **spec: Any) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "digits", "labels": {"team": "a"}},
        "spec": {"runtimeRef": {"name": name}, "trainer": trainer or {"command": ["train"]}, **spec},
    }


def job_set(of: Json, made_by: Json) -> Json:
    problems, made = training_runtime.job_set(of, made_by)
    assert problems == []
    assert made is not None
    return made.job_set


def container_of(body: Json, job: str = "node") -> Json:
    (found,) = [each for each in body["spec"]["replicatedJobs"] if each["name"] == job]
    container: Json = found["template"]["spec"]["template"]["spec"]["containers"][0]
    return container


def env_of(container: Json) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env") or ()}


def converted(of: Json, *others: Json) -> Conversion:
    return kinds.convert(of, trainjob.KINDS[0], others)


RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
GPUS = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}}
PROCESSES: dict[str, tuple[Json, str]] = {
    "one without resources": ({}, "1"),
    "a number": ({"numProcPerNode": 3}, "3"),
    "CPUs": ({"resourcesPerNode": {"requests": {"cpu": "1500m"}}}, "2"),
    "requested CPUs before the limit": (
        {"resourcesPerNode": {"requests": {"cpu": 2}, "limits": {"cpu": 8}}},
        "2",
    ),
    "GPUs": (GPUS, "auto"),
}


@pytest.mark.parametrize(("fields", "expected"), PROCESSES.values(), ids=PROCESSES.keys())
def test_torch_sets_the_variables_of_torchrun(fields: Json, expected: str) -> None:
    body = job_set(train_job({"command": ["torchrun"], "numNodes": 3, **fields}), runtime({"torch": {}}))
    container = container_of(body)
    assert env_of(container) == {
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": expected,
        "PET_NODE_RANK": RANK,
        "PET_MASTER_ADDR": "digits-node-0-0.digits",
        "PET_MASTER_PORT": "29500",
    }
    assert container["ports"] == [{"containerPort": 29500}]
    job_spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job_spec["parallelism"], job_spec["completions"]) == (3, 3)


def test_trainer_replaces_the_runtime() -> None:
    given = replicated(
        command=["old"], args=["a"], env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    )
    trainer = {"image": "image:2", "command": ["new"], "args": ["b"], "env": [{"name": "A", "value": "3"}]}
    container = container_of(job_set(train_job(trainer), runtime(None, given)))
    assert (container["image"], container["command"], container["args"]) == ("image:2", ["new"], ["b"])
    assert env_of(container) == {"A": "3", "B": "2"}


def test_number_of_nodes_of_the_runtime_is_the_default() -> None:
    body = job_set(train_job(), runtime({"torch": {}}))
    assert body["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 2
    assert env_of(container_of(body))["PET_NNODES"] == "2"


def test_resources_are_merged() -> None:
    given = replicated(resources={"requests": {"cpu": 1, "memory": "1Gi"}})
    body = job_set(train_job({"resourcesPerNode": {"requests": {"cpu": 2}}}), runtime(None, given))
    assert container_of(body)["resources"] == {"requests": {"cpu": 2, "memory": "1Gi"}}


def test_jax_and_xgboost() -> None:
    jax = env_of(container_of(job_set(train_job(), runtime({"jax": {}}))))
    assert jax == {
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": RANK,
        "JAX_COORDINATOR_ADDRESS": "digits-node-0-0.digits:29500",
    }
    xgboost = env_of(container_of(job_set(train_job(GPUS), runtime({"xgboost": {}}))))
    assert xgboost == {
        "DMLC_TRACKER_URI": "digits-node-0-0.digits",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": RANK,
        "DMLC_NUM_WORKER": "8",
    }


MPI = {"mpi": {"numProcPerNode": 1, "sshAuthMountPath": "/home/mpiuser/.ssh", "runLauncherAsNode": True}}


def test_mpi_hosts_key_and_variables() -> None:
    launcher = replicated("launcher")
    _, made = training_runtime.job_set(
        train_job({"numNodes": 3, **GPUS}), runtime(MPI, replicated("node", ""), launcher)
    )
    assert made is not None
    (hosts,) = made.objects
    assert hosts["metadata"]["name"] == "digits-mpi-hostfile"
    assert hosts["data"]["hostfile"].splitlines() == [
        "digits-node-0-0.digits slots=4",
        "digits-node-0-1.digits slots=4",
        "digits-launcher-0-0.digits slots=4",
        "digits-launcher-0-1.digits slots=4",
    ]
    assert made.needs_ssh_key
    variables = env_of(container_of(made.job_set, "launcher"))
    assert variables["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert variables["OMPI_MCA_orte_set_default_slots"] == "4"
    mounts = [each["mountPath"] for each in container_of(made.job_set, "launcher")["volumeMounts"]]
    assert mounts == ["/home/mpiuser/.ssh", "/etc/mpi"]


def test_initializers() -> None:
    steps = [replicated(name, name) for name in ("dataset-initializer", "model-initializer")]
    initializer = {
        "dataset": {"storageUri": "hf://a/b", "secretRef": {"name": "token"}},
        "model": {"env": [{"name": "A", "value": "1"}]},
    }
    body = job_set(train_job(initializer=initializer), runtime(None, *steps, replicated()))
    dataset = container_of(body, "dataset-initializer")
    assert env_of(dataset) == {"STORAGE_URI": "hf://a/b"}
    assert dataset["envFrom"] == [{"secretRef": {"name": "token"}}]
    assert env_of(container_of(body, "model-initializer")) == {"A": "1"}


def patch(**pod: Any) -> Json:
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicatedJobs": [job]}}
    return {"manager": "example.com/user", "trainingRuntimeSpec": {"template": template}}


def test_runtime_patches_are_merged() -> None:
    patches = [patch(nodeSelector={"a": "1"}), patch(nodeSelector={"b": "2"}, serviceAccountName="x")]
    body = job_set(train_job(runtimePatches=patches), runtime())
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["serviceAccountName"]) == ({"a": "1", "b": "2"}, "x")
    assert [each["name"] for each in pod["containers"]] == ["node"]
    assert body["metadata"]["labels"] == {"a": "b"}


TUNED: dict[str, tuple[Json, list[str]]] = {
    "one device": ({"processes": 1}, ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
    "one GPU": ({"gpus": 1}, ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
    "several GPUs": (
        {"gpus": 2},
        ["--rdzv_endpoint=host:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full"],
    ),
    "several nodes": (
        {"nodes": 2},
        ["--rdzv_endpoint=host:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full_multinode"],
    ),
    "LoRA": (
        {"processes": 1, "arguments": ["model.lora_attn_modules=[q_proj]"]},
        ["lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"],
    ),
    "QLoRA": (
        {"gpus": 2, "arguments": ["model.quantize_base=True"]},
        ["--rdzv_endpoint=host:29500", "lora_finetune_distributed", "--config", "llama3_2/1B_qlora"],
    ),
    "DoRA is not QLoRA": (
        {"processes": 1, "arguments": ["model.quantize_base=True", "model.use_dora=true"]},
        ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), TUNED.values(), ids=TUNED.keys())
def test_command_of_torchtune(fields: Json, expected: list[str]) -> None:
    given = ["tune", "run", "recipe", "output_dir=/out", "dataset=a"]
    defaults: Json = {"nodes": 1, "processes": "auto", "gpus": 0, "arguments": ()}
    found = torchtune.command(
        **{**defaults, **fields}, runtime="torchtune-llama3.2-1b", endpoint="host:29500", given=given
    )
    assert found == ["tune", "run", *expected, "output_dir=/out"]


# The job


def test_runtime_of_the_file_is_used_and_not_created() -> None:
    own = runtime({"torch": {}})
    text = yaml.safe_dump_all([own, train_job()])
    contents = documents.read(text.encode(), "job.yaml")
    assert contents.errors == ()
    assert "ClusterTrainingRuntime" not in [each["kind"] for each in contents.manifests]
    (submission,) = contents.submissions
    assert submission.job is not None
    assert (submission.job.name, submission.job.labels["team"]) == ("digits", "a")


def test_job_of_a_default_runtime_runs() -> None:
    text = yaml.safe_dump(train_job({"numNodes": 1, "command": ["train"]}, name="torch-distributed"))
    found = outcomes.play(text, "exit 1 node-0", "exit 0 node-0")
    assert (found.verdict, found.pods) == ("Succeeded", {"node": 2})
    notes = [note.text for note in outcomes.convert(text).notes if note.path == "spec.runtimeRef"]
    assert any("the one that Trainer 2.3.0 installs is used" in note for note in notes)


@pytest.mark.parametrize("name", ["deepspeed-distributed", "mlx-distributed"])
def test_launcher_of_a_default_runtime_waits_for_its_nodes(name: str) -> None:
    text = yaml.safe_dump(train_job({"numNodes": 2, "command": ["mpirun"]}, name=name))
    played = outcomes.Play(text)
    assert played.outcome().pods == {"node": 1}
    found = played.run("ready node-0", "exit 0 launcher-0")
    assert (found.verdict, found.pods) == ("Succeeded", {"node": 1, "launcher": 1})


def test_deadline_suspension_and_scheduling_policy() -> None:
    found = converted(
        train_job(activeDeadlineSeconds=60, suspend=True),
        runtime(None, podGroupPolicy={"coscheduling": {"scheduleTimeoutSeconds": 5}}),
    )
    assert found.document["activeDeadline"] == 60
    assert found.document["framework"]["suspend"] is True
    expected = '{"coscheduling":{"scheduleTimeoutSeconds":5}}'
    assert found.document["annotations"]["windlass.dev/scheduling-policy"] == expected
    assert found.document["annotations"]["windlass.dev/converted-from"] == "TrainJob/digits"


def test_positions_of_the_trainer() -> None:
    found = converted(train_job({"command": ["train"], "numNodes": 2}), runtime())
    assert found.origin(("roles", "node", "command", 0)) == ("spec", "trainer", "command", 0)
    assert found.origin(("roles", "node", "tasks")) == ("spec", "trainer", "numNodes")
    assert found.origin(("roles", "node", "image")) == ("spec", "runtimeRef")


PATCHED_POD = (
    "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
)
REFUSED: dict[str, tuple[Json, Json, str]] = {
    "a missing runtime": (train_job(name="other"), runtime(), "spec.runtimeRef"),
    "another manager": (train_job(managedBy="kueue.x-k8s.io/multikueue"), runtime(), "spec.managedBy"),
    "Flux": (train_job(), runtime({"flux": {"numProcPerNode": 1}}), "spec.runtimeRef"),
    "a field of the runtime's JobSet": (
        train_job(),
        runtime(None, {**replicated(), "surprise": 1}),
        "spec.runtimeRef",
    ),
    "a reserved variable": (
        train_job({"env": [{"name": "PET_NNODES", "value": "1"}]}),
        runtime({"torch": {}}),
        "spec.trainer.env[0]",
    ),
    "a patch of an unknown container": (
        train_job(runtimePatches=[patch(containers=[{"name": "other"}])]),
        runtime(),
        f"{PATCHED_POD}.containers[0]",
    ),
    "an initializer that the runtime does not have": (
        train_job(initializer={"model": {"storageUri": "hf://a/b"}}),
        runtime(),
        "spec.initializer.model",
    ),
    "a value of another type": (train_job({"numNodes": "two"}), runtime(), "spec.trainer.numNodes"),
    "an unknown field": (train_job({"gpus": 2}), runtime(), "spec.trainer.gpus"),
}


@pytest.mark.parametrize(("of", "made_by", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_field_is_named(of: Json, made_by: Json, path: str) -> None:
    notes = converted(of, made_by).notes
    assert path in [note.path for note in notes if note.kind is NoteKind.REFUSED]


def test_needed_runtime_is_named_for_a_live_job() -> None:
    (needed,) = trainjob.needs(train_job())
    assert (needed.plural, needed.name, needed.is_namespaced) == ("clustertrainingruntimes", "own", False)
