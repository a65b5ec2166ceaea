"""The pod template of a role."""

from collections.abc import Sequence

from windlass.k8s.strategic_merge import merge_pod_template
from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Command, Job, Role, Value
from windlass.model.resources import TASKS_PER_GPU_ANNOTATION, Resources
from windlass.render import code as job_code
from windlass.render.code import Code
from windlass.render.storage import volumes
from windlass.render.storage.nfs_shares import Share
from windlass.wire import commands

NO_IMAGE = "windlass.dev/this-machine"
"""Image of a job that names none. No registry has it: only the embedded cluster runs it, with the host's programs."""
PROGRESS_VARIABLE = "WINDLASS_PROGRESS"
PROGRESS_FILE = f"{volumes.STATE_FOLDER}/progress"
"""File into which a program writes its progress as `STEP/TOTAL key=value`."""
NPROC_VARIABLE = "PET_NPROC_PER_NODE"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_WITHOUT_PORTS = frozenset({Runtime.MPI, Runtime.PLAIN})
"""Runtimes whose tasks have no port by default."""


def template(
    job: Job, role: Role, code: Code | None, share: Share | None = None, *, has_own_mounts: bool = True
) -> Json:
    """Render a pod template. A role overrides the job, and `pod` overrides both.

    Even if `pod` sets an affinity, the pod is restricted to the nodes that have the host folders.
    """
    spec = job_code.with_code(_spec(job, role, share, has_own_mounts=has_own_mounts), code)
    metadata = _without_empty({"labels": dict(job.labels), "annotations": _annotations(job, role)})
    pod: Json = {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}
    merged = merge_pod_template(merge_pod_template(pod, job.pod), role.pod)
    nodes = nodes_with_folders(job)
    return merged if nodes is None else {**merged, "spec": restrict_to_nodes(merged.get("spec") or {}, nodes)}


def _annotations(job: Job, role: Role) -> dict[str, str]:
    resources = role.resources or job.resources
    gpus = resources.requested_gpus if resources is not None else None
    return {TASKS_PER_GPU_ANNOTATION: str(gpus.shared)} if gpus is not None and gpus.shared else {}


def nodes_with_folders(job: Job) -> tuple[str, ...] | None:
    """Return the nodes that have every host folder, in the order of the first volume that names nodes. None: no
    volume names nodes."""
    named = [volume.nodes for volume in job.volumes.values() if volume.nodes]
    if not named:
        return None
    first, *others = named
    return tuple(dict.fromkeys(node for node in first if all(node in nodes for nodes in others)))


def restrict_to_nodes(spec: Json, nodes: Sequence[str]) -> Json:
    """Add the requirement to run on one of the nodes to each nodeSelectorTerm of a pod spec, or to a new term."""
    expression: Json = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    affinity: Json = spec.get("affinity") or {}
    node_affinity: Json = affinity.get("nodeAffinity") or {}
    terms: list[Json] = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    restricted = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), expression]} for term in terms
    ]
    required = {_REQUIRED: {"nodeSelectorTerms": restricted}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**node_affinity, **required}}}


def container_name(job: Job, role: Role) -> str:
    default = "main" if job.runtime is Runtime.PLAIN else str(job.runtime)
    return role.container or job.container or default


def image_of(job: Job, role: Role) -> str:
    return role.image or job.image or NO_IMAGE


def command_of(job: Job, role: Role) -> Command | None:
    """Return the command of the role's tasks without the overrides of `pod`."""
    return role.command if role.command is not None or role.idle else job.command


def port_of(job: Job, role: Role) -> int | None:
    """Return the port of the role's tasks, or None if they have none."""
    default = None if job.runtime in _WITHOUT_PORTS else names.DEFAULT_PORT
    return role.port or job.port or default


def secret_name(job: str) -> str:
    """Return the name of the Secret with the secret variables."""
    return f"{job}-secrets"


def _spec(job: Job, role: Role, share: Share | None, *, has_own_mounts: bool) -> Json:
    spec: Json = {
        "restartPolicy": "Never",
        "containers": [_container(job, role, share, has_own_mounts=has_own_mounts)],
        "volumes": volumes.volumes_of(job, role, share, has_own_mounts=has_own_mounts),
        "serviceAccountName": job.service_account,
        "imagePullSecrets": [{"name": name} for name in job.image_pull_secrets],
        "nodeSelector": {**job.node_selector, **role.node_selector},
        "tolerations": [*job.tolerations, *role.tolerations],
    }
    return _without_empty(spec, keep="volumes")


def container(job: Job, role: Role) -> Json:
    """Return the container of a task without code, shared memory, progress file and the overrides of `pod`."""
    return _container(job, role, None, has_own_mounts=False)


def _container(job: Job, role: Role, share: Share | None, *, has_own_mounts: bool) -> Json:
    port, command = port_of(job, role), command_of(job, role)
    variables = {**_secrets(job), **job.variables, **role.env}
    container: Json = {
        "name": container_name(job, role),
        "image": image_of(job, role),
        "command": [] if command is None else commands.container_arguments(command, variables),
        "ports": [] if port is None else [{"containerPort": port}],
        "env": _env({**_processes(job, role), **variables}, has_own_mounts=has_own_mounts),
        "envFrom": list(job.env_from),
        "resources": resources_of(role.resources or job.resources),
        "volumeMounts": volumes.mounts_of(job, role, share, has_own_mounts=has_own_mounts),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return _without_empty(container, keep="volumeMounts")


def _processes(job: Job, role: Role) -> dict[str, Value]:
    """Return the variable from which torchrun reads the number of its processes."""
    processes = role.processes_per_task or job.processes_per_task
    return {} if processes is None or job.runtime is not Runtime.PYTORCH else {NPROC_VARIABLE: processes}


def _secrets(job: Job) -> dict[str, Value]:
    return {
        name: {"secretKeyRef": {"name": secret_name(job.name), "key": name}} for name in sorted(job.secrets)
    }


def _env(variables: dict[str, Value], *, has_own_mounts: bool) -> list[Json]:
    """Return the variables of a container. Those of Windlass come first, so that those of the job may refer to them or
    override them."""
    # Without this, the log of a Python program would lag behind.
    own: dict[str, Value] = {"PYTHONUNBUFFERED": "1"}
    if has_own_mounts:
        own[PROGRESS_VARIABLE] = PROGRESS_FILE
    return [_variable(name, value) for name, value in {**own, **variables}.items()]


def _variable(name: str, value: Value) -> Json:
    if isinstance(value, dict):
        return {"name": name, "valueFrom": value}
    return {"name": name, "value": str(value).lower() if isinstance(value, bool) else str(value)}


def resources_of(resources: Resources | None) -> Json:
    """Return requests and limits, which are equal except for GPUs: these are limits only."""
    if resources is None:
        return {}
    requests = {
        name: str(quantity)
        for name, quantity in (("cpu", resources.cpus), ("memory", resources.memory))
        if quantity is not None
    }
    gpus = resources.requested_gpus
    limits = {gpus.requested_resource: str(gpus.count)} if gpus.count else {}
    return _without_empty({"requests": requests, "limits": {**requests, **limits}})


def _without_empty(fields: Json, keep: str = "") -> Json:
    """Remove fields with an empty value, except the field `keep`."""
    return {name: value for name, value in fields.items() if value or name == keep}
