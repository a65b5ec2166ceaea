"""The ways in which a task can fail on a real node, and their completion codes (statements 18, 20 to 23).

Not included are codes that need a lost node (-1001), a full node (-1003), another container runtime (-1203) or a later
kubelet (-1204). All jobs are submitted at once and checked one by one.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from live import external_changes, job_batches
from live.clusters import Cluster
from live.external_changes import Act
from live.jobs import FOREVER, IMAGE, framework, role
from live.place import Place
from operated.place import completion_of, condition_of, tasks_of

from conformance.client import Json

TRANSIENT, PERMANENT = ("Transient",), ("Permanent",)
OF_THE_PLATFORM, OF_THE_USER = ("Transient", "Platform"), ("Permanent", "User")

SOME_NODE = "some-node"
"""Placeholder for a node name, with which a pod bypasses the scheduler."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    role: Json
    spec: Json = {}
    code: int
    phrase: str
    attributes: tuple[str, ...] = ()
    says: str = ""
    """Text in the diagnostics."""


SHARED = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
AFTER_THE_OTHER = """
until [ -s /shared/pid ]; do sleep 0.1; done
read pid < /shared/pid
while [ -e /proc/$pid ]; do sleep 0.1; done
sleep 2  # the times at which containers end are written in whole seconds
exit 4
"""


def container(name: str, script: str, **more: Any) -> Json:
    command = ["sh", "-c", script]
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": command, **more}


def exits(code: int, phrase: str = "ContainerUnrecognizedFailed", *attributes: str) -> Failure:
    return Failure(
        role=role(script=f"exit {code}"),
        code=code,
        phrase=phrase,
        attributes=attributes,
        says=f'"code":{code}',
    )


def signal(number: int, phrase: str, *attributes: str) -> Failure:
    """Task 0 exits as if killed by the signal; task 1 is killed by it. Both have the same result."""
    # Kubernetes replaces two dollar signs by one.
    script = f'[ "$FC_TASK_INDEX" = 1 ] || exit {128 + number}; kill -{number} $$$$'
    # Signals from inside do not kill the first process of a PID namespace: here that is the pause
    # container's.
    made = role(tasks=2, script=script, min_failed=2, pod_spec={"shareProcessNamespace": True})
    return Failure(role=made, code=128 + number, phrase=phrase, attributes=attributes)


def pod(
    code: int,
    phrase: str,
    attributes: tuple[str, ...] = (),
    says: str = "",
    script: str = FOREVER,
    spec: Json = None,
    **pod_spec: Any,
) -> Failure:
    made = role(script=script, pod_spec=pod_spec)
    return Failure(role=made, spec=spec or {}, code=code, phrase=phrase, attributes=attributes, says=says)


CASES: dict[str, Failure] = {
    # Exit codes defined by Windlass, and others (18, 21).
    "exit-1": exits(1),
    "exit-2": exits(2),
    "exit-200": exits(200, "ContainerTransientFailed", *TRANSIENT),
    "exit-201": exits(201, "ContainerTransientConflictFailed", "Transient", "Conflict"),
    "exit-210": exits(210, "ContainerPermanentFailed", *PERMANENT),
    # 22
    "sigint": signal(2, "ContainerSigIntReceived", *TRANSIENT),
    "sigquit": signal(3, "ContainerSigQuitReceived", *TRANSIENT),
    "sigill": signal(4, "ContainerSigIllReceived", *PERMANENT),
    "sigabrt": signal(6, "ContainerSigAbrtReceived"),
    "sigbus": signal(7, "ContainerSigBusReceived", *PERMANENT),
    "sigfpe": signal(8, "ContainerSigFpeReceived", *PERMANENT),
    "sigkill": signal(9, "ContainerSigKillReceived", *TRANSIENT),
    "sigsegv": signal(11, "ContainerSigSegvReceived", *PERMANENT),
    "sigpipe": signal(13, "ContainerSigPipeReceived", *PERMANENT),
    "sigterm": signal(15, "ContainerSigTermReceived", *TRANSIENT),
    "out-of-memory": pod(
        -1200,
        "ContainerOOMKilled",
        OF_THE_USER,
        # A container runtime learns of it from the kernel: some not right after the start, some only after an
        # end.
        script="sleep 5; python3 -c 'print(len(b\"x\" * (1 << 28)))'; code=$?; sleep 5; exit $code",
        container={"resources": {"limits": {"memory": "32Mi"}}},
    ),
    "no-such-command": pod(
        -1201, "ContainerCommandCannotRun", OF_THE_USER, container={"command": ["/no/such/command"]}
    ),
    "not-a-command": pod(
        -1201, "ContainerCommandCannotRun", OF_THE_USER, container={"command": ["/etc/passwd"]}
    ),
    "not-a-file": pod(
        -1203,
        "ContainerStartFailed",
        container={"volumeMounts": [{"name": "folder", "mountPath": "/etc/passwd"}]},
        volumes=[{"name": "folder", "emptyDir": {}}],
    ),
    "pod-deadline": pod(-1004, "PodDeadlineExceeded", OF_THE_USER, activeDeadlineSeconds=1),
    "sysctl": pod(
        -1005,
        "PodForbidden",
        OF_THE_USER,
        "SysctlForbidden",
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]},
    ),
    "too-large-for-the-node": pod(
        -1002,
        "PodOutOfNodeResources",
        OF_THE_PLATFORM,
        "OutOfcpu",
        nodeName=SOME_NODE,
        container={"resources": {"requests": {"cpu": "100k"}}},
    ),
    "not-for-the-node": pod(
        -1006,
        "PodAdmissionFailed",
        OF_THE_PLATFORM,
        nodeName=SOME_NODE,
        nodeSelector={"no-node-has": "this-label"},
    ),
    "evicted": pod(
        -1000,
        "PodEvicted",
        OF_THE_PLATFORM,
        "Evicted",
        # Current kubelets report an evicted pod as succeeded if its containers exit with 0.
        script=f"head -c 16M /dev/zero > /space/full; {FOREVER.replace('exit 0', 'exit 1')}",
        container={"volumeMounts": [{"name": "space", "mountPath": "/space"}]},
        volumes=[{"name": "space", "emptyDir": {"sizeLimit": "1Mi"}}],
    ),
    # Several containers (20, 21).
    "init-container": pod(
        7,
        "ContainerUnrecognizedFailed",
        says='"name":"before"',
        initContainers=[container("before", "exit 7")],
    ),
    "predefined-comes-first": pod(
        210,
        "ContainerPermanentFailed",
        PERMANENT,
        containers=[container("first", "exit 137"), container("second", "exit 210")],
    ),
    "the-last-of-several": pod(
        4,
        "ContainerUnrecognizedFailed",
        containers=[
            container("last", AFTER_THE_OTHER, **SHARED),
            container("first", "echo $$$$ > /shared/pid; exit 5", **SHARED),
        ],
        volumes=[{"name": "shared", "emptyDir": {}}],
        shareProcessNamespace=True,
    ),
    # 8: its last output is in the diagnostics.
    "last-words": pod(
        3,
        "ContainerUnrecognizedFailed",
        says="no space on the moon",
        script="echo no space on the moon; exit 3",
    ),
    # 23
    "invalid": pod(
        -200,
        "PodCreationPermanentError",
        PERMANENT,
        "nowhere",
        container={"volumeMounts": [{"name": "nowhere", "mountPath": "/data"}]},
    ),
    "unreadable": pod(-310, "PodCreationUnknownError", says="Pod", terminationGracePeriodSeconds="long"),
    "forbidden": pod(-310, "PodCreationUnknownError", says="nobody", serviceAccountName="nobody"),
    # A4
    "no-such-image": pod(
        -240,
        "PendingDeadlineExceeded",
        PERMANENT,
        "worker-0",
        spec={"pendingDeadlineSeconds": 5},
        container={"image": "windlass/no-such-image:1"},
    ),
    "no-such-node": pod(
        -240,
        "PendingDeadlineExceeded",
        PERMANENT,
        "worker-0",
        spec={"pendingDeadlineSeconds": 5},
        nodeSelector={"no-node-has": "this-label"},
    ),
    "no-such-secret": pod(
        -240,
        "PendingDeadlineExceeded",
        PERMANENT,
        "worker-0",
        spec={"pendingDeadlineSeconds": 5},
        container={"envFrom": [{"secretRef": {"name": "no-such-secret"}}]},
    ),
}


FROM_OUTSIDE: dict[str, tuple[Act, int, str]] = {
    "pod-deleted": (external_changes.delete_pod, -101, "PodExternalDeleted"),
    "pod-deleted-at-once": (external_changes.delete_pod_at_once, -101, "PodExternalDeleted"),
    "pod-evicted": (external_changes.evict_pod, -101, "PodExternalDeleted"),
    "config-map-deleted": (external_changes.delete_config_map, -100, "ConfigMapExternalDeleted"),
}


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    node = cluster.client.get("/api/v1/nodes").expect(200).names[0]
    bodies = [framework(name, role(tasks=2, script=FOREVER)) for name in FROM_OUTSIDE]
    bodies += [framework(name, case.role, **case.spec) for name, case in CASES.items()]
    placed = json.loads(json.dumps(bodies).replace(SOME_NODE, node))
    with job_batches.submitted(cluster, tmp_path_factory, "failures", placed) as place:
        yield place


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_pod_deleted_or_evicted_from_outside(submitted: Place, name: str) -> None:
    """18 and 34."""
    act, code, phrase = FROM_OUTSIDE[name]
    submitted.wait_for_running(name, 2)
    act(submitted, name)
    found = submitted.wait_for_completed(name)
    completion = completion_of(found)
    assert (completion["code"], completion["phrase"]) == (code, phrase), completion
    assert tuple(completion["type"]["attributes"]) == TRANSIENT
    ended = [task["attemptStatus"]["completionStatus"]["code"] for task in tasks_of(found)]
    assert set(ended) <= {-101, -220}
    assert ended[0] == -101 or code == -100
    assert not submitted.pods(name)
    assert not submitted.config_maps(name)


@pytest.mark.parametrize("name", CASES)
def test_failure_has_its_completion_code(submitted: Place, name: str) -> None:
    expected = CASES[name]
    found = submitted.wait_for_completed(name)
    completion = completion_of(found)
    assert (completion["code"], completion["phrase"]) == (expected.code, expected.phrase), completion
    assert completion["type"]["name"] == "Failed"
    assert tuple(completion["type"]["attributes"]) == expected.attributes
    assert expected.says in completion["diagnostics"]
    assert condition_of(found, "Failed")["reason"] == expected.phrase
    # The attempt of a task that exceeded its pending deadline was ended; it did not fail itself.
    of_tasks = -220 if expected.code == -240 else expected.code
    ended = [task["attemptStatus"]["completionStatus"]["code"] for task in tasks_of(found)]
    assert ended == [of_tasks] * len(ended)
    assert not submitted.pods(name)
