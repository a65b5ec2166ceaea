"""What the kinds of the training operator (kubeflow.org/v1) share: replica specs, run policy and restart policies.

The restart policy of a replica spec is that of the pod's containers, except ExitCode, with which the operator replaces
a pod whose exit code is above 127. With OnFailure and Always it also replaces a pod that has failed as a whole, e.g.
because it was evicted. backoffLimit limits the sum of the restarts of containers in running pods. It is not a number
of retries of the job: there are none.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.convert import conversion, pod_templates
from windlass.convert.conversion import Draft, Keys
from windlass.convert.fields import METADATA, Fields
from windlass.model import names
from windlass.model.base import Json
from windlass.model.completion import CompletionCode

API_VERSION = "kubeflow.org/v1"

INDEX = "{{" + names.TASK_INDEX + "}}"
"""Placeholder of the index of a task."""
OPERATOR = "kubeflow.org/training-operator"
EXIT_CODE, NEVER, ON_FAILURE, ALWAYS = "ExitCode", "Never", "OnFailure", "Always"
_RESTARTING = (EXIT_CODE, ON_FAILURE, ALWAYS)
PERMANENT_EXIT_CODE = "PermanentExitCode"
_RETRYABLE_CODE = 128
_DELETED = int(CompletionCode.POD_EXTERNAL_DELETED)
_DELETED_IS_TRANSIENT: Json = {
    "type": {"attributes": ["Transient"]},
    "codeRanges": [{"min": _DELETED, "max": _DELETED}],
}
_SCHEDULING = (
    "kept in the annotation windlass.dev/scheduling-policy: the scheduler places pods one by one, "
    "without a gang"
)


class ReplicaKind(msgspec.Struct, frozen=True):
    """How a kind of the training operator names its replicas."""

    field: str
    """Field of the spec, e.g. `tfReplicaSpecs`."""
    types: tuple[str, ...]
    container: str
    """Name of the main container; empty for the first one."""
    port_name: str
    """Name of its port; empty if replicas have no ports and Services of their own."""
    port: int
    restart_policy: str
    """Default of the replicas."""
    replaces_failed_pods: bool = True
    """Whether a pod that has failed as a whole is replaced with OnFailure and Always."""
    default_counts: Mapping[str, int] = {}
    """Default numbers of replicas, by type, if they are not 1."""

    def fields(self, *mapped: str) -> Fields:
        """Return the fields of the kind: those that all kinds have, and `mapped`."""
        replicas = tuple(f"spec.{self.field}.*.{name}" for name in ("replicas", "template", "restartPolicy"))
        return METADATA | RUN_POLICY | Fields((*replicas, *mapped), types=self._types())

    def _types(self) -> dict[str, type]:
        replicas = f"spec.{self.field}.*"
        template = f"{replicas}.template"
        main = f"{template}.spec.containers.*"
        lists = ("command", "args", "env", "ports", "volumeMounts")
        return {
            f"spec.{self.field}": dict,
            replicas: dict,
            f"{replicas}.replicas": int,
            f"{replicas}.restartPolicy": str,
            template: dict,
            f"{template}.metadata": dict,
            f"{template}.metadata.labels": dict,
            f"{template}.spec": dict,
            f"{template}.spec.containers": list,
            f"{template}.spec.initContainers": list,
            f"{template}.spec.volumes": list,
            f"{template}.spec.dnsConfig": dict,
            f"{template}.spec.dnsConfig.searches": list,
            main: dict,
            f"{main}.name": str,
            f"{main}.image": str,
            **{f"{main}.{name}": list for name in lists},
            **{f"{main}.{name}.*": dict for name in lists[2:]},
        }


class Replicas(msgspec.Struct, frozen=True):
    """A replica spec with its defaults, and the role that was made of it."""

    type: str
    role: str
    count: int
    restart_policy: str
    port: int
    keys: Keys
    """Path of the replica spec."""


RUN_POLICY = Fields(
    mapped=(
        "spec.runPolicy",
        "spec.runPolicy.cleanPodPolicy",
        "spec.runPolicy.ttlSecondsAfterFinished",
        "spec.runPolicy.activeDeadlineSeconds",
        "spec.runPolicy.backoffLimit",
        "spec.runPolicy.suspend",
        "spec.runPolicy.managedBy",
    ),
    no_effect={"spec.runPolicy.schedulingPolicy": _SCHEDULING},
    types={
        "spec.runPolicy": dict,
        "spec.runPolicy.cleanPodPolicy": str,
        "spec.runPolicy.ttlSecondsAfterFinished": int,
        "spec.runPolicy.activeDeadlineSeconds": int,
        "spec.runPolicy.backoffLimit": int,
        "spec.runPolicy.suspend": bool,
        "spec.runPolicy.managedBy": str,
        "spec.runPolicy.schedulingPolicy": dict,
    },
)


def put_replicas(draft: Draft, kind: ReplicaKind) -> dict[str, Replicas]:
    """Put a role for each replica spec. Return them by type."""
    found: dict[str, Replicas] = {}
    given: Json = draft.get(kind.field) or {}
    for key in sorted(given, key=lambda each: _order(kind, each)):
        replica_type = next((each for each in kind.types if each.lower() == str(key).lower()), None)
        keys: Keys = ("spec", kind.field, key)
        if replica_type is None:
            draft.refuse(keys, f"unknown replica type, expected one of {', '.join(kind.types)}")
        elif given[key] is None:
            draft.refuse(keys, "expected a mapping with replicas and template")
        else:
            found[replica_type] = _put_role(draft, kind, replica_type, given[key], keys)
    if not found:
        draft.refuse(("spec", kind.field), f"missing: add at least one of {', '.join(kind.types)}")
    return found


def _order(kind: ReplicaKind, key: str) -> int:
    lower = [each.lower() for each in kind.types]
    return lower.index(str(key).lower()) if str(key).lower() in lower else len(lower)


def _put_role(draft: Draft, kind: ReplicaKind, replica_type: str, spec: Json, keys: Keys) -> Replicas:
    role, count = draft.role_name(replica_type.lower()), spec.get("replicas")
    count = kind.default_counts.get(replica_type, 1) if count is None else count
    if count < 0:
        draft.refuse((*keys, "replicas"), "expected at least 0")
        count = 0
    draft.put(("roles", role, "tasks"), count, (*keys, "replicas"))
    draft.map_origin(("roles", role), keys)
    template: Json = pod_templates.mapping(spec.get("template"))
    containers = pod_templates.mapping(template.get("spec")).get("containers") or ()
    container_names = [each.get("name") for each in containers if isinstance(each, dict)]
    if not containers:
        draft.refuse((*keys, "template", "spec", "containers"), "missing: add the container to run")
    elif kind.container and kind.container not in container_names:
        draft.refuse(
            (*keys, "template", "spec", "containers"),
            f"no container is named {kind.container}, which the operator requires: rename the main container",
        )
    main = pod_templates.put_template(draft, role, template, (*keys, "template"), kind.container)
    port = pod_templates.port_of(main, kind.port_name, kind.port)
    if kind.port_name:
        draft.put(("roles", role, "port"), port)
    restart_policy = spec.get("restartPolicy") or kind.restart_policy
    replicas = Replicas(replica_type, role, count, restart_policy, port, keys)
    if kind.port_name:
        _put_host_names(draft, replicas, main, kind)
    put_hostname(draft, role, host_name(draft, replicas, INDEX))
    _put_labels(draft, replicas)
    _put_restart_policy(draft, replicas, replaces=kind.replaces_failed_pods or restart_policy == EXIT_CODE)
    return replicas


def host_name(draft: Draft, replicas: Replicas, index: int | str) -> str:
    """Return the name of the Service and the pod of a replica."""
    return f"{draft.name}-{replicas.type.lower()}-{index}"


def _put_host_names(draft: Draft, replicas: Replicas, main: Json, kind: ReplicaKind) -> None:
    ports = {
        str(port.get("name") or f"port-{port['containerPort']}"): int(port["containerPort"])
        for port in main.get("ports") or ()
        if isinstance(port, dict) and isinstance(port.get("containerPort"), int)
    }
    ports.setdefault(kind.port_name, replicas.port)
    for index in range(replicas.count if isinstance(replicas.count, int) else 0):
        selector = {names.TASKROLE_NAME: replicas.role, names.TASK_INDEX: str(index)}
        draft.headless_service(host_name(draft, replicas, index), selector, ports)


def put_hostname(draft: Draft, role: str, name: str) -> None:
    """Set the hostname of the pods, unless the template does: that of the original is the name of the pod."""
    pod = pod_templates.mapping(draft.document["roles"][role].get("pod"))
    if "hostname" not in pod_templates.mapping(pod.get("spec")):
        draft.merge(("roles", role, "pod", "spec"), {"hostname": name})


def _put_labels(draft: Draft, replicas: Replicas) -> None:
    """Set the labels of the original, by which other objects of the file may select pods."""
    labels = {"job-name": draft.name, "replica-type": replicas.type.lower(), "replica-index": INDEX}
    written = {f"training.kubeflow.org/{name}": value for name, value in labels.items()}
    draft.merge(("roles", replicas.role, "pod", "metadata"), {"labels": written})


# Restart policies


def _put_restart_policy(draft: Draft, replicas: Replicas, *, replaces: bool) -> None:
    policy, keys = replicas.restart_policy, (*replicas.keys, "restartPolicy")
    if policy not in (*_RESTARTING, NEVER):
        draft.refuse(keys, f"found {policy}, expected Always, ExitCode, Never or OnFailure")
        return
    backoff_limit = draft.get("runPolicy", "backoffLimit")
    pod_policy = NEVER if policy == EXIT_CODE else policy
    pod = ("roles", replicas.role, "pod")
    draft.merge((*pod, "spec"), {"restartPolicy": pod_policy})
    draft.map_origin((*pod, "spec", "restartPolicy"), keys)
    task: Json = {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0}}
    classes: list[Json] = []
    if policy == EXIT_CODE:
        codes = {"min": 1, "max": _RETRYABLE_CODE - 1}
        permanent = {"phrase": PERMANENT_EXIT_CODE, "type": {"attributes": ["Permanent"]}}
        classes.append({**permanent, "codeRanges": [codes]})
        draft.note(keys, "exit codes 1 to 127 fail the job, and higher ones replace the pod")
    if policy in _RESTARTING and replaces:
        # A pod that has failed as a whole is replaced, however often, or never if backoffLimit is 0. A pod that was
        # deleted has not failed.
        task["retryPolicy"] = {
            "fancyRetryPolicy": policy == EXIT_CODE or backoff_limit == 0,
            "maxRetryCount": 0 if backoff_limit == 0 else -1,
            "maxTransientRetryCount": None,
            "retryBackoff": None,
        }
        if backoff_limit == 0:
            classes = [_DELETED_IS_TRANSIENT, *classes, {"type": {"attributes": []}}]
    if classes:
        task["podFailureSpec"] = classes
    draft.framework_role(replicas.role, {"task": task})


def fail_on_permanent_exit_code(draft: Draft, replicas: Replicas) -> None:
    """Let a pod fail the job by a permanent exit code, although other failures of the role do not."""
    if replicas.restart_policy == EXIT_CODE:
        rule = {
            "name": "permanent exit code",
            "taskRoles": [replicas.role],
            "minFailedTaskCount": 1,
            "phrases": [PERMANENT_EXIT_CODE],
        }
        draft.framework({"completionPolicies": [rule]})


# Run policy


def put_run_policy(
    draft: Draft,
    replicas: Mapping[str, Replicas] | None,
    managers: tuple[str, ...] = (OPERATOR,),
    *,
    deletes_all: bool = True,
) -> None:
    """Put deadline, time to live, suspension and the limit of container restarts.

    `replicas` are those whose restarts count; None if backoffLimit has another meaning. `deletes_all`: whether the
    cleanPodPolicy All deletes the pods of all roles.
    """
    origin: Keys = ("spec", "runPolicy")
    policy = pod_templates.mapping(draft.get("runPolicy"))
    draft.put(
        ("retry",),
        {"job": 0, "transient": 0},
        comment="the original does not restart a failed job",
    )
    draft.framework({"retryPolicy": {"fancyRetryPolicy": False}})
    if policy.get("activeDeadlineSeconds"):
        draft.put(("activeDeadline",), policy["activeDeadlineSeconds"], (*origin, "activeDeadlineSeconds"))
    if policy.get("ttlSecondsAfterFinished") is not None:
        draft.put(("ttl",), policy["ttlSecondsAfterFinished"], (*origin, "ttlSecondsAfterFinished"))
    if policy.get("suspend"):
        draft.framework({"suspend": True})
    if replicas is not None:
        _put_backoff_limit(draft, policy.get("backoffLimit"), replicas, (*origin, "backoffLimit"))
    clean = policy.get("cleanPodPolicy")
    put_clean_pod_policy(draft, clean, (*origin, "cleanPodPolicy"), deletes_all=deletes_all)
    put_scheduling_policy(draft, policy.get("schedulingPolicy"))
    check_managed_by(draft, policy.get("managedBy"), (*origin, "managedBy"), managers)


def check_managed_by(draft: Draft, manager: Any, keys: Keys, own: tuple[str, ...]) -> None:
    if manager and manager not in own:
        draft.refuse(
            keys, f"{manager} manages this job, not its own operator: remove the field to run it here"
        )


def put_scheduling_policy(draft: Draft, policy: Any) -> None:
    if policy:
        draft.annotate(conversion.POLICY_ANNOTATION, msgspec.json.encode(policy).decode())


def put_clean_pod_policy(draft: Draft, policy: Any, keys: Keys, *, deletes_all: bool = True) -> None:
    """Put what happens to the pods of a finished job. Running pods are always stopped here."""
    if policy == "All" and deletes_all:
        draft.framework({"completedPods": "Delete"})
    elif policy == "All":
        draft.note(keys, "workers that ended before the job are kept, like the launcher, with its logs")
    elif policy not in (None, "", "None", "Running"):
        draft.refuse(keys, f"found {policy}, expected All, None or Running")
    elif policy in (None, "", "None"):
        draft.note(
            keys,
            "pods that are still running when the job ends are stopped; the original leaves them running",
        )


def _put_backoff_limit(draft: Draft, limit: Any, replicas: Mapping[str, Replicas], keys: Keys) -> None:
    if limit is None:
        return
    roles = [each.role for each in replicas.values() if each.restart_policy in _RESTARTING]
    if not roles:
        draft.no_effect(
            keys, "no replica has the restartPolicy OnFailure, Always or ExitCode, as in the original"
        )
        return
    rule = {
        "name": "backoffLimit",
        "taskRoles": roles,
        "minContainerRestartCount": max(1, limit),
        "phases": ["Running"],
    }
    draft.framework({"completionPolicies": [rule]}, comment="")
    draft.note(
        keys, "the job fails when the containers of its running pods have been restarted so often in total"
    )


# Completion


def put_completion(
    draft: Draft, replicas: Replicas, *, decides: bool, may_fail: bool = False, comment: str = ""
) -> None:
    """Put whether the job succeeds when all tasks of a role have, and whether a failed task fails the job."""
    draft.put(
        ("roles", replicas.role, "completion"),
        {
            "minFailedTaskCount": -1 if may_fail else 1,
            "minSucceededTaskCount": replicas.count if decides else -1,
        },
        replicas.keys,
        comment,
    )
