"""Job of Volcano (batch.volcano.sh/v1alpha1): tasks, policies and plugins.

A failed pod is neither replaced nor does it end the job, unless a policy says so: the job ends when all pods have
ended, and fails if fewer than `minAvailable` pods have succeeded. A pod that somebody deletes is created again.
"""

from typing import Any

import msgspec

from windlass.convert import conversion, job_spec, pod_templates, volcano_plugins, volcano_policies
from windlass.convert.conversion import Draft, Keys, StartCondition
from windlass.convert.fields import METADATA, Fields, Kind
from windlass.convert.volcano_tasks import JobSpec, Task
from windlass.model.base import Json

API_VERSION = "batch.volcano.sh/v1alpha1"
SCHEDULER = "volcano"
_PREFIX = "volcano.sh/"
_DEFAULT_RETRIES = 3
_READY = "Ready"
_GANG = "kept in the annotation windlass.dev/scheduling-policy: the scheduler places pods one by one, without a gang"
_SCHEDULING_FIELDS = ("minAvailable", "queue", "priorityClassName", "networkTopology", "runningEstimate")


def convert(draft: Draft) -> None:
    if job_spec.decode(draft, JobSpec, draft.spec, ("spec",)) is None:
        return
    tasks = _tasks(draft)
    total = sum(task.replicas for task in tasks)
    available = draft.get("minAvailable") or sum(task.min_available for task in tasks)
    if available > total:
        draft.refuse(
            ("spec", "minAvailable"), f"greater than the number of pods, which is {total}: reduce it"
        )
    retries = draft.get("maxRetry") or _DEFAULT_RETRIES
    volumes = _volumes(draft)
    plugins = volcano_plugins.Plugins(draft, tasks)
    for task in tasks:
        template = plugins.with_plugins(_pod_template(draft, task, volumes), task)
        draft.put(("roles", task.role, "tasks"), task.replicas, (*task.keys, "replicas"))
        draft.map_origin(("roles", task.role), task.keys)
        draft.put(("roles", task.role, "completion"), {"minFailedTaskCount": -1, "minSucceededTaskCount": -1})
        pod_templates.put_template(draft, task.role, template, (*task.keys, "template"))
        _put_start_order(draft, task, tasks)
    plugins.put_objects()
    volcano_policies.put_policies(draft, tasks, available, retries)
    draft.put(
        ("retry",),
        {"job": retries - 1, "transient": 0},
        ("spec", "maxRetry"),
        f"RestartJob: {retries} attempts in total, from maxRetry",
    )
    draft.framework({"retryPolicy": {"retryBackoff": None}})
    if draft.get("ttlSecondsAfterFinished") is not None:
        draft.put(("ttl",), draft.get("ttlSecondsAfterFinished"), ("spec", "ttlSecondsAfterFinished"))
    _put_scheduling_policy(draft, tasks, available)


# Tasks


def _tasks(draft: Draft) -> list[Task]:
    found: list[Task] = []
    for at, body in enumerate(draft.get("tasks") or ()):
        keys: Keys = ("spec", "tasks", at)
        name = body.get("name") or f"default{at}"
        if any(task.name == name for task in found):
            draft.refuse((*keys, "name"), f"another task is named {name}: rename one of them")
            continue
        found.append(_task(draft, name, body, keys))
    if not found:
        draft.refuse(("spec", "tasks"), "missing: add at least one task")
    return found


def _task(draft: Draft, name: str, body: Json, keys: Keys) -> Task:
    replicas = body.get("replicas") or 0
    partition: Json = body.get("partitionPolicy") or {}
    available = body.get("minAvailable")
    if available is None and partition:
        available = (partition.get("minPartitions") or 0) * (partition.get("partitionSize") or 0)
    available = replicas if available is None else available
    if available > replicas:
        draft.refuse((*keys, "minAvailable"), f"greater than replicas, which is {replicas}: reduce it")
    return Task(
        name=name,
        role=draft.role_name(name),
        replicas=replicas,
        min_available=available,
        max_restarts=body.get("maxRetry") or _DEFAULT_RETRIES,
        body=body,
        keys=keys,
    )


def _pod_template(draft: Draft, task: Task, volumes: list[tuple[Json, Json]]) -> Json:
    """Return the pod template with what Volcano adds to each pod."""
    given: Json = task.body.get("template") or {}
    metadata, spec = dict(given.get("metadata") or {}), dict(given.get("spec") or {})
    queue = draft.get("queue") or "default"
    own = {
        "task-spec": task.name,
        "task-index": "{{FC_TASK_INDEX}}",
        "job-name": draft.name,
        "queue-name": queue,
    }
    labels = {**own, "job-namespace": "{{FC_FRAMEWORK_NAMESPACE}}"}
    partition: Json = task.body.get("partitionPolicy") or {}
    if partition:
        size = partition.get("partitionSize") or 0
        labels["partition-id"] = f"{{{{FC_TASK_INDEX/{size}}}}}" if size > 0 else "0"
    annotations = {**own, "job-retry-count": "{{FC_FRAMEWORK_ATTEMPT_ID}}"}
    for field, values in (("labels", labels), ("annotations", annotations)):
        metadata[field] = {
            **(metadata.get(field) or {}),
            **{_PREFIX + key: value for key, value in values.items()},
        }
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("hostname", f"{draft.name}-{task.name}-{{{{FC_TASK_INDEX}}}}")
    if draft.get("priorityClassName"):
        spec.setdefault("priorityClassName", draft.get("priorityClassName"))
    _put_scheduler(draft, task, spec)
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or ()), *(volume for volume, _ in volumes)]
        spec["containers"] = [
            {**each, "volumeMounts": [*(each.get("volumeMounts") or ()), *(mount for _, mount in volumes)]}
            for each in spec.get("containers") or ()
        ]
    return {"metadata": metadata, "spec": spec}


def _put_scheduler(draft: Draft, task: Task, spec: Json) -> None:
    """Keep another scheduler than Volcano's."""
    own = spec.pop("schedulerName", None)
    chosen = own or draft.get("schedulerName")
    keys: Keys = (*task.keys, "template", "spec") if own else ("spec",)
    if chosen == SCHEDULER:
        draft.no_effect(
            (*keys, "schedulerName"),
            "the default scheduler places the pods: for Volcano's, set schedulerName under `pod` in the job file",
        )
    elif chosen:
        spec["schedulerName"] = chosen


def _put_start_order(draft: Draft, task: Task, tasks: list[Task]) -> None:
    dependency: Json = task.body.get("dependsOn") or {}
    given = dependency.get("name") or ()
    keys: Keys = (*task.keys, "dependsOn")
    if len(given) > 1 and dependency.get("iteration") == "any":
        draft.refuse((*keys, "iteration"), "any is not supported: name one task, or use all")
        return
    by_name = {each.name: each for each in tasks}
    conditions: list[StartCondition] = []
    for at, name in enumerate(given):
        previous = by_name.get(name)
        if previous is None or previous is task:
            draft.refuse((*keys, "name", at), f"{name} is not another task of the job")
        elif previous.min_available > 0:
            count = None if previous.min_available == previous.replicas else previous.min_available
            conditions.append((previous.role, _READY, count, (*keys, "name", at)))
    draft.start_after(task.role, conditions)


# Volumes and scheduling


def _volumes(draft: Draft) -> list[tuple[Json, Json]]:
    """Return a volume of the pods and its mount for each volume of the job. New claims are additional objects."""
    found: list[tuple[Json, Json]] = []
    for at, volume in enumerate(draft.get("volumes") or ()):
        keys: Keys = ("spec", "volumes", at)
        claim, spec = volume.get("volumeClaimName"), volume.get("volumeClaim")
        if not volume.get("mountPath"):
            draft.refuse((*keys, "mountPath"), "missing: add the path in the containers")
        if bool(claim) == bool(spec):
            draft.refuse(keys, "expected either volumeClaimName or volumeClaim")
            continue
        if spec:
            claim = f"{draft.name}-pvc-{at}"
            draft.objects.append(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": draft.metadata_of(claim),
                    "spec": spec,
                }
            )
            draft.note((*keys, "volumeClaim"), f"the claim is named {claim}, without random characters")
        name = f"volcano-{at}"
        source = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        found.append((source, {"name": name, "mountPath": volume.get("mountPath")}))
    return found


def _put_scheduling_policy(draft: Draft, tasks: list[Task], available: int) -> None:
    policy: dict[str, Any] = {key: draft.get(key) for key in _SCHEDULING_FIELDS if draft.get(key) is not None}
    policy["minAvailable"] = available
    policy["minTaskMember"] = {task.role: task.min_available for task in tasks}
    for field in ("partitionPolicy", "topologyPolicy"):
        given = {task.role: task.body[field] for task in tasks if task.body.get(field)}
        if given:
            policy[field] = given
    draft.annotate(conversion.POLICY_ANNOTATION, msgspec.json.encode(policy).decode())
    if available > 1:
        draft.note(
            ("spec", "minAvailable"),
            "the pods are scheduled one by one: the number is kept in the annotation windlass.dev/scheduling-policy",
        )


_POLICY = tuple(f"policies.*.{name}" for name in ("action", "event", "events", "exitCode", "timeout"))
_TASK = (
    "name",
    "replicas",
    "minAvailable",
    "maxRetry",
    "dependsOn.name",
    "dependsOn.iteration",
    "partitionPolicy.minPartitions",
    "partitionPolicy.partitionSize",
    "template.metadata",
    "template.spec",
    *_POLICY,
)
FIELDS = METADATA | Fields(
    mapped=(
        "spec.maxRetry",
        "spec.minAvailable",
        "spec.minSuccess",
        "spec.plugins",
        "spec.priorityClassName",
        "spec.schedulerName",
        "spec.ttlSecondsAfterFinished",
        "spec.volumes.*.mountPath",
        "spec.volumes.*.volumeClaim",
        "spec.volumes.*.volumeClaimName",
        *(f"spec.{name}" for name in _POLICY),
        *(f"spec.tasks.*.{name}" for name in _TASK),
    ),
    no_effect={
        "spec.networkTopology": _GANG,
        "spec.queue": "there are no queues: kept in the annotation windlass.dev/scheduling-policy",
        "spec.runningEstimate": _GANG,
        "spec.tasks.*.partitionPolicy.networkTopology": _GANG,
        "spec.tasks.*.partitionPolicy.totalPartitions": _GANG,
        "spec.tasks.*.topologyPolicy": _GANG,
    },
)

KINDS = (Kind(API_VERSION, "Job", "jobs", FIELDS, convert),)
