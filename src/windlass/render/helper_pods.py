"""Pods that work for a job beside its tasks, e.g. the preflight: with its volumes, on nodes of its tasks.

They have neither the variables nor the GPUs of tasks.
"""

import re
from collections.abc import Sequence

from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job, Role
from windlass.render.framework import completion, pods
from windlass.render.storage import volumes
from windlass.render.storage.nfs_shares import Share

_OF_THE_POD = (
    "serviceAccountName",
    "imagePullSecrets",
    "nodeSelector",
    "nodeName",
    "tolerations",
    "securityContext",
    "priorityClassName",
    "schedulerName",
    "runtimeClassName",
)
_SHELL = ("/bin/sh", "-c")
_MEANT_BY_KUBERNETES = re.compile(r"\$(?=[$(])")


def metadata(job: Job, name: str, namespace: str = "") -> Json:
    """Return the metadata of an object of a job. `namespace` is for a job that names none."""
    place = job.namespace or namespace
    return {
        "name": name,
        **({"namespace": place} if place else {}),
        "labels": {**job.labels, names.JOB_LABEL: job.name},
    }


def leading_role(job: Job) -> Role:
    """Return the role whose image and nodes are used."""
    leaders = completion.leaders(job)
    with_tasks = (role for role in job.roles.values() if role.tasks > 0)
    return job.roles[leaders[0]] if leaders else next(with_tasks, Role())


def pod_spec(job: Job, share: Share | None) -> Json:
    """Return a pod spec without containers, which need `mounts`."""
    spec: Json = pods.template(job, leading_role(job), None, share, has_mounts=False).get("spec") or {}
    nodes = (spec.get("affinity") or {}).get("nodeAffinity")
    return {
        "restartPolicy": "Never",
        # These pods do not use the API server.
        "automountServiceAccountToken": False,
        **{field: spec[field] for field in _OF_THE_POD if spec.get(field)},
        **({"affinity": {"nodeAffinity": nodes}} if nodes else {}),
        "volumes": volumes.own_volumes(job, share),
    }


def mounts(job: Job, share: Share | None, *, are_written: bool = False) -> list[Json]:
    """Return the mounts of the job's volumes. `are_written`: also of those that tasks only read."""
    found = volumes.own_mounts(job, share)
    if not are_written:
        return found
    return [{key: value for key, value in mount.items() if key != "readOnly"} for mount in found]


def container(job: Job, name: str, command: list[str], image: str = "") -> Json:
    """Return a container with the securityContext of the tasks."""
    role = leading_role(job)
    found: Json = {
        "name": name,
        "image": image or pods.image_of(job, role),
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    user = _security_context(job, role)
    return {**found, "securityContext": user} if user else found


def script(text: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a shell script with arguments."""
    return [*_SHELL, literal(text), "windlass", *(literal(argument) for argument in arguments)]


def literal(text: str) -> str:
    """Escape text for a container's command: Kubernetes reads `$$` as `$`, and `$(` begins a variable."""
    return _MEANT_BY_KUBERNETES.sub("$$", text)


def _security_context(job: Job, role: Role) -> Json:
    spec: Json = pods.template(job, role, None, has_mounts=False).get("spec") or {}
    name = pods.container_name(job)
    for each in spec.get("containers") or ():
        if each.get("name") == name:
            return each.get("securityContext") or {}
    return {}
