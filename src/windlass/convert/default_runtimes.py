"""The runtimes that the Trainer installs, e.g. torch-distributed."""

from typing import Any

from windlass.model.base import Json

GROUP = "trainer.kubeflow.org"
API_VERSION = f"{GROUP}/v1alpha1"
CLUSTER_RUNTIME, NAMESPACED_RUNTIME = "ClusterTrainingRuntime", "TrainingRuntime"
VERSION = "2.3.0"
"""Version of the Trainer whose runtimes are the defaults."""

ANCESTOR = f"{GROUP}/trainjob-ancestor-step"
TRAINER, NODE, LAUNCHER = "trainer", "node", "launcher"

_IMAGES = {
    "torch": "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
    "jax": "nvcr.io/nvidia/jax:25.10-py3",
    "xgboost": "ghcr.io/kubeflow/trainer/xgboost-runtime",
}
"""Images of the runtimes that the Trainer installs for these policies, e.g. torch-distributed."""
_MPI_IMAGES = {
    "deepspeed": "ghcr.io/kubeflow/trainer/deepspeed-runtime",
    "mlx": "ghcr.io/kubeflow/trainer/mlx-runtime",
}


def default_runtime(name: str) -> Json | None:
    """Return a runtime that the Trainer installs; None if it is not known."""
    library = name.removesuffix("-distributed")
    if name == library:
        return None
    if library in _IMAGES:
        job = _default_job(NODE, _IMAGES[library], TRAINER)
        return _default(name, {library: {}}, {"replicatedJobs": [job]})
    if library not in _MPI_IMAGES:
        return None
    policy = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "runLauncherAsNode": True,
    }
    node = _default_job(
        NODE,
        _MPI_IMAGES[library],
        "",
        command=["/usr/sbin/sshd"],
        args=["-De", "-f", "/home/mpiuser/.sshd_config"],
        readinessProbe={"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5},
        securityContext={"runAsUser": 1000},
    )
    launcher = _default_job(LAUNCHER, _MPI_IMAGES[library], TRAINER, securityContext={"runAsUser": 1000})
    launcher["dependsOn"] = [{"name": NODE, "status": "Ready"}]
    for job in (node, launcher):
        job["template"]["spec"]["template"]["spec"]["securityContext"] = {"fsGroup": 1000}
    spec = {
        "network": {"publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [LAUNCHER]},
        "replicatedJobs": [node, launcher],
    }
    return _default(name, {"mpi": policy}, spec)


def _default(name: str, policy: Json, spec: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": CLUSTER_RUNTIME,
        "metadata": {"name": name},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": spec}},
    }


def _default_job(name: str, image: str, ancestor: str, **container: Any) -> Json:
    pod = {"containers": [{"name": NODE, "image": image, **container}]}
    template: Json = {"spec": {"template": {"spec": pod}}}
    if ancestor:
        template["metadata"] = {"labels": {ANCESTOR: ancestor}}
    return {"name": name, "template": template}
