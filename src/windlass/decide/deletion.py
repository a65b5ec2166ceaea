"""Deletion of one pod, an attempt, unclaimed pods, or ConfigMap and pods of a Framework (statements 41, 42, 44, A2).

Every deletion names a UID. The pods of an attempt are deleted as a collection, and its ConfigMap only when no pod is
left; the garbage collector would do the same about sixty times slower.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime

from windlass.decide import history, initial_status, ownership
from windlass.decide.builder import DecisionBuilder
from windlass.decide.types import (
    Decision,
    DeleteAttemptPods,
    DeleteConfigMap,
    DeletePod,
    Observed,
    ReasonKind,
    Rules,
)
from windlass.model.completion import (
    CompletionCode,
    FrameworkAttemptCompletionStatus,
    framework_completion,
)
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus


def delete_pod(builder: DecisionBuilder, pod: PodView) -> None:
    """Delete the pod once; by force when the timeout of its role has passed."""
    outcomes = builder.observed.outcomes
    if not pod.is_deleting:
        if pod.uid not in outcomes.deletion_requested:
            builder.add_action(DeletePod(pod.name, pod.uid))
        return
    force_delete_if_overdue(builder, pod)


def force_delete_if_overdue(builder: DecisionBuilder, pod: PodView) -> None:
    began = pod.deletion_began
    timeout = _graceful_timeout(builder.status, pod)
    if began is None or timeout is None or pod.uid in builder.observed.outcomes.forced:
        return
    if builder.is_due(began, timeout):
        builder.add_action(DeletePod(pod.name, pod.uid, force=True))
        message = f"Force-deleting pod {pod.name}: it was still terminating after {timeout} s"
        builder.report(ReasonKind.POD_FORCE_DELETED, message, is_warning=True)


def _graceful_timeout(status: FrameworkStatus, pod: PodView) -> int | None:
    name = pod.metadata.labels.role_name
    for role in status.attempt_status.roles:
        if role.name == name:
            return role.pod_graceful_deletion_timeout_sec
    return None


def delete_unclaimed_pods(builder: DecisionBuilder, claimed: AbstractSet[str]) -> None:
    """Delete the pods of this Framework, and of deleted Frameworks of the same name, except the claimed ones. Pods of
    other owners are kept."""
    for pod in builder.observed.pods.values():
        if pod.uid not in claimed and ownership.is_our_pod(pod, builder.uids):
            delete_pod(builder, pod)


def delete_attempt(builder: DecisionBuilder, config_map_uid: str, config_map: ConfigMapView | None) -> None:
    """Take the next step of deleting an attempt: first its pods, then `config_map`, unless it is None."""
    outcomes = builder.observed.outcomes
    pods = pods_of_attempt(builder.observed, config_map_uid)
    labelled = [pod for pod in pods if pod.metadata.labels.attempt == config_map_uid]
    has_undeleted_pod = any(
        not pod.is_deleting and pod.uid not in outcomes.deletion_requested for pod in labelled
    )
    if has_undeleted_pod or config_map_uid not in outcomes.collection_deletion_requested:
        builder.add_action(DeleteAttemptPods(config_map_uid))
    for pod in pods:
        # Pods that FrameworkController created lack the label by which DeleteAttemptPods selects.
        if pod.metadata.labels.attempt != config_map_uid:
            delete_pod(builder, pod)
        elif pod.is_deleting:
            force_delete_if_overdue(builder, pod)
    is_empty = not pods and config_map_uid in outcomes.collection_deletion_requested
    if is_empty and config_map is not None and config_map.uid not in outcomes.deletion_requested:
        builder.add_action(DeleteConfigMap(config_map.uid))


def unless_deleting(config_map: ConfigMapView | None) -> ConfigMapView | None:
    """Return the ConfigMap, or None if it is already being deleted.

    Callers that need the name of the ConfigMap again must not send a second deletion: the garbage collector is about
    to delete the ConfigMap by its name. If another request deleted it first, the collector would delete the ConfigMap
    that is created next.
    """
    return None if config_map is None or config_map.is_deleting else config_map


def delete_objects(
    builder: DecisionBuilder, claimed: AbstractSet[str] = frozenset(), kept_config_map_uid: str | None = None
) -> None:
    """Delete the ConfigMap and the pods of the Framework, except the ConfigMap to keep and the claimed pods."""
    config_map = builder.observed.config_map
    attempt_pod_uids: set[str] = set()
    if (
        config_map is not None
        and config_map.uid != kept_config_map_uid
        and ownership.is_our_config_map(config_map, builder.uids)
    ):
        attempt_pod_uids = {pod.uid for pod in pods_of_attempt(builder.observed, config_map.uid)}
        delete_attempt(builder, config_map.uid, config_map)
    delete_unclaimed_pods(builder, claimed | attempt_pod_uids)


def pods_of_attempt(observed: Observed, config_map_uid: str) -> list[PodView]:
    return [pod for pod in observed.pods.values() if ownership.owner_uid_of(pod) == config_map_uid]


def completion_of_deleted() -> FrameworkAttemptCompletionStatus:
    """Return the completion status of an attempt that had not ended when its Framework was deleted."""
    diagnostics = "The Framework was deleted, and its ConfigMap with it"
    return framework_completion(CompletionCode.CONFIG_MAP_EXTERNAL_DELETED, diagnostics)


def decide_deletion(framework: Framework, observed: Observed, now: datetime, rules: Rules) -> Decision:
    """Return a decision that deletes the ConfigMap and the pods of a Framework that was deleted, or that is being
    deleted and has no status. The garbage collector would be slower."""
    status = framework.status or initial_status.framework_status(framework, now.replace(microsecond=0))
    builder = DecisionBuilder(framework, status, observed, now, rules)
    if framework.status is not None:
        history.add_record_of_deleted(builder, completion_of_deleted())
    delete_objects(builder)
    return Decision(
        status=framework.status,
        actions=tuple(builder.actions),
        wake_at=builder.wake_at,
        reasons=tuple(builder.reasons),
    )
