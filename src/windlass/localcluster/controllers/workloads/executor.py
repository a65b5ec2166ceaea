"""Does what was decided about a workload: the status first, then the actions, then the events.

All of it happens in one turn of the loop, and is stored together or not at all.
"""

from collections.abc import Callable

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.apiserver.strategy import Change as Amendment
from windlass.localcluster.controllers.workloads.decisions import (
    Action,
    Create,
    Decision,
    Delete,
    Relabel,
    Resize,
    Untrack,
)
from windlass.localcluster.controllers.workloads.observed import TRACKING, Pod
from windlass.localcluster.events import EventRecorder
from windlass.model.base import Json

REPLICA_SETS = "replicasets.apps"
_PODS = "pods"
_HOST = "windlass"
_CONFLICTS = (404, 409)
_WORDS = {"pods": "pod", "persistentvolumeclaims": "claim", REPLICA_SETS: "replica set"}


class RefusedError(Exception):
    """Something could not be created. The message is the server's."""


class Actor:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._recorders: dict[str, EventRecorder] = {}

    def perform(self, kind: Kind, workload: Json, decision: Decision) -> None:
        """Raises `RefusedError` when an object could not be created: then those after it are not tried."""
        meta = workload["metadata"]
        if decision.status is not None and decision.status != workload.get("status"):
            status = decision.status
            self._amend(kind, meta, lambda old: {**old, "status": status})
        for action in decision.actions:
            self._act(kind, workload, action)
        for event in decision.events:
            self.tell(kind, workload, event.type, event.reason, event.message)

    def tell(self, kind: Kind, workload: Json, type_: str, reason: str, message: str) -> None:
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

        self._amend(self.kind(_PODS), pod["metadata"], adopted)

    def release(self, pod: Pod, namespace: str, owner: str) -> None:
        """Somebody took away the labels by which its owner knows it."""

        def released(old: Json) -> Json:
            kept = [one for one in old["metadata"].get("ownerReferences", ()) if one["uid"] != owner]
            return metadata.with_metadata_list(old, "ownerReferences", kept)

        self._amend(self.kind(_PODS), {"namespace": namespace, "name": pod.name, "uid": pod.uid}, released)

    def untrack(self, namespace: str, name: str, uid: str) -> None:
        def untracked(old: Json) -> Json:
            kept = [one for one in old["metadata"].get("finalizers", ()) if one != TRACKING]
            return metadata.with_metadata_list(old, "finalizers", kept)

        self._amend(self.kind(_PODS), {"namespace": namespace, "name": name, "uid": uid}, untracked)

    def kind(self, resource: str) -> Kind:
        found = self._lifecycle.registry.find_by_resource(resource)
        assert found is not None  # noqa: S101 — they stand in the table
        return found

    def _act(self, kind: Kind, workload: Json, action: Action) -> None:
        namespace = workload["metadata"]["namespace"]
        match action:
            case Create():
                self._create(kind, workload, action)
            case Delete():
                self._delete(kind, workload, action)
            case Untrack(name, uid):
                self.untrack(namespace, name, uid)
            case Resize(name, replicas, annotations):
                self._resize(namespace, name, replicas, annotations)
            case Relabel(annotations):
                self._amend(kind, workload["metadata"], _annotating(annotations))

    def _create(self, kind: Kind, workload: Json, action: Create) -> None:
        namespace = workload["metadata"]["namespace"]
        try:
            made = self.kind(action.resource)
            written = self._lifecycle.create(made, namespace, action.body, WriteOptions())
        except ApiError as error:
            if action.may_exist and error.reason == "AlreadyExists":
                return
            raise RefusedError(f"Error creating: {error.message}") from error
        # Of a ReplicaSet it is told how large it is.
        if action.resource != REPLICA_SETS:
            message = f"Created {_WORDS[action.resource]}: {_name_in(written.body)}"
            self.tell(kind, workload, "Normal", "SuccessfulCreate", message)

    def _delete(self, kind: Kind, workload: Json, action: Delete) -> None:
        options = DeleteOptions(uid=action.uid, propagation=action.propagation)
        namespace = workload["metadata"]["namespace"]
        try:
            self._lifecycle.delete(self.kind(action.resource), namespace, action.name, options)
        except ApiError as error:
            if error.code not in _CONFLICTS:
                raise
            return
        if action.is_announced:
            message = f"Deleted {_WORDS[action.resource]}: {action.name}"
            self.tell(kind, workload, "Normal", "SuccessfulDelete", message)

    def _resize(self, namespace: str, name: str, replicas: int, annotations: Json) -> None:
        def resized(old: Json) -> Json:
            return {**_annotating(annotations)(old), "spec": {**old["spec"], "replicas": replicas}}

        self._amend(self.kind(REPLICA_SETS), {"namespace": namespace, "name": name}, resized)

    def _amend(self, kind: Kind, meta: Json, change: Amendment) -> None:
        """Unless it is gone, or another has come in its place."""

        def changed(old: Json) -> Json:
            is_the_same = old["metadata"]["uid"] == meta.get("uid", old["metadata"]["uid"])
            return change(old) if is_the_same else old

        try:
            self._lifecycle.amend(kind, meta["namespace"], meta["name"], changed)
        except ApiError as error:
            if error.code not in _CONFLICTS:
                raise


def _annotating(annotations: Json) -> Callable[[Json], Json]:
    def annotated(old: Json) -> Json:
        meta = old["metadata"]
        return {
            **old,
            "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}},
        }

    return annotated


def _name_in(body: bytes) -> str:
    return str(bodies.decode_stored(body)["metadata"]["name"])
