"""Apply a decision about a workload: first the status, then the actions, then the events.

All changes are made in one iteration of the event loop, and are committed together or not at all.
"""

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.apiserver.strategy import Change as Amendment
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Annotate,
    Create,
    Decision,
    Delete,
    RemoveTracking,
    ScaleReplicaSet,
)
from windlass.localcluster.controllers.workloads.observed import TRACKING, Pod
from windlass.localcluster.events import EventRecorder
from windlass.model.base import Json

REPLICA_SETS = "replicasets.apps"
_PODS = "pods"
_HOST = "windlass"
# Status codes for an object that has been deleted or replaced.
_GONE_OR_REPLACED = (404, 409)
# The names of kinds in events.
_KIND_NAMES = {"pods": "pod", "persistentvolumeclaims": "claim", REPLICA_SETS: "replica set"}


class CreateRejectedError(Exception):
    """An object could not be created. The message contains that of the API server."""


class Executor:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._pod_kind = lifecycle.registry.built_in(_PODS)
        self._recorders: dict[str, EventRecorder] = {}

    def apply(self, kind: Kind, workload: Json, decision: Decision) -> None:
        """Apply a decision; raise `CreateRejectedError` at the first object that cannot be created."""
        meta = workload["metadata"]
        if decision.status is not None and decision.status != workload.get("status"):
            status = decision.status
            self._amend(kind, meta, lambda old: {**old, "status": status})
        for action in decision.actions:
            self._apply_action(kind, workload, action)
        for event in decision.events:
            self.record_event(kind, workload, event.type, event.reason, event.message)

    def record_event(self, kind: Kind, workload: Json, type_: str, reason: str, message: str) -> None:
        component = f"{kind.singular}-controller"
        if component not in self._recorders:
            self._recorders[component] = EventRecorder(self._lifecycle, component, _HOST)
        self._recorders[component].record(workload, type_, reason, message)

    def adopt(self, pod: Json, reference: Json) -> None:
        def adopted(old: Json) -> Json:
            references = old["metadata"].get("ownerReferences", [])
            if any(one.get("controller") for one in references):
                return old
            return metadata.with_metadata_list(old, "ownerReferences", [*references, reference])

        self._amend(self._pod_kind, pod["metadata"], adopted)

    def release(self, pod: Pod, namespace: str, owner_uid: str) -> None:
        """Remove the owner reference of a workload that no longer selects the pod."""
        identity = {"namespace": namespace, "name": pod.name, "uid": pod.uid}
        self._amend(self._pod_kind, identity, lambda old: metadata.without_owners(old, {owner_uid}))

    def untrack(self, namespace: str, name: str, uid: str) -> None:
        identity = {"namespace": namespace, "name": name, "uid": uid}
        self._amend(self._pod_kind, identity, lambda old: metadata.without_finalizer(old, TRACKING))

    def _apply_action(self, kind: Kind, workload: Json, action: Action) -> None:
        namespace = workload["metadata"]["namespace"]
        match action:
            case Create():
                self._create(kind, workload, action)
            case Delete():
                self._delete(kind, workload, action)
            case RemoveTracking(name, uid):
                self.untrack(namespace, name, uid)
            case ScaleReplicaSet(name, replicas, annotations):
                self._scale(namespace, name, replicas, annotations)
            case Annotate(annotations):
                self._amend(kind, workload["metadata"], lambda old: _with_annotations(old, annotations))

    def _create(self, kind: Kind, workload: Json, action: Create) -> None:
        namespace = workload["metadata"]["namespace"]
        try:
            created_kind = self._lifecycle.registry.built_in(action.resource)
            created = self._lifecycle.create(created_kind, namespace, action.body, WriteOptions())
        except ApiError as error:
            if action.may_exist and error.reason == "AlreadyExists":
                return
            raise CreateRejectedError(f"Error creating: {error.message}") from error
        # Creating a ReplicaSet is reported as scaling.
        if action.resource != REPLICA_SETS:
            name = bodies.decode_stored(created.body)["metadata"]["name"]
            message = f"Created {_KIND_NAMES[action.resource]}: {name}"
            self.record_event(kind, workload, "Normal", "SuccessfulCreate", message)

    def _delete(self, kind: Kind, workload: Json, action: Delete) -> None:
        options = DeleteOptions(uid=action.uid, propagation=action.propagation)
        namespace = workload["metadata"]["namespace"]
        deleted_kind = self._lifecycle.registry.built_in(action.resource)
        try:
            self._lifecycle.delete(deleted_kind, namespace, action.name, options)
        except ApiError as error:
            if error.code not in _GONE_OR_REPLACED:
                raise
            return
        if action.records_event:
            message = f"Deleted {_KIND_NAMES[action.resource]}: {action.name}"
            self.record_event(kind, workload, "Normal", "SuccessfulDelete", message)

    def _scale(self, namespace: str, name: str, replicas: int, annotations: Json) -> None:
        def scaled(old: Json) -> Json:
            return {**_with_annotations(old, annotations), "spec": {**old["spec"], "replicas": replicas}}

        kind = self._lifecycle.registry.built_in(REPLICA_SETS)
        self._amend(kind, {"namespace": namespace, "name": name}, scaled)

    def _amend(self, kind: Kind, meta: Json, change: Amendment) -> None:
        """Change an object unless it has been deleted or, if `meta` has a uid, replaced by another of the same name."""

        def changed(old: Json) -> Json:
            is_replaced = old["metadata"]["uid"] != meta.get("uid", old["metadata"]["uid"])
            return old if is_replaced else change(old)

        try:
            self._lifecycle.amend(kind, meta["namespace"], meta["name"], changed)
        except ApiError as error:
            if error.code not in _GONE_OR_REPLACED:
                raise


def _with_annotations(obj: Json, annotations: Json) -> Json:
    meta = obj["metadata"]
    merged = {**(meta.get("annotations") or {}), **annotations}
    return {**obj, "metadata": {**meta, "annotations": merged}}
