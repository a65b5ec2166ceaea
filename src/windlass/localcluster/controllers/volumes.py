"""PersistentVolumeClaims on one machine: each claim has a folder below the data directory, from binding to deletion.

A claim with a storage class other than `local` stays pending. A deleted claim stays while an unfinished pod uses it.
The folder is deleted with the claim.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from windlass.localcluster import file_trees
from windlass.localcluster.apiserver import bodies, metadata
from windlass.localcluster.apiserver.kinds.claims import PROTECTION
from windlass.localcluster.apiserver.lifecycle import Lifecycle
from windlass.localcluster.apiserver.strategy import Change as Amendment
from windlass.localcluster.apiserver.strategy import Object
from windlass.localcluster.store_types import Change, StoreError, object_key

logger = logging.getLogger(__name__)

STORAGE_CLASS = "local"
_CLAIMS = "persistentvolumeclaims"
_PODS = "pods"
_DELETED_PREFIX = "gone-"
_RETRY_SECONDS = 1.0


class VolumeController:
    """Binds claims to folders and removes the protection finalizer of deleted claims that no unfinished pod uses."""

    def __init__(self, lifecycle: Lifecycle, folder: Path) -> None:
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._folder = folder
        self._remove_orphaned_folders()
        self._store.listen(self._on_change)
        for body in [*self._store.all(_CLAIMS)]:
            self._reconcile(bodies.decode_stored(body))

    def folder_of(self, claim: Object) -> Path:
        # The folder is named after the UID: namespace and name together can be too long for a file name.
        return self._folder / str(claim["metadata"]["uid"])

    def _on_change(self, change: Change) -> None:
        if change.resource == _PODS:
            self._on_pod(change)
        elif change.resource == _CLAIMS and change.after is not None:
            self._reconcile(bodies.decode_stored(change.after))
        elif change.resource == _CLAIMS and change.before is not None:
            self._remove_folder(bodies.decode_stored(change.before))

    def _on_pod(self, change: Change) -> None:
        """Reconcile the claims of a changed pod, which may have been their last user."""
        body = change.after or change.before or b""
        if b'"persistentVolumeClaim"' not in body:
            return
        pod = bodies.decode_stored(body)
        for name in claim_names(pod["spec"]):
            claim = self._store.get(_CLAIMS, f"{pod['metadata']['namespace']}/{name}")
            if claim is not None:
                self._reconcile(bodies.decode_stored(claim))

    def _reconcile(self, claim: Object) -> None:
        if "deletionTimestamp" in claim["metadata"]:
            self._remove_protection_if_unused(claim)
        elif claim.get("status", {}).get("phase") == "Pending":
            self._bind(claim)

    def _bind(self, claim: Object) -> None:
        if claim["spec"].get("storageClassName", STORAGE_CLASS) not in ("", STORAGE_CLASS):
            return
        try:
            folder = self.folder_of(claim)
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True)
            # A container may run as any user; the parent folder is private.
            folder.chmod(0o777)
        except OSError as error:
            self._retry_after(claim, error)
            return
        self._amend(claim, _bind_claim)

    def _remove_protection_if_unused(self, claim: Object) -> None:
        if PROTECTION in claim["metadata"].get("finalizers", ()) and not self._is_used(claim):
            self._amend(claim, lambda old: metadata.without_finalizer(old, PROTECTION))

    def _is_used(self, claim: Object) -> bool:
        meta = claim["metadata"]
        pods = map(bodies.decode_stored, self._store.all(_PODS, meta["namespace"]))
        return any(meta["name"] in claim_names(pod["spec"]) for pod in pods if not _is_finished(pod))

    def _amend(self, claim: Object, change: Amendment) -> None:
        if self._stored(claim) is None:
            return
        kind, meta = self._lifecycle.registry.built_in(_CLAIMS), claim["metadata"]
        try:
            self._lifecycle.amend(kind, meta["namespace"], meta["name"], change)
        except StoreError as error:
            self._retry_after(claim, error)
        if not self._store.is_committed:
            self._store.on_commit(lambda failure: self._retry_after(claim, failure))

    def _retry_after(self, claim: Object, failure: Exception | None) -> None:
        """Retry later if the folder could not be created or a commit failed, e.g. because the disk is full."""
        if failure is None:
            return
        logger.warning("claim %s is retried: %s", claim["metadata"]["name"], failure)
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._reconcile_stored, claim)

    def _reconcile_stored(self, claim: Object) -> None:
        body = self._stored(claim)
        if body is not None:
            self._reconcile(bodies.decode_stored(body))

    def _stored(self, claim: Object) -> bytes | None:
        """Return the stored claim with the name of `claim`; None if there is none."""
        return self._store.get(_CLAIMS, object_key(claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def _remove_folder(self, claim: Object) -> None:
        """Rename the folder at once and delete it in a thread, because it may be large."""
        folder = self.folder_of(claim)
        renamed = folder.with_name(f"{_DELETED_PREFIX}{folder.name}")
        with contextlib.suppress(OSError):
            folder.rename(renamed)
            _remove_in_background(renamed)

    def _remove_orphaned_folders(self) -> None:
        """Delete the folders of deleted claims. Such folders remain if the server is killed."""
        if not self._folder.is_dir():
            return
        uids = {bodies.decode_stored(body)["metadata"]["uid"] for body in self._store.all(_CLAIMS)}
        for folder in self._folder.iterdir():
            if folder.name not in uids:
                _remove_in_background(folder)


def _remove_in_background(folder: Path) -> None:
    threading.Thread(target=_remove, args=(folder,), daemon=True).start()


def _remove(folder: Path) -> None:
    try:
        file_trees.remove(folder)
    except OSError as error:
        logger.warning("cannot delete %s, which is retried at the next start: %s", folder, error)


def claim_names(spec: Object) -> Iterator[str]:
    """Yield the names of the claims that a pod uses, in its namespace."""
    for volume in spec.get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            yield source.get("claimName", "")


def _is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _bind_claim(claim: Object) -> Object:
    if claim.get("status", {}).get("phase") != "Pending":
        return claim
    spec = {**claim["spec"], "volumeName": f"pvc-{claim['metadata']['uid']}"}
    requested = spec["resources"]["requests"]["storage"]
    status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": {"storage": requested}}
    return {**claim, "spec": spec, "status": status}
