"""The pods that workloads create from their templates. No function has side effects."""

import copy
import hashlib

import msgspec

from windlass.localcluster.controllers.workloads.observed import TRACKING
from windlass.model.base import Json

# The alphabet of Kubernetes for template hashes: no vowels and no characters that look alike.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def owner_reference(owner: Json) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(owner: Json, *, name: str = "", base: str = "", labels: Json | None = None) -> Json:
    """Return a pod of the owner. Without `name`, the server generates the name from `base`."""
    template = copy.deepcopy(owner["spec"]["template"])
    template_meta = template.get("metadata") or {}
    meta = {
        **({"name": name} if name else {"generateName": base}),
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(template_meta.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(owner)],
    }
    for key in ("annotations", "finalizers"):
        if template_meta.get(key):
            meta[key] = template_meta[key]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def pod_of_job(job: Json, index: int | None) -> Json:
    """Return a pod of a Job. A label, an annotation, the hostname and a variable contain the index, if any."""
    name = job["metadata"]["name"]
    created = pod(job, base=f"{name}-" if index is None else f"{name}-{index}-")
    meta, spec = created["metadata"], created["spec"]
    meta["finalizers"] = [*meta.get("finalizers", ()), TRACKING]
    if index is None:
        return created
    meta["labels"][INDEX] = str(index)
    meta["annotations"] = {**meta.get("annotations", {}), INDEX: str(index)}
    spec["hostname"] = f"{name}-{index}"
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        variables = container.get("env") or []
        if all(one.get("name") != INDEX_VARIABLE for one in variables):
            source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}}
            container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]
    return created


def hash_of(template: Json) -> str:
    """Return a hash that is equal for equal templates."""
    encoded = msgspec.json.encode(template, order="deterministic")
    number = int.from_bytes(hashlib.sha256(encoded).digest())
    letters = []
    for _ in range(_HASH_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
