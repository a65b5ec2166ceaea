"""A pod waits for the volumes that it claims: what kube-scheduler says of those that are not there yet. Pure."""

from collections.abc import Iterator

from windlass.model.base import Json


def names(spec: Json) -> Iterator[str]:
    """The claims that a pod uses, all of its own namespace."""
    for volume in spec.get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            yield source.get("claimName", "")


def blocking_reason(name: str, claim: Json | None) -> str:
    """Why a pod cannot have the volume of this claim yet; nothing when it can."""
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    phase = (claim.get("status") or {}).get("phase")
    if phase == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in claim["metadata"]:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return "" if phase == "Bound" else "pod has unbound immediate PersistentVolumeClaims"
