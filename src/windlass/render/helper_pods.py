"""Pods of a job that are not tasks, e.g. the preflight check.

They have the volumes of the job and run on nodes where its tasks may run. By default, they do not have the
variables and GPUs of tasks.
"""

import re
from collections.abc import Sequence

from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job, Role
from windlass.render.framework import completion, pods
from windlass.render.storage import volumes
from windlass.render.storage.nfs_shares import Share

_POD_FIELDS = (
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
_SPECIAL_DOLLAR = re.compile(r"\$(?=[$(])")


def metadata(job: Job, name: str) -> Json:
    """Return the metadata of an object of a job."""
    labels = {**job.labels, names.JOB_LABEL: job.name}
    return {"name": name, **({"namespace": job.namespace} if job.namespace else {}), "labels": labels}


def leading_role(job: Job) -> Role:
    """Return the role whose image and node constraints the helper pods use."""
    leaders = completion.leaders(job)
    with_tasks = (role for role in job.roles.values() if role.tasks > 0)
    return job.roles[leaders[0]] if leaders else next(with_tasks, Role())


def pod_spec(job: Job, share: Share | None) -> Json:
    """Return a pod spec without containers. `mounts` returns the mounts of its volumes."""
    spec: Json = pods.template(job, leading_role(job), None, share, has_own_mounts=False).get("spec") or {}
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    return {
        "restartPolicy": "Never",
        # Companions that use the API server override this.
        "automountServiceAccountToken": False,
        **{field: spec[field] for field in _POD_FIELDS if spec.get(field)},
        **({"affinity": {"nodeAffinity": node_affinity}} if node_affinity else {}),
        "volumes": volumes.job_file_volumes(job, share),
    }


def mounts(job: Job, share: Share | None, *, are_writable: bool = False) -> list[Json]:
    """Return the mounts of the job's volumes. `are_writable`: all are writable, even if tasks mount them read-only."""
    found = volumes.job_file_mounts(job, share)
    if not are_writable:
        return found
    return [{key: value for key, value in mount.items() if key != "readOnly"} for mount in found]


def container(job: Job, name: str, command: list[str], image: str = "") -> Json:
    """Return a container with the securityContext of the leading role's tasks."""
    role = leading_role(job)
    security_context = _security_context(job, role)
    return {
        "name": name,
        "image": image or pods.image_of(job, role),
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"securityContext": security_context} if security_context else {}),
    }


def script(text: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a shell script with arguments."""
    return ["/bin/sh", "-c", literal(text), "windlass", *map(literal, arguments)]


def literal(text: str) -> str:
    """Escape text for a container's command: Kubernetes reads `$$` as `$`, and `$(` begins a variable."""
    return _SPECIAL_DOLLAR.sub("$$", text)


def _security_context(job: Job, role: Role) -> Json:
    spec: Json = pods.template(job, role, None, has_own_mounts=False).get("spec") or {}
    for task_container in spec.get("containers") or ():
        if task_container.get("name") == pods.container_name(job, role):
            return task_container.get("securityContext") or {}
    return {}
