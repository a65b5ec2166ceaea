"""PersistentVolumeClaims on one machine: each is a folder below the data directory, there from its binding to its end.

A claim that names a storage class other than ours waits for somebody else, as it would anywhere. What is in the folder
goes with the claim, as with every volume that was provisioned for one.
"""

import logging
import shutil
from pathlib import Path

from windlass.localcluster import bodies
from windlass.localcluster.kinds.strategy import Object
from windlass.localcluster.lifecycle import Lifecycle
from windlass.localcluster.store import Change

logger = logging.getLogger(__name__)

STORAGE_CLASS = "local"
_CLAIMS = "persistentvolumeclaims"


class Volumes:
    """Binds claims to folders."""

    def __init__(self, lifecycle: Lifecycle, folder: Path) -> None:
        self._lifecycle = lifecycle
        self._folder = folder
        lifecycle.store.listen(self._on_change)
        for body in lifecycle.store.all(_CLAIMS):
            self._look_at(bodies.decode_stored(body))

    def folder_of(self, claim: Object) -> Path:
        return (
            self._folder
            / f"{claim['metadata']['namespace']}-{claim['metadata']['name']}-{claim['metadata']['uid']}"
        )

    def _on_change(self, change: Change) -> None:
        if change.resource != _CLAIMS:
            return
        if change.after is not None:
            self._look_at(bodies.decode_stored(change.after))
        elif change.before is not None:
            self._remove(bodies.decode_stored(change.before))

    def _look_at(self, claim: Object) -> None:
        is_ours = claim["spec"].get("storageClassName", STORAGE_CLASS) in ("", STORAGE_CLASS)
        is_waiting = (
            claim.get("status", {}).get("phase") == "Pending" and "deletionTimestamp" not in claim["metadata"]
        )
        if not is_ours or not is_waiting:
            return
        try:
            self.folder_of(claim).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            logger.warning("no folder for claim %s: %s", claim["metadata"]["name"], error)
            return
        kind = self._lifecycle.registry.stored_as(_CLAIMS)
        assert kind is not None  # noqa: S101 — it stands in the table
        self._lifecycle.amend(kind, claim["metadata"]["namespace"], claim["metadata"]["name"], _bound)

    def _remove(self, claim: Object) -> None:
        shutil.rmtree(self.folder_of(claim), ignore_errors=True)


def _bound(claim: Object) -> Object:
    spec = {**claim["spec"], "volumeName": f"pvc-{claim['metadata']['uid']}"}
    requested = spec["resources"]["requests"]["storage"]
    status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": {"storage": requested}}
    return {**claim, "spec": spec, "status": status}
