"""PyTorchJob, JAXJob, XGBoostJob and PaddleJob of the training operator.

A master decides the success of the job, otherwise all workers, or any worker of an elastic PyTorchJob. A failed pod
that is not restarted fails the job.
"""

from collections.abc import Mapping

from windlass.convert import training_environment as environment
from windlass.convert import training_operator
from windlass.convert.conversion import Draft
from windlass.convert.fields import Fields, Kind
from windlass.convert.training_operator import NEVER, ON_FAILURE, ReplicaKind, Replicas

_AUTOSCALER = "no autoscaler is created: change the number of workers with `windlass scale`"

PYTORCH = ReplicaKind(
    "pytorchReplicaSpecs", ("Master", "Worker"), "pytorch", "pytorchjob-port", 23456, ON_FAILURE
)
JAX = ReplicaKind("jaxReplicaSpecs", ("Worker",), "jax", "jaxjob-port", 6666, NEVER)
XGBOOST = ReplicaKind(
    "xgbReplicaSpecs",
    ("Master", "Worker"),
    "xgboost",
    "xgboostjob-port",
    9999,
    NEVER,
    replaces_failed_pods=False,
)
PADDLE = ReplicaKind("paddleReplicaSpecs", ("Master", "Worker"), "paddle", "master", 36543, ON_FAILURE)


def _put(draft: Draft, kind: ReplicaKind, runtime: str) -> Mapping[str, Replicas] | None:
    """Put roles, policies and completion of a job. Return its replicas, or None if it cannot be converted."""
    draft.put(("runtime",), runtime, ("kind",))
    replicas = training_operator.put_replicas(draft, kind)
    training_operator.put_run_policy(draft, replicas)
    master = replicas.get("Master")
    if master is not None and master.count != 1:
        draft.refuse((*master.keys, "replicas"), f"found {master.count}, but a job has exactly one master")
    for each in replicas.values():
        training_operator.put_completion(draft, each, decides=master is None or each is master)
    return None if draft.is_refused else replicas


def convert_pytorch(draft: Draft) -> None:
    elastic, processes = draft.get("elasticPolicy"), draft.get("nprocPerNode")
    replicas = _put(draft, PYTORCH, "pytorch")
    if replicas is None:
        return
    worker = replicas.get("Worker")
    if elastic is not None and worker is None:
        draft.refuse(("spec", "elasticPolicy"), "the job has no Worker: add one, or remove elasticPolicy")
        return
    if elastic is not None and worker is not None:
        _put_elastic(draft, elastic, worker, has_master="Master" in replicas)
    if processes is None and (elastic or {}).get("nProcPerNode") is None:
        processes = "auto"
    environment.put_pytorch(draft, replicas, str(processes or ""), elastic)
    if "Master" in replicas and worker is not None:
        draft.note(
            worker.keys,
            "there is no init container that waits for the name of the master: PyTorch retries the connection",
        )


def _put_elastic(draft: Draft, policy: dict[str, object], worker: Replicas, *, has_master: bool) -> None:
    keys = ("spec", "elasticPolicy")
    least, most = environment.elastic_range(policy, worker)
    if not 1 <= least <= most:
        draft.refuse(keys, f"found minReplicas {least} and maxReplicas {most}: expected 1 ≤ min ≤ max")
    elif least <= worker.count <= most:
        draft.put(("roles", worker.role, "elastic"), {"min": least, "max": most}, keys)
    if not has_master:
        draft.put(
            ("roles", worker.role, "completion"),
            {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
            keys,
            "an elastic PyTorchJob succeeds with its first worker",
        )


def convert_jax(draft: Draft) -> None:
    replicas = _put(draft, JAX, "jax")
    if replicas is not None:
        environment.put_jax(draft, replicas)


def convert_xgboost(draft: Draft) -> None:
    replicas = _put(draft, XGBOOST, "plain")
    if replicas is None:
        return
    if "Master" not in replicas:
        draft.refuse(("spec", XGBOOST.field), "an XGBoostJob needs a Master: add one")
        return
    environment.put_xgboost(draft, replicas)


def convert_paddle(draft: Draft) -> None:
    replicas = _put(draft, PADDLE, "plain")
    if replicas is not None:
        environment.put_paddle(draft, replicas)


_ELASTIC = ("minReplicas", "maxReplicas")
_PYTORCH_ELASTIC = (
    *_ELASTIC,
    "rdzvBackend",
    "rdzvPort",
    "rdzvHost",
    "rdzvId",
    "rdzvConf",
    "standalone",
    "nProcPerNode",
    "maxRestarts",
)

_PYTORCH_TYPES = {
    "spec.nprocPerNode": str,
    "spec.elasticPolicy": dict,
    **{f"spec.elasticPolicy.{name}": int for name in (*_ELASTIC, "rdzvPort", "nProcPerNode", "maxRestarts")},
    **{f"spec.elasticPolicy.{name}": str for name in ("rdzvBackend", "rdzvHost", "rdzvId")},
    "spec.elasticPolicy.rdzvConf": list,
    "spec.elasticPolicy.rdzvConf.*": dict,
    "spec.elasticPolicy.standalone": bool,
}

KINDS = (
    Kind(
        training_operator.API_VERSION,
        "PyTorchJob",
        "pytorchjobs",
        PYTORCH.fields("spec.nprocPerNode", *(f"spec.elasticPolicy.{each}" for each in _PYTORCH_ELASTIC))
        | Fields((), {"spec.elasticPolicy.metrics": _AUTOSCALER}, types=_PYTORCH_TYPES),
        convert_pytorch,
    ),
    Kind(training_operator.API_VERSION, "JAXJob", "jaxjobs", JAX.fields(), convert_jax),
    Kind(training_operator.API_VERSION, "XGBoostJob", "xgboostjobs", XGBOOST.fields(), convert_xgboost),
    Kind(
        training_operator.API_VERSION,
        "PaddleJob",
        "paddlejobs",
        PADDLE.fields()
        | Fields(
            (),
            {
                "spec.elasticPolicy": "the training operator passes only the number of workers to PaddlePaddle",
                "spec.elasticPolicy.metrics": _AUTOSCALER,
            },
        ),
        convert_paddle,
    ),
)
