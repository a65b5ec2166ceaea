"""The variables of a task for each runtime, as a table."""

import json
from collections.abc import Mapping
from typing import Any

import builders
import gang_objects
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.discovery import environment
from windlass.model import names
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework


def framework(runtime: str, roles: Mapping[str, int], *, pod: Any = None, name: str = "digits") -> Framework:
    annotations = {names.RUNTIME_ANNOTATION: runtime} if runtime else {}
    return builders.framework(
        name, *(builders.role(role, tasks, pod=pod) for role, tasks in roles.items()), annotations=annotations
    )


class Told(msgspec.Struct, frozen=True):
    runtime: str
    roles: dict[str, int]
    task: tuple[str, int]
    expected: dict[str, str]


def tf_config(cluster: dict[str, list[str]], kind: str, index: int) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}, separators=(",", ":"))


def spec(cluster: dict[str, list[str]]) -> str:
    return json.dumps(cluster, separators=(",", ":"))


PS_AND_WORKER = {"ps": ["ps-0.digits:2222"], "worker": ["worker-0.digits:2222", "worker-1.digits:2222"]}
WITH_CHIEF = {"chief": ["master-0.digits:2222"], "worker": ["workers-0.digits:2222"]}
TWICE_WORKERS = {"worker": ["worker-0.digits:2222", "workers-0.digits:2222", "workers-1.digits:2222"]}

LISTS = {
    "PS_HOSTS": "ps-0.digits:2222",
    "WORKER_HOSTS": "worker-0.digits:2222,worker-1.digits:2222",
}
OLD_LISTS = {"worker_hosts": LISTS["WORKER_HOSTS"], "ps_hosts": LISTS["PS_HOSTS"]}

TABLE = {
    "tensorflow": Told(
        "tensorflow",
        {"ps": 1, "worker": 2},
        ("worker", 1),
        {
            "TF_CONFIG": tf_config(PS_AND_WORKER, "worker", 1),
            "CLUSTER_CONFIG": spec(PS_AND_WORKER),
            **LISTS,
            "JOB_NAME": "worker",
            "TASK_INDEX": "1",
            **OLD_LISTS,
            "taskindex": "1",
        },
    ),
    "tensorflow-master-and-workers": Told(
        "tensorflow",
        {"master": 1, "workers": 1},
        ("master", 0),
        {
            "TF_CONFIG": tf_config(WITH_CHIEF, "chief", 0),
            "CLUSTER_CONFIG": spec(WITH_CHIEF),
            "CHIEF_HOSTS": "master-0.digits:2222",
            "WORKER_HOSTS": "workers-0.digits:2222",
            "JOB_NAME": "chief",
            "TASK_INDEX": "0",
            "worker_hosts": "workers-0.digits:2222",
            "taskindex": "0",
        },
    ),
    "tensorflow-evaluator-looks-on": Told(
        "tensorflow",
        {"ps": 1, "worker": 2, "evaluator": 1},
        ("evaluator", 0),
        {
            "TF_CONFIG": tf_config(PS_AND_WORKER, "evaluator", 0),
            "CLUSTER_CONFIG": spec(PS_AND_WORKER),
            **LISTS,
            "JOB_NAME": "evaluator",
            "TASK_INDEX": "0",
            **OLD_LISTS,
            "taskindex": "0",
        },
    ),
    "tensorflow-jupyter-looks-on": Told(
        "tensorflow",
        {"jupyter": 1, "ps": 1, "worker": 2},
        ("jupyter", 0),
        {
            "TF_CONFIG": tf_config(PS_AND_WORKER, "jupyter", 0),
            "CLUSTER_CONFIG": spec(PS_AND_WORKER),
            **LISTS,
            "JOB_NAME": "jupyter",
            "TASK_INDEX": "0",
            **OLD_LISTS,
            "taskindex": "0",
        },
    ),
    "tensorflow-two-roles-of-one-type-count-on": Told(
        "tensorflow",
        {"worker": 1, "workers": 2},
        ("workers", 1),
        {
            "TF_CONFIG": tf_config(TWICE_WORKERS, "worker", 2),
            "CLUSTER_CONFIG": spec(TWICE_WORKERS),
            "WORKER_HOSTS": ",".join(TWICE_WORKERS["worker"]),
            "JOB_NAME": "worker",
            "TASK_INDEX": "2",
            "worker_hosts": ",".join(TWICE_WORKERS["worker"]),
            "taskindex": "2",
        },
    ),
    "tensorflow-a-role-without-tasks-is-not-there": Told(
        "tensorflow",
        {"ps": 0, "worker": 1},
        ("worker", 0),
        {
            "TF_CONFIG": tf_config({"worker": ["worker-0.digits:2222"]}, "worker", 0),
            "CLUSTER_CONFIG": spec({"worker": ["worker-0.digits:2222"]}),
            "WORKER_HOSTS": "worker-0.digits:2222",
            "JOB_NAME": "worker",
            "TASK_INDEX": "0",
            "worker_hosts": "worker-0.digits:2222",
            "taskindex": "0",
        },
    ),
    "pytorch": Told(
        "pytorch",
        {"worker": 2},
        ("worker", 1),
        {
            "MASTER_ADDR": "worker-0.digits",
            "MASTER_PORT": "2222",
            "RANK": "1",
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": "1",
            "GROUP_RANK": "1",
            "PET_NNODES": "2",
            "PET_NODE_RANK": "1",
            "PET_MASTER_ADDR": "worker-0.digits",
            "PET_MASTER_PORT": "2222",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": "worker-0.digits:2222",
            "PET_RDZV_ID": "digits-uid",
            "PET_RDZV_CONF": "is_host=false",
        },
    ),
    "jax": Told(
        "jax",
        {"worker": 2},
        ("worker", 1),
        {
            "JAX_COORDINATOR_ADDRESS": "worker-0.digits:2222",
            "JAX_PROCESS_ID": "1",
            "JAX_NUM_PROCESSES": "2",
            "COORDINATOR_ADDRESS": "worker-0.digits",
            "COORDINATOR_PORT": "2222",
            "PROCESS_ID": "1",
            "NUM_PROCESSES": "2",
        },
    ),
    "mpi": Told(
        "mpi",
        {"launcher": 1, "worker": 2},
        ("worker", 1),
        {
            "WINDLASS_HOSTFILE": "/mnt/frameworkbarrier/hostfile",
            "WINDLASS_SSH_CONFIG": "/mnt/frameworkbarrier/ssh_config",
            "HYDRA_HOST_FILE": "/mnt/frameworkbarrier/hostfile.hydra",
            "I_MPI_HYDRA_HOST_FILE": "/mnt/frameworkbarrier/hostfile.hydra",
            "OMPI_MCA_orte_default_hostfile": "/mnt/frameworkbarrier/hostfile",
            "PRTE_MCA_prte_default_hostfile": "/mnt/frameworkbarrier/hostfile",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
            "LAUNCHER_HOSTS": "launcher-0.digits:2222",
            "WORKER_HOSTS": LISTS["WORKER_HOSTS"],
            "JOB_NAME": "worker",
            "TASK_INDEX": "1",
        },
    ),
    "plain": Told(
        "plain",
        {"ps": 1, "worker": 2},
        ("ps", 0),
        {**LISTS, "JOB_NAME": "ps", "TASK_INDEX": "0"},
    ),
    "plain-keeps-the-names-of-roles": Told(
        "plain",
        {"workers": 1},
        ("workers", 0),
        {"WORKERS_HOSTS": "workers-0.digits:2222", "JOB_NAME": "workers", "TASK_INDEX": "0"},
    ),
    "nothing-was-asked-for": Told("", {"ps": 1, "worker": 2}, ("worker", 0), {}),
    "nobody-knows-what-was-asked-for": Told("tensorflw", {"ps": 1}, ("ps", 0), {}),
}


@pytest.mark.parametrize("told", TABLE.values(), ids=TABLE.keys())
def test_variables_of_each_runtime(told: Told) -> None:
    """All variables, and no others."""
    found = environment.variables_of(framework(told.runtime, told.roles))(*told.task)
    assert found == told.expected


# Ranks


@pytest.mark.parametrize(
    ("roles", "ranks", "master"),
    [
        ({"worker": 3}, {("worker", 0): 0, ("worker", 2): 2}, "worker-0"),
        ({"worker": 2, "master": 1}, {("master", 0): 0, ("worker", 0): 1, ("worker", 1): 2}, "master-0"),
        ({"worker": 2, "chief": 1}, {("chief", 0): 0, ("worker", 0): 1}, "chief-0"),
        ({"worker": 2, "launcher": 1}, {("launcher", 0): 0, ("worker", 1): 2}, "launcher-0"),
        ({"actor": 1, "learner": 2}, {("actor", 0): 0, ("learner", 1): 2}, "actor-0"),
        ({"empty": 0, "worker": 1}, {("worker", 0): 0}, "worker-0"),
        ({"master": 0, "worker": 1}, {("worker", 0): 0}, "worker-0"),
        ({"tensorboard": 1, "worker": 1}, {("worker", 0): 0}, "worker-0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) and value and "worker" in value else None,
)
def test_ranks_follow_the_order_of_roles(
    roles: dict[str, int], ranks: dict[tuple[str, int], int], master: str
) -> None:
    """PyTorch and JAX have the same ranks."""
    torch = environment.variables_of(framework("pytorch", roles))
    jax = environment.variables_of(framework("jax", roles))
    for task, rank in ranks.items():
        assert (torch(*task)["RANK"], jax(*task)["JAX_PROCESS_ID"]) == (str(rank), str(rank))
        assert torch(*task)["MASTER_ADDR"] == f"{master}.digits"
        assert jax(*task)["JAX_COORDINATOR_ADDRESS"] == f"{master}.digits:2222"


@pytest.mark.parametrize("runtime", ["pytorch", "jax"])
def test_task_outside_the_cluster_has_no_rank(runtime: str) -> None:
    """With RANK, a notebook would wait for the others."""
    told = environment.variables_of(framework(runtime, {"jupyter": 1, "worker": 2}))
    assert told("jupyter", 0) == {}
    alone = environment.variables_of(framework(runtime, {"jupyter": 1}))
    assert alone("jupyter", 0) == {}


_SIZES = st.dictionaries(st.sampled_from(["worker", "master", "ps", "a", "jupyter"]), st.integers(0, 4))


@given(_SIZES)
def test_every_rank_is_assigned_once(sizes: dict[str, int]) -> None:
    told = environment.variables_of(framework("pytorch", sizes))
    every = [told(role, index) for role, tasks in sizes.items() for index in range(tasks)]
    taking_part = [each for each in every if each]
    assert sorted(int(each["RANK"]) for each in taking_part) == list(range(len(taking_part)))
    assert {each["WORLD_SIZE"] for each in taking_part} <= {str(len(taking_part))}


def test_elastic_job_has_a_range_of_nodes() -> None:
    made = framework("pytorch", {"notebook": 1, "master": 1, "worker": 2})
    fixed = environment.variables_of(made)
    annotations = {**made.metadata.annotations, names.ELASTIC_ANNOTATION: "worker=2:8"}
    metadata = msgspec.structs.replace(made.metadata, annotations=annotations)
    elastic = environment.variables_of(msgspec.structs.replace(made, metadata=metadata))
    changed = {
        "PET_NNODES": "3:9",
        "PET_MAX_RESTARTS": "3",
        "PET_RDZV_CONF": "is_host=false,last_call_timeout=10",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    assert elastic("worker", 1) == {**fixed("worker", 1), **changed}
    assert elastic("master", 0)["PET_RDZV_CONF"] == "is_host=true,last_call_timeout=10"
    assert elastic("notebook", 0) == {}
    assert "PET_MAX_RESTARTS" not in fixed("worker", 1)


def test_rendezvous_id_is_the_attempt() -> None:
    """Tasks of different attempts do not join."""
    asks = {names.RUNTIME_ANNOTATION: "pytorch"}
    told = environment.variables_of(gang_objects.framework(annotations=asks))
    assert told("worker", 0)["PET_RDZV_ID"] == gang_objects.ATTEMPT


# Ports


def container(*ports: Any) -> dict[str, Any]:
    return {"name": "main", "ports": list(ports)}


@pytest.mark.parametrize(
    ("containers", "port"),
    [
        ([container({"containerPort": 49866})], 49866),
        ([container({"containerPort": 49866}, {"containerPort": 8080})], 49866),
        ([container(), container({"containerPort": 8080})], 8080),
        ([container()], 2222),
        ([{"name": "main"}], 2222),
        ([container({"containerPort": 65535})], 65535),
        ([container({"containerPort": 65536}, {"containerPort": 1})], 1),
        ([container({"containerPort": 0})], 2222),
        ([container({"containerPort": True})], 2222),
        ([container({"containerPort": "8080"})], 2222),
        ([container(None, "8080", {"hostPort": 8080})], 2222),
        ([{"ports": {"containerPort": 8080}}], 2222),
        ([None, "a string"], 2222),
        ({"ports": []}, 2222),
        (None, 2222),
    ],
    ids=str,
)
def test_port_is_the_first_declared_one(containers: Any, port: int) -> None:
    """The first port that a container declares, otherwise 2222."""
    made = framework("plain", {"worker": 1}, pod={"spec": {"containers": containers}})
    assert environment.variables_of(made)("worker", 0)["WORKER_HOSTS"] == f"worker-0.digits:{port}"


@pytest.mark.parametrize("pod", [{}, {"spec": None}, {"spec": "a string"}])
def test_malformed_template_is_accepted(pod: Any) -> None:
    made = framework("plain", {"worker": 1}, pod=pod)
    assert environment.variables_of(made)("worker", 0)["WORKER_HOSTS"] == "worker-0.digits:2222"


def test_each_role_has_its_own_port() -> None:
    roles = (
        builders.role("ps", 1, pod={"spec": {"containers": [container({"containerPort": 49867})]}}),
        builders.role("worker", 1, pod={"spec": {"containers": [container({"containerPort": 49866})]}}),
    )
    made = builders.framework("digits", *roles, annotations={names.RUNTIME_ANNOTATION: "plain"})
    told = environment.variables_of(made)("worker", 0)
    assert (told["PS_HOSTS"], told["WORKER_HOSTS"]) == ("ps-0.digits:49867", "worker-0.digits:49866")


def test_shared_network_gives_each_task_its_port() -> None:
    """Each task has its own port; a role without a port has the declared one."""
    made = framework("tensorflow", {"ps": 1, "worker": 2, "late": 1})
    told = environment.variables_of(made, {"ps": 20000, "worker": 20010})("worker", 1)
    assert json.loads(told["CLUSTER_CONFIG"]) == {
        "ps": ["127.0.0.1:20000"],
        "worker": ["127.0.0.1:20010", "127.0.0.1:20011"],
        "late": ["127.0.0.1:2222"],
    }
    assert told["WORKER_HOSTS"] == "127.0.0.1:20010,127.0.0.1:20011"


def test_ports_without_a_runtime_add_no_variables() -> None:
    assert environment.variables_of(framework("", {"worker": 1}), {"worker": 20000})("worker", 0) == {}


# What holds of every value

_ROLE = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True)


@given(
    st.sampled_from(list(map(str, Runtime))),
    st.dictionaries(_ROLE, st.integers(0, 3)),
)
def test_every_variable_has_a_valid_name_and_value(runtime: str, roles: dict[str, int]) -> None:
    """Valid in any shell and any pod; TF_CONFIG is JSON."""
    told = environment.variables_of(framework(runtime, roles))
    for role, tasks in roles.items():
        for index in range(tasks):
            variables = told(role, index)
            assert all(name.isidentifier() and name.isascii() for name in variables)
            if "TF_CONFIG" in variables:
                config = json.loads(variables["TF_CONFIG"])
                assert config["cluster"] == json.loads(variables["CLUSTER_CONFIG"])
                assert config["task"] == {
                    "type": variables["JOB_NAME"],
                    "index": int(variables["TASK_INDEX"]),
                }


@pytest.mark.parametrize("types", ["roles", "standard", None])
@pytest.mark.parametrize("first_ports", [None, {"workers": 3000, "master": 4000}])
def test_names_of_roles_are_task_types_on_request(
    types: str | None, first_ports: dict[str, int] | None
) -> None:
    annotations = {names.RUNTIME_ANNOTATION: "tensorflow"}
    if types is not None:
        annotations[names.TASK_TYPES_ANNOTATION] = types
    roles = (builders.role("workers", 2), builders.role("master", 1))
    made = builders.framework("digits", *roles, annotations=annotations)
    variables = environment.variables_of(made, first_ports)("workers", 1)
    worker, chief = ("workers", "master") if types == "roles" else ("worker", "chief")
    assert list(json.loads(variables["CLUSTER_CONFIG"])) == [worker, chief]
    assert json.loads(variables["TF_CONFIG"])["task"] == {"type": worker, "index": 1}
    assert variables["JOB_NAME"] == worker
    assert f"{worker.upper()}_HOSTS" in variables
