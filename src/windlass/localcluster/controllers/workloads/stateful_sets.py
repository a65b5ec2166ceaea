"""What a StatefulSet needs: pods with numbers, each with its name and its claims, one after the other. Pure.

A change of the template replaces them from the highest number on, each when the one before it is ready. There is no
store of former templates: below the `partition` of an update a pod that is there stays as it is, and one that has to be
made anew is made of the new template.
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


class _Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a StatefulSet by their numbers."""

    wanted: range
    pods: Mapping[int, Pod]
    revision: str
    least_ready: int
    now: datetime

    def is_fine(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and not pod.is_over and pod.is_available(self.least_ready, self.now)

    @property
    def surplus(self) -> list[int]:
        """The highest first."""
        return sorted((ordinal for ordinal in self.pods if ordinal not in self.wanted), reverse=True)


def decide(stateful_set: Json, pods: Sequence[Pod], now: datetime) -> Decision:
    spec = stateful_set["spec"]
    standing = _standing(stateful_set, pods, now)
    actions: list[Action] = []
    if "deletionTimestamp" not in stateful_set["metadata"]:
        is_ordered = spec["podManagementPolicy"] == "OrderedReady"
        actions = [*(_ordered if is_ordered else _parallel)(stateful_set, standing)]
        if not actions:
            actions = [*_update(spec, standing)]
    moments = [back_off.replacement(pod) for pod in standing.pods.values() if pod.is_over]
    return Decision(
        status=_status(stateful_set, standing),
        actions=tuple(actions),
        wake_at=earliest(
            *(moment for moment in moments if moment > now),
            observed.next_available(pods, standing.least_ready, now),
        ),
    )


def revision_of(stateful_set: Json) -> str:
    return f"{stateful_set['metadata']['name']}-{templates.hash_of(stateful_set['spec']['template'])}"


def may_own(stateful_set: Json, name: str) -> bool:
    """Is it the name of one of its pods?"""
    base, _, number = name.rpartition("-")
    return base == stateful_set["metadata"]["name"] and number.isascii() and number.isdigit()


def _standing(stateful_set: Json, pods: Iterable[Pod], now: datetime) -> _Standing:
    spec = stateful_set["spec"]
    start = (spec.get("ordinals") or {}).get("start", 0)
    own = [pod for pod in pods if may_own(stateful_set, pod.name)]
    return _Standing(
        wanted=range(start, start + spec["replicas"]),
        pods={int(pod.name.rpartition("-")[2]): pod for pod in own},
        revision=revision_of(stateful_set),
        least_ready=spec.get("minReadySeconds", 0),
        now=now,
    )


# Who comes and who goes


def _ordered(stateful_set: Json, standing: _Standing) -> Iterator[Action]:
    """One step: nobody comes or goes before all with lower numbers are there and ready."""
    for ordinal in standing.wanted:
        if not standing.is_fine(ordinal):
            yield from _made(stateful_set, standing, ordinal)
            return
    highest = next(iter(standing.surplus), None)
    if highest is not None:
        yield from _dismissed(stateful_set, standing, highest)


def _parallel(stateful_set: Json, standing: _Standing) -> Iterator[Action]:
    for ordinal in standing.wanted:
        yield from _made(stateful_set, standing, ordinal)
    for ordinal in standing.surplus:
        yield from _dismissed(stateful_set, standing, ordinal)


def _made(stateful_set: Json, standing: _Standing, ordinal: int) -> Iterator[Action]:
    """One that is not there comes; one that has ended goes first; all others are waited for."""
    pod = standing.pods.get(ordinal)
    if pod is None:
        yield from (Create(_CLAIMS, claim, may_exist=True) for claim in _claims(stateful_set, ordinal))
        yield Create(_PODS, _pod(stateful_set, ordinal, standing.revision))
    elif pod.is_over and not pod.is_going and standing.now >= back_off.replacement(pod):
        yield Delete(_PODS, pod.name, pod.uid)


def _dismissed(stateful_set: Json, standing: _Standing, ordinal: int) -> Iterator[Action]:
    pod = standing.pods[ordinal]
    if pod.is_going:
        return
    yield Delete(_PODS, pod.name, pod.uid)
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") == "Delete":
        # Each stays for as long as the pod that uses it.
        yield from (Delete(_CLAIMS, one["metadata"]["name"], "") for one in _claims(stateful_set, ordinal))


def _update(spec: Json, standing: _Standing) -> Iterator[Action]:
    """One step: the highest of another revision goes, when all above it are there and ready."""
    strategy = spec["updateStrategy"]
    if strategy["type"] != "RollingUpdate":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in reversed(standing.wanted):
        pod = standing.pods.get(ordinal)
        if ordinal < partition:
            return
        if pod is None:
            # It waits for one with a lower number, which may never be ready with the former template.
            continue
        if pod.is_going:
            return
        if pod.labels.get(REVISION) != standing.revision:
            yield Delete(_PODS, pod.name, pod.uid)
            return
        if not standing.is_fine(ordinal):
            return


# What comes


def _pod(stateful_set: Json, ordinal: int, revision: str) -> Json:
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    made = templates.pod(
        stateful_set, name=name, labels={_NAME: name, _INDEX: str(ordinal), REVISION: revision}
    )
    spec = made["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {
        one["metadata"]["name"]: _claim_name(stateful_set, one, ordinal)
        for one in stateful_set["spec"].get("volumeClaimTemplates") or ()
    }
    if claims:
        volumes = [one for one in spec.get("volumes") or () if one["name"] not in claims]
        added = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
        spec["volumes"] = [*volumes, *added]
    return made


def _claims(stateful_set: Json, ordinal: int) -> Iterator[Json]:
    spec = stateful_set["spec"]
    goes_with_it = (spec.get("persistentVolumeClaimRetentionPolicy") or {}).get("whenDeleted") == "Delete"
    for template in spec.get("volumeClaimTemplates") or ():
        claim = {key: copy.deepcopy(template[key]) for key in ("apiVersion", "kind", "spec")}
        given = template["metadata"]
        claim["metadata"] = {
            "name": _claim_name(stateful_set, template, ordinal),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(given.get("labels") or {}), **(spec["selector"].get("matchLabels") or {})},
            "annotations": given.get("annotations") or {},
        }
        if goes_with_it:
            claim["metadata"]["ownerReferences"] = [templates.owner_reference(stateful_set)]
        yield claim


def _claim_name(stateful_set: Json, template: Json, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


# What is said


def _status(stateful_set: Json, standing: _Standing) -> Json:
    old: Json = stateful_set.get("status") or {}
    pods = [pod for pod in standing.pods.values() if not pod.is_over]
    staying = [pod for pod in pods if not pod.is_going]
    update = standing.revision
    current = old.get("currentRevision") or update
    updated = sum(pod.labels.get(REVISION) == update for pod in staying)
    ready = sum(pod.is_ready for pod in staying)
    wanted = len(standing.wanted)
    if updated == ready == len(pods) == wanted:
        current = update
    kept = {"conditions": old["conditions"]} if "conditions" in old else {}
    return kept | {
        "observedGeneration": stateful_set["metadata"]["generation"],
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": sum(pod.is_available(standing.least_ready, standing.now) for pod in staying),
        "currentReplicas": sum(pod.labels.get(REVISION) == current for pod in staying),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    }
