"""Warnings about completion policies, retries and host paths that probably do not do what the author meant."""

from typing import Any

import msgspec
import pytest

from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule
from windlass.wire.lint import policies
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

Tree = dict[str, Any]


def role(name: str = "worker", tasks: int = 2, **of_pod: Any) -> Tree:
    """Return a role. `failed`, `succeeded`, `retry` and `command` set the fields of its policies and container."""
    failed, succeeded = of_pod.pop("failed", 1), of_pod.pop("succeeded", -1)
    retry = of_pod.pop("retry", 0)
    container = {"name": "main", "image": "x", "command": of_pod.pop("command", ["python3", "train.py"])}
    spec = {"restartPolicy": "Never", "containers": [container], **of_pod}
    return {
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": failed,
            "minSucceededTaskCount": succeeded,
        },
        "task": {"retryPolicy": {"maxRetryCount": retry}, "pod": {"spec": spec}},
    }


def diagnostics_of(*roles: Tree, annotations: Tree | None = None, retries: int = 3) -> list[Diagnostic]:
    content = {
        "metadata": {"name": "digits", "annotations": annotations},
        "spec": {"retryPolicy": {"maxRetryCount": retries}, "taskRoles": list(roles)},
    }
    root = yaml_parse.parse(msgspec.json.encode(content)).documents[0].root
    assert isinstance(root, tree.Mapping)
    return list(policies.check(root, ""))


def diagnostics_for(given: dict[str, Any]) -> list[Diagnostic]:
    others = {key: value for key, value in given.items() if key != "roles"}
    return diagnostics_of(*given["roles"], **others)


PS = role("ps", 1)
WORKER = role(succeeded=2)
SHELL = ("sh", "-c")
DATA: Tree = {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TENSORFLOW = {"windlass.dev/runtime": "tensorflow", "windlass.dev/idle": "true"}
BARRIER: Tree = {"initContainers": [{"name": "wait", "image": "frameworkcontroller/frameworkbarrier"}]}

COUNTS = "spec.taskRoles[0].frameworkAttemptCompletionPolicy"
HOST_PATH = "spec.taskRoles[0].task.pod.spec.volumes[0].hostPath.path"

FAULTY: dict[str, tuple[dict[str, Any], Rule, str, str]] = {
    "more failures than tasks": (
        {"roles": [role(failed=3)]},
        Rule.MIN_FAILED_TOO_LARGE,
        f"{COUNTS}.minFailedTaskCount",
        "the role has only 2 tasks",
    ),
    "more successes than tasks": (
        {"roles": [role(tasks=1, succeeded=2)]},
        Rule.MIN_SUCCEEDED_TOO_LARGE,
        f"{COUNTS}.minSucceededTaskCount",
        "the role has only 1 task:",
    ),
    "a ps that has to succeed": (
        {"roles": [role("ps", 1, succeeded=1), WORKER]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "a parameter server runs",
    ),
    "no completion policy and a ps": (
        {"roles": [PS, role()]},
        Rule.NEVER_EXITS,
        "spec.taskRoles[0].name",
        "Set minSucceededTaskCount of the role that does the work",
    ),
    "restartPolicy Always": (
        {"roles": [role(succeeded=2, restartPolicy="Always")]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "Set restartPolicy: Never",
    ),
    "no restartPolicy": (
        {"roles": [role(restartPolicy=None)]},
        Rule.NEVER_EXITS,
        "spec.taskRoles[0].name",
        "without a restartPolicy",
    ),
    "a task that is always retried": (
        {"roles": [role(succeeded=2, retry=-2)]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "maxRetryCount -2",
    ),
    "sleep infinity": (
        {"roles": [role(succeeded=2, command=["sleep", "infinity"])]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        '"sleep infinity" in container "main"',
    ),
    "tail": (
        {"roles": [role(succeeded=2, command=[*SHELL, "python3 train.py; tail -f /dev/null"])]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        '"tail -f /dev/null"',
    ),
    "a loop": (
        {"roles": [role(succeeded=2, command=[*SHELL, "while true; do sleep 60; done"])]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "runs until it is stopped",
    ),
    "a TensorBoard beside the training": (
        {
            "roles": [
                role(
                    succeeded=2,
                    containers=[
                        {"name": "main", "command": ["python3", "train.py"]},
                        {"name": "board", "command": ["tensorboard", "--logdir", "/output"]},
                    ],
                )
            ]
        },
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        'in container "board"',
    ),
    "a notebook": (
        {"roles": [role("jupyter", 1, succeeded=1, command=["jupyter", "lab", "--ip=0.0.0.0"]), WORKER]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "jupyter lab",
    ),
    "an image's own notebook": (
        {"roles": [role("jupyter", 1, succeeded=1, command=[]), WORKER]},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "a jupyter server",
    ),
    "an idle server": (
        {"roles": [role(succeeded=2, command=[])], "annotations": TENSORFLOW},
        Rule.NEVER_EXITS,
        f"{COUNTS}.minSucceededTaskCount",
        "an idle TensorFlow server runs until it is stopped",
    ),
    "no tasks at all": (
        {"roles": [role(tasks=0), role("ps", 0)]},
        Rule.NO_TASKS,
        "spec.taskRoles",
        "nothing runs",
    ),
    "no tasks that decide": (
        {"roles": [role(tasks=0, succeeded=1), role("helper")]},
        Rule.NO_TASKS,
        "spec.taskRoles[0].taskNumber",
        "no role that decides",
    ),
    "retried after success": (
        {"roles": [WORKER], "retries": -2},
        Rule.ENDLESS_RETRY,
        "spec.retryPolicy.maxRetryCount",
        "Use -1",
    ),
    "a folder of the node": ({"roles": [role(succeeded=2, **DATA)]}, Rule.HOST_PATH, HOST_PATH, "2 tasks use"),
    "a barrier of its own, and no port": (
        {"roles": [role(succeeded=2, **BARRIER)]},
        Rule.NO_PORT,
        "spec.taskRoles[0]",
        "Declare the containerPort",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "rule", "path", "words"), FAULTY.values(), ids=FAULTY)
def test_doubtful_policy_is_reported(given: dict[str, Any], rule: Rule, path: str, words: str) -> None:
    (diagnostic,) = diagnostics_for(given)

    assert (diagnostic.is_error, diagnostic.rule, diagnostic.path) == (False, rule, path)
    assert words in diagnostic.message


SOUND: dict[str, dict[str, Any]] = {
    "ps and workers": {"roles": [PS, WORKER]},
    "all have to end": {"roles": [role(), role("chief", 1)]},
    "as many as there are": {"roles": [role(failed=2, succeeded=2)]},
    "a role without tasks": {"roles": [role("evaluator", 0, failed=1), WORKER]},
    "servers only: they are meant to stay": {"roles": [PS, role(command=["sleep", "infinity"])]},
    "idle servers only": {"roles": [role("ps", command=[]), role(command=[])], "annotations": TENSORFLOW},
    "a ps that prints a file": {"roles": [role("ps", 1, succeeded=1, command=["cat", "/configfile"])]},
    "a role called notebook that ends": {"roles": [role("notebook", 1, succeeded=1), PS]},
    "in the background": {"roles": [role(succeeded=2, command=[*SHELL, "tensorboard --logdir o 2>&1 & python3 t"])]},
    "not that program": {"roles": [role(succeeded=2, command=[*SHELL, "python3 tensorboard.py; sleep 5"])]},
    "a notebook that is converted": {"roles": [role(succeeded=2, command=["jupyter", "nbconvert", "x"])]},
    "a sidecar among init containers": {
        "roles": [role(succeeded=2, initContainers=[{"name": "s", "command": ["sleep", "infinity"]}])]
    },
    "an always retried ps": {"roles": [role("ps", 1, retry=-2), WORKER]},
    "failures are retried without end": {"roles": [WORKER], "retries": -1},
    "one task and a folder of the node": {"roles": [role(tasks=1, succeeded=1, **DATA)]},
    "nodeSelector": {"roles": [role(succeeded=2, nodeSelector={"disk": "big"}, **DATA)]},
    "nodeAffinity": {"roles": [role(succeeded=2, affinity={"nodeAffinity": {REQUIRED: {}}}, **DATA)]},
    "a device": {"roles": [role(succeeded=2, volumes=[{"name": "d", "hostPath": {"path": "/dev/infiniband"}}])]},
    "a barrier of its own, and ports": {
        "roles": [role(succeeded=2, **BARRIER, containers=[{"name": "m", "ports": [{"containerPort": 1}]}])]
    },
    "own barrier with ports": {
        "roles": [role(succeeded=2, **BARRIER, command=[*SHELL, "FB_PS_PORT=4001; . injector.sh; python3 t.py"])]
    },
}  # fmt: skip


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_sensible_policy_has_no_diagnostics(given: dict[str, Any]) -> None:
    assert diagnostics_for(given) == []


def test_host_path_shared_by_roles_counts_all_tasks() -> None:
    found = diagnostics_of(role("chief", 1, succeeded=1, **DATA), role("worker", 1, **DATA))

    assert [diagnostic.rule for diagnostic in found] == [Rule.HOST_PATH] * 2


@pytest.mark.parametrize("field", ["failed", "succeeded"])
def test_too_large_count_is_fixed_to_the_number_of_tasks(field: str) -> None:
    counts: Tree = {field: 7}

    (diagnostic,) = diagnostics_of(role(**counts))

    assert diagnostic.fix == Fix(Remedy.REPLACE, "2")


@pytest.mark.parametrize(
    "broken",
    [{}, {"spec": []}, {"spec": {"taskRoles": ["x", {}, {"taskNumber": "2", "task": {"pod": []}}]}}],
)
def test_invalid_structure_is_skipped(broken: Tree) -> None:
    root = yaml_parse.parse(msgspec.json.encode(broken)).documents[0].root
    assert isinstance(root, tree.Mapping)

    list(policies.check(root, ""))
