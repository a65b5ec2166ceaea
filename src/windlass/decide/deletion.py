"""How objects go: one pod, a whole attempt, what nobody claims, a whole Framework (statements 41, 42, 44, A2).

Every delete names a UID. The pods of an attempt go in one request, and its ConfigMap only when no pod of it is left;
the garbage collector would do the same, some sixty times slower.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime

from windlass.decide import initial_status, ownership
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
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodView
from windlass.model.status import FrameworkStatus


def delete_pod(builder: DecisionBuilder, pod: PodView) -> None:
    """Asks for it once; by force when its role's time for a graceful end is over."""
    outcomes = builder.observed.outcomes
    if not pod.is_deleting:
        if pod.uid not in outcomes.deletion_requested:
            builder.act(DeletePod(pod.name, pod.uid))
        return
    force_delete_if_overdue(builder, pod)


def force_delete_if_overdue(builder: DecisionBuilder, pod: PodView) -> None:
    began = pod.deletion_began
    timeout = _graceful_timeout(builder.status, pod)
    if began is None or timeout is None or pod.uid in builder.observed.outcomes.forced:
        return
    if builder.is_due(began, timeout):
        builder.act(DeletePod(pod.name, pod.uid, force=True))
        message = f"Force-deleting pod {pod.name}: it was still terminating after {timeout} s"
        builder.report(ReasonKind.POD_FORCE_DELETED, message, is_warning=True)


def _graceful_timeout(status: FrameworkStatus, pod: PodView) -> int | None:
    name = pod.metadata.labels.role_name
    for role in status.attempt_status.roles:
        if role.name == name:
            return role.pod_graceful_deletion_timeout_sec
    return None


def delete_unclaimed_pods(builder: DecisionBuilder, claimed: AbstractSet[str]) -> None:
    """Pods of this Framework that no task claims: of an earlier attempt, or made twice. Strangers' are left alone."""
    for pod in builder.observed.pods.values():
        if pod.uid not in claimed and ownership.is_our_pod(pod, builder.uids):
            delete_pod(builder, pod)


def delete_attempt(builder: DecisionBuilder, config_map_uid: str, config_map: ConfigMapView | None) -> None:
    """One step towards an attempt that has left nothing behind. Gone when neither pods nor the ConfigMap are."""
    outcomes = builder.observed.outcomes
    pods = pods_of_attempt(builder.observed, config_map_uid)
    labelled = [pod for pod in pods if pod.metadata.labels.attempt == config_map_uid]
    has_uncovered = any(
        not pod.is_deleting and pod.uid not in outcomes.deletion_requested for pod in labelled
    )
    if has_uncovered or config_map_uid not in outcomes.collection_deletion_requested:
        builder.act(DeleteAttemptPods(config_map_uid))
    for pod in pods:
        # The reference's pods carry no label that one request could name.
        if pod.metadata.labels.attempt != config_map_uid:
            delete_pod(builder, pod)
        elif pod.is_deleting:
            force_delete_if_overdue(builder, pod)
    is_empty = not pods and config_map_uid in outcomes.collection_deletion_requested
    if is_empty and config_map is not None and config_map.uid not in outcomes.deletion_requested:
        builder.act(DeleteConfigMap(config_map.uid))


def unless_deleting(config_map: ConfigMapView | None) -> ConfigMapView | None:
    """None where it is being deleted already, and its name is wanted again.

    The garbage collector removes it then, by its name alone. Were it deleted by another request meanwhile, the
    collector's would hit the ConfigMap that is made anew.
    """
    return None if config_map is None or config_map.is_deleting else config_map


def delete_objects(
    builder: DecisionBuilder, claimed: AbstractSet[str] = frozenset(), kept_config_map_uid: str | None = None
) -> None:
    """Everything of ours goes but what is claimed and what is kept."""
    config_map = builder.observed.config_map
    covered: set[str] = set()
    if (
        config_map is not None
        and config_map.uid != kept_config_map_uid
        and ownership.is_our_config_map(config_map, builder.uids)
    ):
        covered = {pod.uid for pod in pods_of_attempt(builder.observed, config_map.uid)}
        delete_attempt(builder, config_map.uid, config_map)
    delete_unclaimed_pods(builder, claimed | covered)


def pods_of_attempt(observed: Observed, config_map_uid: str) -> list[PodView]:
    return [pod for pod in observed.pods.values() if ownership.owner_uid_of(pod) == config_map_uid]


def delete_owned_objects(framework: Framework, observed: Observed, now: datetime, rules: Rules) -> Decision:
    """Its objects go; its status stays as it is."""
    status = framework.status or initial_status.framework_status(framework, now.replace(microsecond=0))
    builder = DecisionBuilder(framework, status, observed, now, rules)
    delete_objects(builder)
    return Decision(
        status=framework.status,
        actions=tuple(builder.actions),
        wake_at=builder.wake_at,
        reasons=tuple(builder.reasons),
    )
