"""Running Frameworks with the objects and the status that the reference controller writes.

Everything is made through the API, as if that controller had made it: the ConfigMap and the pods with the owners,
labels and annotations of statements 5 and 6 (and no label that only Windlass sets), the status by an update of the
whole object, for its definition has no status subresource.
"""

import uuid
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from operated import jobs

from conformance.client import Client, Json
from windlass.model import names

TIME: Final = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
LONG_AGO: Final = "2019-01-01T00:00:00Z"
SUCCEEDED: Final = {
    "code": 0,
    "phrase": "Succeeded",
    "type": {"name": "Succeeded", "attributes": []},
    "diagnostics": "Pod succeeded",
}
FAILED: Final = {
    "code": 3,
    "phrase": "ContainerUnrecognizedFailed",
    "type": {"name": "Failed", "attributes": []},
    "diagnostics": "PodFailed: exit code 3",
}
STOPPED: Final = {
    "code": -220,
    "phrase": "FrameworkAttemptCompletion",
    "type": {"name": "Failed", "attributes": ["Permanent"]},
    "diagnostics": "Stop to complete current FrameworkAttempt",
}

WITH_CONFIG_MAP: Final = frozenset(
    {
        "AttemptCreationRequested",
        "AttemptPreparing",
        "AttemptRunning",
        "AttemptDeletionPending",
        "AttemptDeletionRequested",
        "AttemptDeleting",
    }
)
"""The states in which a status names an object that exists; it is the same for a task and its pod."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one task."""

    state: str = "AttemptCreationPending"
    phase: str = ""
    """The phase of its pod; empty for the phase that fits the state."""
    ended: Json | None = None
    """The completion status of its attempt, if any."""
    is_pod_gone: bool = False
    """Deleted while no controller was there to see it."""

    @property
    def has_pod(self) -> bool:
        return self.state in WITH_CONFIG_MAP and not self.is_pod_gone

    @property
    def pod_phase(self) -> str:
        if self.phase:
            return self.phase
        return "Pending" if self.state in ("AttemptCreationRequested", "AttemptPreparing") else "Running"


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one Framework."""

    state: str
    tasks: tuple[Task, ...] = (Task(), Task())
    ended: Json | None = None
    spec: Json = {}
    task_retry: Json = {}
    is_config_map_gone: bool = False
    """Deleted while no controller was there to see it."""
    is_config_map_unnamed: bool = False
    """It was created, and the reference fell before it could write that down."""
    completed: str = TIME
    group: str = names.CONTROLLER_GROUP

    @property
    def has_config_map(self) -> bool:
        is_named = self.state in WITH_CONFIG_MAP and not self.is_config_map_gone
        return is_named or self.is_config_map_unnamed


class Predecessor:
    """The reference, at work in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def leave(self, name: str, left: Left) -> Json:
        """Makes it all, and returns the Framework as it is stored then."""
        body = jobs.framework(name, self._role(left), group=left.group)
        body["spec"] |= left.spec
        base = f"/apis/{names.api_version(left.group)}/namespaces/{self._namespace}/{names.PLURAL}"
        created = self._client.post(base, body).expect(201).body
        config_map_uid = self._config_map(created, left)
        tasks = [self._task(created, config_map_uid, index, task) for index, task in enumerate(left.tasks)]
        named_uid = None if left.is_config_map_unnamed else config_map_uid
        created["status"] = _status(name, left, named_uid, tasks)
        stored: Json = self._client.put(f"{base}/{name}", created).expect(200).body
        return stored

    def _role(self, left: Left) -> Json:
        return jobs.role(tasks=len(left.tasks), retry=left.task_retry)

    def delete_objects(self, name: str, left: Left) -> None:
        """Delete the objects that are being deleted according to the states."""
        for index, task in enumerate(left.tasks):
            if task.has_pod and task.state == "AttemptDeleting":
                self._client.delete(self._path("pods", names.pod_name(name, "worker", index))).expect(200)
        if left.has_config_map and left.state == "AttemptDeleting":
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
            self._client.delete(self._path("configmaps", names.config_map_name(name)), options).expect(200)

    def _path(self, plural: str, *rest: str) -> str:
        return "/".join([f"/api/v1/namespaces/{self._namespace}/{plural}", *rest])

    def _config_map(self, framework: Json, left: Left) -> str | None:
        if not left.has_config_map:
            return str(uuid.uuid4()) if left.is_config_map_gone else None
        name, uid = framework["metadata"]["name"], framework["metadata"]["uid"]
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": names.config_map_name(name),
                "labels": {"FC_FRAMEWORK_NAME": name},
                "annotations": {
                    "FC_FRAMEWORK_NAMESPACE": self._namespace,
                    "FC_FRAMEWORK_NAME": name,
                    "FC_CONFIGMAP_NAME": names.config_map_name(name),
                    "FC_FRAMEWORK_UID": uid,
                    "FC_FRAMEWORK_ATTEMPT_ID": "0",
                },
                "finalizers": ["foregroundDeletion"],
                "ownerReferences": [_owner(framework["apiVersion"], names.KIND, name, uid)],
            },
        }
        return self._client.post(self._path("configmaps"), body).expect(201).uid

    def _task(self, framework: Json, config_map_uid: str | None, index: int, task: Task) -> Json:
        name = framework["metadata"]["name"]
        task_uid = str(uuid.uuid4())
        pod: Json | None = None
        if task.has_pod and config_map_uid is not None:
            pod = self._pod(framework, config_map_uid, task_uid, index, task)
        pod_uid = pod["metadata"]["uid"] if pod else None
        if pod is None and (task.is_pod_gone or task.ended == SUCCEEDED):
            pod_uid = str(uuid.uuid4())
        return _task_status(names.pod_name(name, "worker", index), task_uid, index, task, pod_uid)

    def _pod(self, framework: Json, config_map_uid: str, task_uid: str, index: int, task: Task) -> Json:
        name = framework["metadata"]["name"]
        pod_name, config_map = names.pod_name(name, "worker", index), names.config_map_name(name)
        labels = {"FC_FRAMEWORK_NAME": name, "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": str(index)}
        annotations = {
            **labels,
            "FC_FRAMEWORK_NAMESPACE": self._namespace,
            "FC_CONFIGMAP_NAME": config_map,
            "FC_POD_NAME": pod_name,
            "FC_FRAMEWORK_UID": framework["metadata"]["uid"],
            "FC_FRAMEWORK_ATTEMPT_ID": "0",
            "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{config_map_uid}",
            "FC_CONFIGMAP_UID": config_map_uid,
            "FC_TASKROLE_UID": f"role-of-{framework['metadata']['uid']}",
            "FC_TASK_UID": task_uid,
            "FC_TASK_ATTEMPT_ID": "0",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [_owner("v1", "ConfigMap", config_map, config_map_uid)],
            },
            "spec": {**jobs.template()["spec"], "nodeName": "old-node"},
        }
        created: Json = self._client.post(self._path("pods"), body).expect(201).body
        if task.pod_phase != "Pending":
            self._client.patch(
                self._path("pods", pod_name, "status"), {"status": _pod_status(task)}, kind="merge"
            ).expect(200)
        return created


def _owner(api_version: str, kind: str, name: str, uid: str) -> Json:
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    return {**owner, "controller": True, "blockOwnerDeletion": True}


def _pod_status(task: Task) -> Json:
    code = 3 if task.pod_phase == "Failed" else 0
    state: Json = {"running": {"startedAt": TIME}}
    if task.pod_phase != "Running":
        state = {"terminated": {"exitCode": code, "startedAt": TIME, "finishedAt": TIME}}
    container = {
        "name": "main",
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    return {
        "phase": task.pod_phase,
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "hostIP": "192.0.2.7",
        "startTime": TIME,
        "containerStatuses": [container],
    }


def _times(state: str) -> Json:
    has_run = state not in ("AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing")
    is_over = state in ("AttemptCompleted", "Completed")
    return {
        "startTime": TIME,
        "runTime": TIME if has_run else None,
        "completionTime": TIME if is_over else None,
    }


def _retries() -> Json:
    return {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}


def _status(name: str, left: Left, config_map_uid: str | None, tasks: list[Json]) -> Json:
    outer = {**_times(left.state), "completionTime": left.completed if left.state == "Completed" else None}
    return {
        **outer,
        "state": left.state,
        "transitionTime": TIME,
        "retryPolicyStatus": _retries(),
        "attemptStatus": {
            "id": 0,
            **_times(left.state),
            "instanceUID": f"0_{config_map_uid}" if config_map_uid else None,
            "configMapName": names.config_map_name(name),
            "configMapUID": config_map_uid,
            "completionStatus": left.ended,
            "taskRoleStatuses": [
                {
                    "name": "worker",
                    "instanceUID": str(uuid.uuid4()),
                    "podGracefulDeletionTimeoutSec": None,
                    "taskStatuses": tasks,
                }
            ],
        },
    }


def _task_status(pod_name: str, task_uid: str, index: int, task: Task, pod_uid: str | None) -> Json:
    has_run = task.has_pod and task.pod_phase != "Pending"
    outer = {**_times(task.state), "completionTime": TIME if task.state == "Completed" else None}
    attempt: dict[str, Any] = {
        "id": 0,
        **_times(task.state),
        "instanceUID": f"0_{pod_uid}" if pod_uid else None,
        "podName": pod_name,
        "podUID": pod_uid,
        "podNodeName": "old-node" if has_run else None,
        "podIP": "10.1.2.3" if has_run else None,
        "podHostIP": "192.0.2.7" if has_run else None,
        "completionStatus": task.ended,
    }
    return {
        "index": index,
        "instanceUID": task_uid,
        "deletionPending": False,
        **outer,
        "state": task.state,
        "transitionTime": TIME,
        "retryPolicyStatus": _retries(),
        "attemptStatus": attempt,
    }
