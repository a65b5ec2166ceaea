"""MPIJobs of the MPI operator 0.6 and the training operator 1.9: verdicts, host files and variables."""

from typing import Any

import pytest
import yaml
from tests.convert.outcomes import convert, play, rendered
from tests.convert.test_training_operator import job

from windlass.model.base import Json

V2 = "v2beta1"
TWO = "Launcher: 1, Worker: 2"


def objects(text: str) -> dict[str, Any]:
    return {f"{each['kind']} {each['metadata']['name']}": each for each in convert(text).objects}


def pod(text: str, role: str) -> Json:
    (found,) = (each for each in rendered(text)["spec"]["taskRoles"] if each["name"] == role)
    spec: Json = found["task"]["pod"]["spec"]
    return spec


def environment(text: str, role: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod(text, role)["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("version", "replicas", "spec", "steps", "expected"),
    [
        (V2, TWO, "", ["exit 0 launcher-0"], ("Succeeded", 1)),
        # Failed workers are neither replaced nor do they fail the job.
        (V2, TWO, "", ["exit 1 worker-0", "exit 1 worker-1"], ("Active", 1)),
        (V2, TWO, "", ["exit 1 worker-0", "exit 0 launcher-0"], ("Succeeded", 1)),
        # The launcher is a Job, with its backoffLimit.
        (V2, TWO, "runPolicy: {backoffLimit: 0}", ["exit 1 launcher-0"], ("Failed", 1)),
        (V2, TWO, "runPolicy: {backoffLimit: 1}", ["exit 1 launcher-0"] * 2, ("Failed", 2)),
        (V2, TWO, "runPolicy: {backoffLimit: 2}", ["restart launcher-0"] * 2, ("Failed", 1)),
        (V2, TWO, "", ["exit 1 launcher-0"] * 6, ("Active", 6)),
        (V2, TWO, "", ["exit 1 launcher-0"] * 7, ("Failed", 7)),
        # Restarts of workers are not counted.
        (V2, "Launcher: 1, Worker: 1 OnFailure", "", ["restart worker-0"] * 9, ("Active", 1)),
        ("v1", TWO, "", ["exit 0 launcher-0"], ("Succeeded", 1)),
        ("v1", TWO, "", ["exit 1 launcher-0"], ("Failed", 1)),
        ("v1", TWO, "", ["exit 1 worker-1"], ("Failed", 1)),
    ],
)
def test_verdict(version: str, replicas: str, spec: str, steps: list[str], expected: tuple[str, int]) -> None:
    found = play(job("MPIJob", replicas, spec, version), *steps)

    assert (found.verdict, found.pods["launcher"]) == expected


@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("delete worker-0", 3),
        ("disrupt worker-0", 3),
        ("exit 1 worker-0", 2),
        ("exit 143 worker-0", 2),
    ],
)
def test_only_a_deleted_or_lost_worker_is_replaced(step: str, count: int) -> None:
    assert play(job("MPIJob", TWO, version=V2), step).pods["worker"] == count


def test_launcher_is_kept_with_its_logs() -> None:
    spec = rendered(job("MPIJob", TWO, "runPolicy: {cleanPodPolicy: All}", V2))["spec"]
    first_version = rendered(job("MPIJob", TWO, "runPolicy: {cleanPodPolicy: All}"))["spec"]
    assert spec.get("completedPods", "Keep") == "Keep"
    assert first_version["completedPods"] == "Delete"


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ("", ["job-worker-0.job slots=1", "job-worker-1.job slots=1"]),
        ("slotsPerWorker: 2, mpiImplementation: Intel", ["job-worker-0.job:2", "job-worker-1.job:2"]),
        (
            "runLauncherAsWorker: true, mpiImplementation: MPICH",
            ["job-launcher.job:1", "job-worker-0.job:1", "job-worker-1.job:1"],
        ),
    ],
)
def test_host_file(spec: str, lines: list[str]) -> None:
    config = objects(job("MPIJob", TWO, spec, V2))["ConfigMap job-config"]

    assert config["data"]["hostfile"].splitlines() == lines


def test_host_file_contains_the_namespace_if_the_job_has_one() -> None:
    body = yaml.safe_load(job("MPIJob", TWO, version=V2))
    body["metadata"]["namespace"] = "team"

    config = objects(yaml.safe_dump(body))["ConfigMap job-config"]

    assert config["data"]["discover_hosts.sh"].splitlines() == [
        "#!/bin/sh",
        "echo job-worker-0.job.team.svc",
        "echo job-worker-1.job.team.svc",
    ]


@pytest.mark.parametrize(
    ("implementation", "expected"),
    [
        (
            "OpenMPI",
            {
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "OMPI_MCA_orte_set_default_slots": "3",
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            },
        ),
        ("Intel", {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "I_MPI_PERHOST": "3"}),
        ("MPICH", {"HYDRA_HOST_FILE": "/etc/mpi/hostfile"}),
    ],
)
def test_variables_of_the_launcher(implementation: str, expected: dict[str, str]) -> None:
    text = job("MPIJob", TWO, f"slotsPerWorker: 3, mpiImplementation: {implementation}", V2)

    found = environment(text, "launcher")

    assert found.items() >= {"K_MPI_JOB_ROLE": "launcher", "NVIDIA_VISIBLE_DEVICES": "", **expected}.items()
    assert environment(text, "worker")["K_MPI_JOB_ROLE"] == "worker"


def test_ssh_key_is_mounted_where_the_job_says() -> None:
    spec = pod(job("MPIJob", TWO, "sshAuthMountPath: /home/mpi/.ssh", V2), "worker")

    (volume,) = (each for each in spec["volumes"] if each["name"] == "ssh-auth")
    assert volume["secret"]["secretName"] == "job-ssh"
    assert [item["path"] for item in volume["secret"]["items"]] == ["id_rsa", "id_rsa.pub", "authorized_keys"]
    assert {"name": "ssh-auth", "mountPath": "/home/mpi/.ssh"} in spec["containers"][0]["volumeMounts"]


def test_worker_without_a_command_runs_sshd() -> None:
    text = job("MPIJob", TWO, version=V2)
    body = yaml.safe_load(text)
    del body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]

    assert pod(yaml.safe_dump(body), "worker")["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]


def test_launcher_may_wait_for_the_workers() -> None:
    text = job("MPIJob", TWO, "launcherCreationPolicy: WaitForWorkersReady", V2)

    assert play(text).pods == {"worker": 2}
    assert play(text, "ready worker-0", "ready worker-1").pods == {"worker": 2, "launcher": 1}


def test_first_version_runs_processes_by_kubectl_exec() -> None:
    text = job("MPIJob", TWO, "slotsPerWorker: 2, mainContainer: main")
    found = objects(text)

    assert sorted(found) == [
        "ConfigMap job-config",
        "Role job-launcher",
        "RoleBinding job-launcher",
        "ServiceAccount job-launcher",
    ]
    config = found["ConfigMap job-config"]["data"]
    assert config["hostfile"] == "job-worker-0 slots=2\njob-worker-1 slots=2\n"
    assert config["kubexec.sh"].endswith(
        '/opt/kube/kubectl exec ${POD_NAME} --container main -- /bin/sh -c "$*"'
    )
    assert found["Role job-launcher"]["rules"][1]["resourceNames"] == ["job-worker-0", "job-worker-1"]
    assert environment(text, "launcher")["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
    assert pod(text, "launcher")["serviceAccountName"] == "job-launcher"
