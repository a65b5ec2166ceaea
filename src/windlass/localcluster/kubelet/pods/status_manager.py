"""Pods in the API server: read them, write their status, and delete those whose containers have ended."""

from collections.abc import Callable
from datetime import datetime

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import bodies
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.options import DeleteOptions
from windlass.localcluster.kubelet.lifecycle import statuses
from windlass.localcluster.kubelet.lifecycle.records import PodRecord
from windlass.localcluster.store_types import Change, StoreError, object_key
from windlass.model.base import Json

_PODS = "pods"


class StatusManager:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def pods(self) -> list[Json]:
        return [bodies.decode_stored(body) for body in self._lifecycle.store.all(_PODS)]

    def listen(self, on_change: Callable[[Change], None]) -> None:
        """Call `on_change` for every change of any object."""
        self._lifecycle.store.listen(on_change)

    def stored(self, pod: Json) -> Json | None:
        """Return the stored state of a pod; None if it has been deleted."""
        meta = pod["metadata"]
        body = self._lifecycle.store.get(_PODS, object_key(meta["namespace"], meta["name"]))
        found: Json | None = None if body is None else bodies.decode_stored(body)
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    def on_failed_commit(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` if the previous writes cannot be committed and are lost."""
        store = self._lifecycle.store
        if not store.is_committed:
            store.on_commit(lambda failure: None if failure is None else callback(failure))

    def publish(self, pod: Json, record: PodRecord, now: datetime, *, is_any_starting: bool) -> Json:
        """Write the status that follows from the record, and return the pod as stored. The commit may still fail.

        A pod of the same name with another UID is a different pod: it stays unchanged, and `pod` is returned.
        """
        status = statuses.pod_status(pod, record, now, is_any_starting=is_any_starting)
        meta = pod["metadata"]
        if status == pod.get("status"):
            return pod

        def changed(stored: Json) -> Json:
            return {**stored, "status": status} if stored["metadata"]["uid"] == meta["uid"] else stored

        written = self._lifecycle.amend(self._kind, meta["namespace"], meta["name"], changed)
        found: Json = bodies.decode_stored(written.body)
        return found if found["metadata"]["uid"] == meta["uid"] else pod

    def delete(self, pod: Json) -> None:
        """Delete a pod whose containers have ended, if it still exists. A finalizer may keep the object."""
        meta = pod["metadata"]
        options = DeleteOptions(grace_seconds=0, uid=meta["uid"])
        try:
            self._lifecycle.delete(self._kind, meta["namespace"], meta["name"], options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    @property
    def _kind(self) -> Kind:
        kind = self._lifecycle.registry.find_by_resource(_PODS)
        assert kind is not None  # noqa: S101 — pods are a built-in kind
        return kind
