"""Decide the next actions for a StatefulSet, which has numbered pods with their own claims.

No function has side effects.

A rolling update replaces pods from the highest ordinal down, each when the previous one is available. Former templates
are not stored: below the `partition` of an update, existing pods stay, but recreated pods use the new template.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from windlass.localcluster.controllers.workloads import back_off, observed, templates
from windlass.localcluster.controllers.workloads.decisions import Action, Create, Decision, Delete, earliest
from windlass.localcluster.controllers.workloads.observed import Pod
from windlass.model.base import Json

RESOURCE = "statefulsets.apps"
_PODS = "pods"
_CLAIMS = "persistentvolumeclaims"
_NAME = "statefulset.kubernetes.io/pod-name"
_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a StatefulSet by ordinal."""

    ordinals: range
    """The ordinals of its replicas."""
    pods: Mapping[int, Pod]
    revision: str
    min_ready_seconds: int
    now: datetime

    def is_available(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and not pod.is_finished and pod.is_available(self.min_ready_seconds, self.now)

    @property
    def surplus(self) -> list[int]:
        """The ordinals of surplus pods, highest first."""
        return sorted((ordinal for ordinal in self.pods if ordinal not in self.ordinals), reverse=True)


def decide(stateful_set: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    spec = stateful_set["spec"]
    state = _state(stateful_set, pods, now)
    actions: list[Action] = []
    if "deletionTimestamp" not in stateful_set["metadata"]:
        is_ordered = spec["podManagementPolicy"] == "OrderedReady"
        actions = [*(_ordered if is_ordered else _parallel)(stateful_set, state)]
        if not actions:
            actions = [*_update(spec, state)]
    replacements = [back_off.replacement_time(pod) for pod in state.pods.values() if pod.is_finished]
    available_at = observed.next_available(pods, state.min_ready_seconds, now)
    wake_at = earliest(*(time for time in replacements if time > now), available_at)
    return Decision(status=_status(stateful_set, state), actions=tuple(actions), wake_at=wake_at)


def revision_of(stateful_set: Json) -> str:
    return f"{stateful_set['metadata']['name']}-{templates.hash_of(stateful_set['spec']['template'])}"


def may_own(stateful_set: Json, name: str) -> bool:
    """Return whether a pod with this name can belong to the StatefulSet."""
    base, _, number = name.rpartition("-")
    return base == stateful_set["metadata"]["name"] and number.isascii() and number.isdigit()


def _state(stateful_set: Json, pods: Iterable[Pod], now: datetime) -> _State:
    spec = stateful_set["spec"]
    start = (spec.get("ordinals") or {}).get("start", 0)
    own = [pod for pod in pods if may_own(stateful_set, pod.name)]
    return _State(
        ordinals=range(start, start + spec["replicas"]),
        pods={int(pod.name.rpartition("-")[2]): pod for pod in own},
        revision=revision_of(stateful_set),
        min_ready_seconds=spec.get("minReadySeconds", 0),
        now=now,
    )


# Actions


def _ordered(stateful_set: Json, state: _State) -> Iterator[Action]:
    """Yield the next actions for the first unavailable replica or, if there is none, for the highest surplus pod."""
    for ordinal in state.ordinals:
        if not state.is_available(ordinal):
            yield from _create_or_replace(stateful_set, state, ordinal)
            return
    highest = next(iter(state.surplus), None)
    if highest is not None:
        yield from _delete_surplus(stateful_set, state, highest)


def _parallel(stateful_set: Json, state: _State) -> Iterator[Action]:
    for ordinal in state.ordinals:
        yield from _create_or_replace(stateful_set, state, ordinal)
    for ordinal in state.surplus:
        yield from _delete_surplus(stateful_set, state, ordinal)


def _create_or_replace(stateful_set: Json, state: _State, ordinal: int) -> Iterator[Action]:
    """Create a missing pod, or delete a finished one after its back-off, so that it is recreated."""
    pod = state.pods.get(ordinal)
    if pod is None:
        yield from (Create(_CLAIMS, claim, may_exist=True) for claim in _claims(stateful_set, ordinal))
        yield Create(_PODS, _pod(stateful_set, ordinal, state.revision))
    elif pod.is_finished and not pod.is_terminating and state.now >= back_off.replacement_time(pod):
        yield Delete(_PODS, pod.name, pod.uid)


def _delete_surplus(stateful_set: Json, state: _State, ordinal: int) -> Iterator[Action]:
    pod = state.pods[ordinal]
    if pod.is_terminating:
        return
    yield Delete(_PODS, pod.name, pod.uid)
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") == "Delete":
        # The claim stays as long as a pod uses it.
        yield from (Delete(_CLAIMS, one["metadata"]["name"], "") for one in _claims(stateful_set, ordinal))


def _update(spec: Json, state: _State) -> Iterator[Action]:
    """Yield the next step of a rolling update: delete the highest outdated pod once all existing pods above it are
    available."""
    strategy = spec["updateStrategy"]
    if strategy["type"] != "RollingUpdate":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(state.ordinals):
        pod = state.pods.get(ordinal)
        if ordinal < partition:
            return
        if pod is None:
            # The missing pod waits for a lower ordinal, which may never be ready with the former template.
            continue
        if pod.is_terminating:
            return
        if pod.labels.get(REVISION) != state.revision:
            yield Delete(_PODS, pod.name, pod.uid)
            return
        if not state.is_available(ordinal):
            return


# Objects to create


def _pod(stateful_set: Json, ordinal: int, revision: str) -> Json:
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    labels = {_NAME: name, _INDEX: str(ordinal), REVISION: revision}
    pod = templates.pod(stateful_set, name=name, labels=labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {
        one["metadata"]["name"]: _claim_name(stateful_set, one, ordinal)
        for one in stateful_set["spec"].get("volumeClaimTemplates") or ()
    }
    if claims:
        others = [one for one in spec.get("volumes") or () if one["name"] not in claims]
        sources = {name: {"persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()}
        spec["volumes"] = [*others, *({"name": name, **source} for name, source in sources.items())]
    return pod


def _claims(stateful_set: Json, ordinal: int) -> Iterator[Json]:
    spec = stateful_set["spec"]
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for template in spec.get("volumeClaimTemplates") or ():
        claim = {key: copy.deepcopy(template[key]) for key in ("apiVersion", "kind", "spec")}
        meta = template["metadata"]
        claim["metadata"] = {
            "name": _claim_name(stateful_set, template, ordinal),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **(spec["selector"].get("matchLabels") or {})},
            "annotations": meta.get("annotations") or {},
        }
        if policy.get("whenDeleted") == "Delete":
            claim["metadata"]["ownerReferences"] = [templates.owner_reference(stateful_set)]
        yield claim


def _claim_name(stateful_set: Json, template: Json, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


# Status


def _status(stateful_set: Json, state: _State) -> Json:
    old: Json = stateful_set.get("status") or {}
    pods = [pod for pod in state.pods.values() if not pod.is_finished]
    staying = [pod for pod in pods if not pod.is_terminating]
    update = state.revision
    current = old.get("currentRevision") or update
    updated = sum(pod.labels.get(REVISION) == update for pod in staying)
    ready = sum(pod.is_ready for pod in staying)
    if updated == ready == len(pods) == len(state.ordinals):
        current = update
    conditions = {"conditions": old["conditions"]} if "conditions" in old else {}
    return conditions | {
        "observedGeneration": stateful_set["metadata"]["generation"],
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": sum(pod.is_available(state.min_ready_seconds, state.now) for pod in staying),
        "currentReplicas": sum(pod.labels.get(REVISION) == current for pod in staying),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    }
