"""The variables that the training operator sets in pods, in its exact form.

Host names and ports are those of the original: each replica has a headless Service with the name of its pod. On an
embedded cluster whose pods share one network, the controller replaces the addresses by those of the tasks.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.convert.conversion import Draft
from windlass.convert.training_operator import INDEX, Replicas, host_name
from windlass.model import names
from windlass.model.base import Json

_NAMESPACE = "{{" + names.FRAMEWORK_NAMESPACE + "}}"


def put_variables(
    draft: Draft, role: str, variables: Mapping[str, Any], *, all_containers: bool = True
) -> None:
    """Put variables into the main container of a role, or into all of its containers."""
    draft.merge(("roles", role, "env"), dict(variables))
    pod: Json = draft.document["roles"][role].get("pod") or {}
    main = draft.document["roles"][role].get("container")
    for container in (pod.get("spec") or {}).get("containers") or () if all_containers else ():
        if container.get("name") != main:
            kept = [each for each in container.get("env") or () if each.get("name") not in variables]
            container["env"] = [
                *kept,
                *({"name": name, "value": value} for name, value in variables.items()),
            ]


def rank(offset: int) -> str:
    """Return the index of a task plus an offset, as a placeholder."""
    return "{{" + names.TASK_INDEX + (f"+{offset}" if offset else "") + "}}"


def total(replicas: Mapping[str, Replicas]) -> int:
    return sum(each.count for each in replicas.values())


# TensorFlow


def put_tf_config(draft: Draft, replicas: Mapping[str, Replicas], *, is_dynamic: bool) -> None:
    """Put TF_CONFIG into the main containers, unless the job has a single replica."""
    if total(replicas) == 1:
        return
    cluster = {
        each.type.lower(): [_tf_address(draft, each, str(index)) for index in range(each.count)]
        for each in sorted(replicas.values(), key=lambda each: each.type.lower())
    }
    for each in replicas.values():
        parts = _sparse(draft, cluster, each) if is_dynamic else cluster
        task = f'"task":{{"type":"{each.type.lower()}","index":{INDEX}}}'
        environment = "" if is_dynamic else ',"environment":"cloud"'
        value = f'{{"cluster":{msgspec.json.encode(parts).decode()},{task}{environment}}}'
        put_variables(draft, each.role, {"TF_CONFIG": value}, all_containers=False)


def _sparse(draft: Draft, cluster: Mapping[str, list[str]], replicas: Replicas) -> Json:
    """Return the cluster of a job with dynamic workers: a worker knows itself and the parameter servers."""
    own = _tf_address(draft, replicas, INDEX)
    if replicas.type == "PS":
        return {"worker": {}, "ps": [own]}
    if replicas.type == "Worker":
        return {"worker": {INDEX: own}, "ps": cluster.get("ps")}
    return {"worker": {}, "ps": []}


def _tf_address(draft: Draft, replicas: Replicas, index: str) -> str:
    return f"{host_name(draft, replicas, index)}.{_NAMESPACE}.svc:{replicas.port}"


# PyTorch

_TORCHRUN_DEFAULTS = {
    "PET_RDZV_BACKEND": "static",
    "PET_RDZV_ENDPOINT": "",
    "PET_RDZV_ID": "none",
    "PET_RDZV_CONF": "",
}
"""The training operator does not set these variables, and Windlass does: torchrun assigns other ranks with them."""


def put_pytorch(draft: Draft, replicas: Mapping[str, Replicas], processes: str, elastic: Json | None) -> None:
    """Put the variables of init_process_group and torchrun."""
    size = total(replicas) * (int(processes) if processes.isdecimal() else 1)
    master = replicas.get("Master")
    for each in replicas.values():
        offset = master.count if master is not None and each is not master else 0
        variables: dict[str, str] = {
            "PYTHONUNBUFFERED": "1",
            **(_TORCHRUN_DEFAULTS if elastic is None else {}),
        }
        if master is not None:
            address = {"PORT": str(master.port), "ADDR": host_name(draft, master, 0)}
            for name, value in address.items():
                variables |= {f"MASTER_{name}": value, f"PET_MASTER_{name}": value}
            number = rank(offset)
            variables |= {"WORLD_SIZE": str(size), "RANK": number, "PET_NODE_RANK": number}
        if processes:
            variables["PET_NPROC_PER_NODE"] = processes
        if elastic is None:
            variables["PET_NNODES"] = str(total(replicas))
        else:
            variables |= _elastic(draft, elastic, replicas["Worker"])
        put_variables(draft, each.role, variables)


def _elastic(draft: Draft, policy: Json, worker: Replicas) -> dict[str, str]:
    host = policy.get("rdzvHost") or host_name(draft, worker, 0)
    least, most = elastic_range(policy, worker)
    variables = {
        "PET_RDZV_ENDPOINT": f"{host}:{policy.get('rdzvPort') or worker.port}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d",
        "PET_NNODES": f"{least}:{most}",
    }
    for variable, field in (
        ("PET_MAX_RESTARTS", "maxRestarts"),
        ("PET_NPROC_PER_NODE", "nProcPerNode"),
        ("PET_RDZV_ID", "rdzvId"),
    ):
        if policy.get(field) is not None:
            variables[variable] = str(policy[field])
    configuration = policy.get("rdzvConf")
    # Without it, the variable of Windlass would apply.
    variables["PET_RDZV_CONF"] = ",".join(
        f"{each.get('key', '')}={each.get('value', '')}" for each in configuration or ()
    )
    if policy.get("standalone"):
        variables["PET_STANDALONE"] = ""
    return variables


def elastic_range(policy: Json, worker: Replicas) -> tuple[int, int]:
    """Return the minimum and maximum number of workers of an elasticPolicy."""
    given = [policy[name] for name in ("minReplicas", "maxReplicas") if policy.get(name) is not None]
    return (given[0], given[-1]) if given else (worker.count, worker.count)


# JAX, XGBoost and PaddlePaddle


def put_jax(draft: Draft, replicas: Mapping[str, Replicas]) -> None:
    worker = replicas["Worker"]
    variables = {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(worker.port),
        "COORDINATOR_ADDRESS": host_name(draft, worker, 0),
        "NUM_PROCESSES": str(total(replicas)),
        "PROCESS_ID": INDEX,
    }
    put_variables(draft, worker.role, variables)


def put_xgboost(draft: Draft, replicas: Mapping[str, Replicas]) -> None:
    master, size = replicas["Master"], total(replicas)
    worker = replicas.get("Worker")
    for each in replicas.values():
        variables = {
            "MASTER_PORT": str(master.port),
            "MASTER_ADDR": host_name(draft, master, 0),
            "WORLD_SIZE": str(size),
            "RANK": rank(0 if each is master else master.count),
            "PYTHONUNBUFFERED": "1",
        }
        if worker is not None and size > 1:
            workers = (host_name(draft, worker, index) for index in range(size - 1))
            variables |= {"WORKER_PORT": str(worker.port), "WORKER_ADDRS": ",".join(workers)}
        put_variables(draft, each.role, variables)


def put_paddle(draft: Draft, replicas: Mapping[str, Replicas]) -> None:
    """Put the variables of PaddlePaddle. All tasks get the name of the first one: the original gives the first its own
    IP address instead."""
    master = replicas.get("Master")
    first = master or replicas["Worker"]
    for each in replicas.values():
        variables = {
            "PYTHONUNBUFFERED": "1",
            "PADDLE_JOB_ID": draft.name,
            "PADDLE_NNODES": str(total(replicas)),
            "PADDLE_MASTER": f"{host_name(draft, first, 0)}:{first.port}",
        }
        if master is not None:
            variables["PADDLE_SERVER_NUM" if each is master else "PADDLE_TRAINER_NUM"] = "1"
        put_variables(draft, each.role, variables)
