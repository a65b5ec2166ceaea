"""Jobs that end by their completion policies: results, environment of their tasks, and remaining objects.

All jobs are submitted at once and checked one by one.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from live import job_batches
from live.clusters import Cluster
from live.jobs import FOREVER, framework, role
from live.place import Place
from operated.place import completion_of, condition_of, retries_of, summary_of, tasks_of

from conformance.client import Json
from windlass.model import names

FIRST_ENDS = '[ "$FC_TASK_INDEX" = 0 ] || { trap "exit 0" TERM; sleep 100000 & wait; };'
"""Prefix of a script that only task 0 executes; the others run until they are ended."""
TWO_END = '[ "$FC_TASK_INDEX" -lt 2 ] || { trap "exit 0" TERM; sleep 100000 & wait; };'

SHARED = {"volumes": [{"name": "shared", "emptyDir": {}}]}
MOUNTED = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    code: int = 0
    phrase: str = "Succeeded"
    trigger: str = ""
    """The trigger of the completion and its role. Empty: no rule was met, so the last task is the trigger."""
    tasks: dict[str, list[int]]
    """Completion codes by role."""
    left: tuple[str, ...] = ()
    """Tasks whose pods still exist."""

    @property
    def triggers(self) -> list[str]:
        """The possible triggers, with their roles."""
        if self.trigger:
            return [self.trigger]
        codes = [code for role_codes in self.tasks.values() for code in role_codes]
        failed = sum(code > 0 for code in codes)
        counts = f"{codes.count(0)} of {len(codes)} tasks succeeded" + (
            f", {failed} failed" if failed else ""
        )
        return [f"{counts} {role}" for role in self.tasks]


def init_container(name: str, script: str, **more: Any) -> Json:
    made = role(script=script, pod_spec={"container": {"name": name, **more}})
    return made["task"]["pod"]["spec"]["containers"][0]


def failed(count: int, role_name: str = "worker") -> str:
    return f"FailedTaskCount {count} has reached MinFailedTaskCount {count} in the TaskRole {role_name}"


def succeeded(count: int, role_name: str = "worker") -> str:
    return f"SucceededTaskCount {count} has reached MinSucceededTaskCount {count} in the TaskRole {role_name}"


CASES: dict[str, tuple[Json, Outcome]] = {
    "one-task": (framework("one-task"), Outcome(tasks={"worker": [0]})),
    "several-tasks": (framework("several-tasks", role(tasks=3)), Outcome(tasks={"worker": [0] * 3})),
    "several-roles": (
        framework("several-roles", role("worker", 2), role("chief"), role("evaluator")),
        Outcome(tasks={"worker": [0, 0], "chief": [0], "evaluator": [0]}),
    ),
    "older-group": (
        framework(
            "older-group", role(script='[ "$taskindex-$TASK_INDEX" = 0-0 ]'), group=names.LAUNCHER_GROUP
        ),
        Outcome(tasks={"worker": [0]}),
    ),
    "init-containers": (
        framework(
            "init-containers",
            role(
                script="cmp /shared/second /shared/third",
                pod_spec={
                    **SHARED,
                    "initContainers": [
                        init_container("first", "echo here > /shared/first", **MOUNTED),
                        init_container(
                            "second", "tee /shared/second /shared/third < /shared/first", **MOUNTED
                        ),
                    ],
                    "container": MOUNTED,
                },
            ),
        ),
        Outcome(tasks={"worker": [0]}),
    ),
    # 31, 33: the first failure ends it, and unfinished tasks get -220.
    "first-failure": (
        framework("first-failure", role(tasks=2, script=f"{FIRST_ENDS} exit 3"), role("ps", script=FOREVER)),
        Outcome(
            code=3,
            phrase="ContainerUnrecognizedFailed",
            trigger=failed(1),
            tasks={"worker": [3, -220], "ps": [-220]},
        ),
    ),
    "second-failure": (
        framework("second-failure", role(tasks=3, script=f"{TWO_END} exit 3", min_failed=2)),
        Outcome(
            code=3,
            phrase="ContainerUnrecognizedFailed",
            trigger=failed(2),
            tasks={"worker": [3, 3, -220]},
        ),
    ),
    "first-success": (
        framework("first-success", role(tasks=2, script=FIRST_ENDS, min_succeeded=1)),
        Outcome(trigger=succeeded(1), tasks={"worker": [0, -220]}),
    ),
    "second-success": (
        framework("second-success", role(tasks=3, script=TWO_END, min_succeeded=2)),
        Outcome(trigger=succeeded(2), tasks={"worker": [0, 0, -220]}),
    ),
    # 32
    "failures-that-do-not-count": (
        framework("failures-that-do-not-count", role(tasks=2, script="exit 3", min_failed=-1)),
        Outcome(tasks={"worker": [3, 3]}),
    ),
    "fewer-failures-than-count": (
        framework("fewer-failures-than-count", role(tasks=2, script="exit $FC_TASK_INDEX", min_failed=2)),
        Outcome(tasks={"worker": [0, 1]}),
    ),
    "ps-and-workers": (
        framework("ps-and-workers", role("ps", script=FOREVER), role("worker", 2, min_succeeded=2)),
        Outcome(trigger=succeeded(2), tasks={"ps": [-220], "worker": [0, 0]}),
    ),
    # A1, A2
    "kept": (
        framework("kept", role(tasks=2, script="echo said by $FC_TASK_INDEX"), completedPods="Keep"),
        Outcome(tasks={"worker": [0, 0]}, left=("worker-0", "worker-1")),
    ),
    "kept-but-for-the-ps": (
        framework(
            "kept-but-for-the-ps",
            role("ps", script=FOREVER),
            role("worker", 2, "echo said by $FC_TASK_INDEX", min_succeeded=2),
            completedPods="Keep",
        ),
        Outcome(
            trigger=succeeded(2),
            tasks={"ps": [-220], "worker": [0, 0]},
            left=("worker-0", "worker-1"),
        ),
    ),
    "kept-after-failure": (
        framework(
            "kept-after-failure",
            role(tasks=2, script=f"{FIRST_ENDS} echo said by 0; exit 3"),
            completedPods="Keep",
        ),
        Outcome(
            code=3,
            phrase="ContainerUnrecognizedFailed",
            trigger=failed(1),
            tasks={"worker": [3, -220]},
            left=("worker-0",),
        ),
    ),
}

SMOKE = ("ps-and-workers", "first-failure", "kept-after-failure")
"""The cases that CI runs."""

OWN = [
    {"name": "WHO", "value": "$(FC_TASKROLE_NAME)/$(FC_TASK_INDEX) of $(FC_FRAMEWORK_NAME)"},
    {"name": "FILLED", "value": "{{FC_POD_NAME}} {{FC_CONFIGMAP_NAME}} {{FC_UNKNOWN}} {{ FC_POD_NAME }}"},
]
CURIOUS = framework(
    "curious",
    role("chief"),
    role(
        tasks=2,
        script="env; hostname",
        pod_spec={
            "hostname": "{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX}}",
            "initContainers": [init_container("before", "env", env=OWN)],
            "container": {"env": OWN},
        },
    ),
    completedPods="Keep",
)


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    bodies = [CURIOUS, *(body for body, _ in CASES.values())]
    with job_batches.submitted(cluster, tmp_path_factory, "outcomes", bodies) as place:
        yield place


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke if name in SMOKE else ()) for name in CASES]
)
def test_outcome_follows_the_completion_policy(submitted: Place, name: str) -> None:
    """30 to 33, and A6."""
    body, expected = CASES[name]
    found = submitted.wait_for_completed(name, names.group_of(body["apiVersion"]))

    completion = completion_of(found)
    assert (completion["code"], completion["phrase"]) == (expected.code, expected.phrase), completion
    assert completion["type"]["name"] == ("Failed" if expected.code else "Succeeded")
    assert _why(completion) in expected.triggers
    assert {each: _codes(found, each) for each in expected.tasks} == expected.tasks
    assert retries_of(found) == 0
    assert condition_of(found, "Failed" if expected.code else "Complete")
    assert not condition_of(found, "Complete" if expected.code else "Failed")
    codes = [code for role_codes in expected.tasks.values() for code in role_codes]
    assert summary_of(found) == {
        "tasks": len(codes),
        "running": 0,
        "succeeded": codes.count(0),
        "failed": sum(code > 0 for code in codes),
    }

    assert sorted(submitted.pods(name)) == [f"{name}-{task}" for task in expected.left]
    assert len(submitted.config_maps(name)) == bool(expected.left)
    # A surplus pod may be deleted before it gets a node.
    made = {
        f"{each}-{index}": 1
        for each, codes in expected.tasks.items()
        for index, code in enumerate(codes)
        if code != -220
    }
    job_batches.wait_for_pods_made(submitted, name, made)


def _why(completion: Json) -> str:
    """Check the trigger; the task that it names ended like that."""
    trigger = completion.get("trigger")
    return f"{trigger['message']} {trigger['taskRoleName']}" if trigger else ""


def _codes(found: Json, role_name: str) -> list[int]:
    return [task["attemptStatus"]["completionStatus"]["code"] for task in tasks_of(found, role_name)]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("kept")])
def test_logs_of_kept_pods_are_readable(submitted: Place, name: str) -> None:
    """A2."""
    submitted.wait_for_completed(name)
    for task in CASES[name][1].left:
        assert submitted.log(f"{name}-{task}") == f"said by {task.removeprefix('worker-')}\n"


def test_objects_have_their_names_and_owners(submitted: Place) -> None:
    """3 to 6."""
    found = submitted.wait_for_completed("curious")
    config_maps, pods = submitted.config_maps("curious"), submitted.pods("curious")
    assert list(config_maps) == ["curious-attempt"]
    assert sorted(pods) == ["curious-chief-0", "curious-worker-0", "curious-worker-1"]

    config_map = config_maps["curious-attempt"]
    attempt = found["status"]["attemptStatus"]
    assert attempt["instanceUID"] == f"0_{config_map['metadata']['uid']}"
    assert "data" not in config_map
    assert config_map["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert config_map["metadata"]["labels"] == {"FC_FRAMEWORK_NAME": "curious"}
    assert config_map["metadata"]["annotations"] == {
        "FC_FRAMEWORK_NAMESPACE": submitted.name,
        "FC_FRAMEWORK_NAME": "curious",
        "FC_CONFIGMAP_NAME": "curious-attempt",
        "FC_FRAMEWORK_UID": found["metadata"]["uid"],
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
    }
    assert _controller_of(config_map) == ("Framework", found["metadata"]["uid"])
    for pod in pods.values():
        assert _controller_of(pod) == ("ConfigMap", config_map["metadata"]["uid"])


def _controller_of(body: Json) -> tuple[str, str]:
    owner = next(each for each in body["metadata"]["ownerReferences"] if each["controller"])
    return owner["kind"], owner["uid"]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("container", ["before", "main"])
def test_process_knows_its_task(submitted: Place, container: str, index: int) -> None:
    """6, 7 and 9: environment, annotations, labels and status agree."""
    found = submitted.wait_for_completed("curious")
    roles = found["status"]["attemptStatus"]["taskRoleStatuses"]
    task = tasks_of(found)[index]
    name, uid = f"curious-worker-{index}", task["attemptStatus"]["podUID"]
    config_map_uid = found["status"]["attemptStatus"]["configMapUID"]
    identity = {
        "FC_FRAMEWORK_NAMESPACE": submitted.name,
        "FC_FRAMEWORK_NAME": "curious",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": str(index),
        "FC_CONFIGMAP_NAME": "curious-attempt",
        "FC_POD_NAME": name,
        "FC_FRAMEWORK_UID": found["metadata"]["uid"],
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{config_map_uid}",
        "FC_CONFIGMAP_UID": config_map_uid,
        "FC_TASKROLE_UID": next(each["instanceUID"] for each in roles if each["name"] == "worker"),
        "FC_TASK_UID": task["instanceUID"],
        "FC_TASK_ATTEMPT_ID": "0",
    }
    pod = submitted.pod(name)
    assert pod["metadata"]["uid"] == uid
    assert task["attemptStatus"]["instanceUID"] == f"0_{uid}"
    assert _of_ours(pod["metadata"]["annotations"]) == identity
    labels = ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")
    assert _of_ours(pod["metadata"]["labels"]) == {label: identity[label] for label in labels}

    said = _log_of(submitted, name, container)
    seen = dict(line.partition("=")[::2] for line in said if "=" in line)
    assert _of_ours(seen) == {**identity, "FC_POD_UID": uid, "FC_TASK_ATTEMPT_INSTANCE_UID": f"0_{uid}"}
    assert seen["WHO"] == f"worker/{index} of curious"
    assert seen["FILLED"] == f"{name} curious-attempt {{{{FC_UNKNOWN}}}} {{{{ FC_POD_NAME }}}}"
    if container == "main":
        assert said[-1] == f"worker-{index}"


def _of_ours(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name.startswith("FC_")}


def _log_of(place: Place, pod: str, container: str) -> list[str]:
    path = f"{place.path('pods', pod)}/log"
    answer = place.client.get(path, headers={"Accept": "*/*"}, container=container).expect(200)
    return answer.raw.decode().splitlines()


def test_status_follows_the_pod(submitted: Place) -> None:
    """13."""
    found = submitted.wait_for_completed("curious")
    for task in tasks_of(found):
        pod = submitted.pod(task["attemptStatus"]["podName"])
        expected = {
            "podNodeName": pod["spec"]["nodeName"],
            "podIP": pod["status"]["podIP"],
            "podHostIP": pod["status"]["hostIP"],
        }
        assert {field: task["attemptStatus"][field] for field in expected} == expected
