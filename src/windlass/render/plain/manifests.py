"""Render a job to plain objects, for a cluster without Windlass.

    ConfigMap    digits-cluster    addresses of the tasks: cluster.json, and a script for each role (`scripts`)
    Service      digits            headless, for all pods
    Service      digits-worker-0   headless, for one task: its DNS name is the same after a retry
    StatefulSet  digits-ps         a role whose tasks run until they are stopped
    Job          digits-worker     a role whose tasks end

`unsupported` rejects jobs that these objects cannot express.
"""

import math
from collections.abc import Iterator, Mapping

import msgspec

from windlass.discovery import environment, mpi, ports
from windlass.discovery.environment import TaskVariables
from windlass.discovery.mpi import Host
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.feature_annotations import Runtime
from windlass.model.job import Duration, Job, Role
from windlass.render import cluster_spec, helper_pods
from windlass.render.code import Code
from windlass.render.framework import builder
from windlass.render.manifest_parts import Part, RenderedObject
from windlass.render.plain import commands
from windlass.render.plain import roles as plain_roles
from windlass.render.plain import scripts as plain_scripts
from windlass.render.plain.commands import Wrapped
from windlass.render.plain.roles import PlainRole
from windlass.render.plain.scripts import IndexSource
from windlass.render.storage import load_data, preflight
from windlass.render.storage.load_data import Folder
from windlass.render.storage.nfs_shares import Share
from windlass.wire import durations

CLUSTER_VOLUME = "windlass-cluster"
CLUSTER_FOLDER = "/windlass/cluster"
CLUSTER_SPEC = "cluster.json"
"""File with the addresses of the tasks by role or, with TensorFlow, by task type."""
WAITING_SECONDS = 600
"""How long a task waits for required files."""

_COMPLETION_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of Indexed Jobs since Kubernetes 1.28."""
_POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"


def cluster_name(job: str) -> str:
    """Return the name of the ConfigMap with the addresses of the tasks."""
    return f"{job}-cluster"


def plain(
    job: Job,
    code: Code | None = None,
    share: Share | None = None,
    *,
    folders: Mapping[str, Folder] | None = None,
    prefix: str | None = None,
) -> tuple[RenderedObject, ...]:
    """Render a job that has no `unsupported.errors`.

    `folders` are the folders of `loadData`, by the paths in the job file. `prefix` is the prefix of the task names
    (default: `{job}-`).
    """
    all_roles = plain_roles.roles_of(job, code, share, prefix)
    roles = tuple(role for role in all_roles if role.tasks > 0)
    peers = plain_roles.peers_of(job, all_roles)
    variables = environment.variables_for_peers(
        job.runtime, peers, job.name, elastic=job.elastic_ranges, host_files=CLUSTER_FOLDER
    )
    wrapped = {role.name: _wrapped(role, variables) for role in roles}
    init_containers = _file_check(job, folders or {}, share)
    return (
        RenderedObject(Part.CLUSTER, _cluster(job, all_roles, variables, wrapped)),
        RenderedObject(
            Part.SERVICES, _service(job, names.service_name(job.name), {names.JOB_LABEL: job.name})
        ),
        *(RenderedObject(Part.SERVICES, service) for role in roles for service in _services(job, role)),
        *(
            RenderedObject(Part.ROLES, _workload(job, role, wrapped[role.name].container, init_containers))
            for role in roles
        ),
    )


# Variables


def script_name(role: str) -> str:
    return f"{role}.env"


def _wrapped(role: PlainRole, variables: TaskVariables) -> Wrapped:
    env_names = commands.env_names(role.main)
    variable_names = plain_scripts.variable_names(variables, role.name)
    exported = [name for name in variable_names if name not in env_names]
    return commands.wrapped(role.main, f"{CLUSTER_FOLDER}/{script_name(role.name)}", exported)


def _cluster(
    job: Job, all_roles: tuple[PlainRole, ...], variables: TaskVariables, wrapped: dict[str, Wrapped]
) -> Json:
    peers = plain_roles.peers_of(job, all_roles)
    data = {CLUSTER_SPEC: cluster_spec.addresses_json(job, peers)}
    if job.runtime is Runtime.MPI:
        data |= mpi.files(
            Host(address.host, ports.slots_of(role.template), address)
            for role in mpi.host_roles(all_roles)
            for address in peers.roles[role.name]
        )
    for role in all_roles:
        if role.name in wrapped:
            env_names, exports = commands.env_names(role.main), wrapped[role.name].exports
            script = plain_scripts.script(variables, role.name, role.index_source, env_names, exports)
            data[script_name(role.name)] = script
    return manifest("v1", "ConfigMap", helper_pods.metadata(job, cluster_name(job.name)), data=data)


# Services


def _services(job: Job, role: PlainRole) -> Iterator[Json]:
    for index in range(role.tasks):
        name = role.task_name(index)
        match role.index_source:
            case IndexSource.POD_NAME:
                selector = {_POD_NAME_LABEL: name}
            case IndexSource.COMPLETION_INDEX:
                selector = {**plain_roles.labels(job, role), _COMPLETION_INDEX_LABEL: str(index)}
            case IndexSource.SINGLE_TASK:
                selector = plain_roles.labels(job, role)
        yield _service(job, name, selector, role.port)


def _service(job: Job, name: str, selector: dict[str, str], port: int | None = None) -> Json:
    """Return a headless Service. It includes pods that are not ready, because tasks wait for each other."""
    spec: Json = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    if port is not None:
        spec["ports"] = [{"port": port}]
    return manifest("v1", "Service", helper_pods.metadata(job, name), spec=spec)


# Workloads


def _file_check(job: Job, folders: Mapping[str, Folder], share: Share | None) -> tuple[Json, ...]:
    """Return the init container that waits for required files, if there are any. Without a controller, pods may start
    before data is loaded."""
    needs = (*load_data.marker_paths(job, folders), *job.needs)
    if not needs:
        return ()
    job_with_needs = msgspec.structs.replace(job, needs=needs)
    return (preflight.container(job_with_needs, share, seconds=WAITING_SECONDS),)


def _workload(job: Job, role: PlainRole, container: Json, init_containers: tuple[Json, ...]) -> Json:
    metadata = helper_pods.metadata(job, role.workload)
    annotations = {key: value for key, value in job.annotations.items() if key != names.TASK_TYPES_ANNOTATION}
    if annotations:
        metadata["annotations"] = annotations
    if role.is_endless:
        spec = _stateful_set_spec(job, role, container, init_containers)
        return manifest("apps/v1", "StatefulSet", metadata, spec=spec)
    return manifest("batch/v1", "Job", metadata, spec=_job_spec(job, role, container, init_containers))


def _stateful_set_spec(job: Job, role: PlainRole, container: Json, init_containers: tuple[Json, ...]) -> Json:
    pod_name = {"name": plain_scripts.POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    main = {**container, "env": [pod_name, *(container.get("env") or ())]}
    return {
        "serviceName": names.service_name(job.name),
        "podManagementPolicy": "Parallel",
        "replicas": role.tasks,
        "selector": {"matchLabels": plain_roles.labels(job, role)},
        "template": _template(job, role, main, init_containers, "Always"),
    }


def _job_spec(job: Job, role: PlainRole, container: Json, init_containers: tuple[Json, ...]) -> Json:
    """Return the spec of a Job.

    A Job with a single task is not Indexed, because Kubernetes before 1.21 does not support Indexed Jobs.
    """
    is_restarted = role.template["spec"].get("restartPolicy") == "OnFailure"
    limits = {"activeDeadlineSeconds": job.active_deadline, "ttlSecondsAfterFinished": job.ttl}
    return {
        **({} if role.tasks == 1 else {"completionMode": "Indexed"}),
        "completions": role.tasks,
        "parallelism": role.tasks,
        "backoffLimit": _retries(job, job.roles[role.name]) * role.tasks,
        **{name: _seconds(duration) for name, duration in limits.items() if duration is not None},
        "template": _template(
            job, role, container, init_containers, "OnFailure" if is_restarted else "Never"
        ),
    }


def _template(
    job: Job, role: PlainRole, container: Json, init_containers: tuple[Json, ...], restart_policy: str
) -> Json:
    metadata = role.template.get("metadata") or {}
    spec = role.template["spec"]
    mount = {"name": CLUSTER_VOLUME, "mountPath": CLUSTER_FOLDER, "readOnly": True}
    main = {**container, "volumeMounts": [mount, *(container.get("volumeMounts") or ())]}
    cluster = {"name": CLUSTER_VOLUME, "configMap": {"name": cluster_name(job.name)}}
    all_init_containers = [*init_containers, *(spec.get("initContainers") or ())]
    labels = {**(metadata.get("labels") or {}), **plain_roles.labels(job, role)}
    return {
        "metadata": {**metadata, "labels": labels},
        "spec": {
            **_with_dns_name(job, spec),
            "restartPolicy": restart_policy,
            **({"initContainers": all_init_containers} if all_init_containers else {}),
            "containers": [main, *spec["containers"][1:]],
            "volumes": [cluster, *(spec.get("volumes") or ())],
        },
    }


def _with_dns_name(job: Job, spec: Json) -> Json:
    """Set the subdomain, and the DNS policy that pods on the host network need to resolve Services, unless the spec
    has its own."""
    changed = {"subdomain": names.service_name(job.name), **spec}
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        changed["dnsPolicy"] = "ClusterFirstWithHostNet"
    return changed


def _retries(job: Job, role: Role) -> int:
    """Return the retries of a task. If the role does not set them and the job has no task retries, each task gets the
    retries of the job: without a controller, nothing can retry the whole job."""
    retries = builder.task_retries(job, role)
    return retries if retries or role.retry is not None else job.retries.job


def _seconds(duration: Duration) -> int:
    return max(1, math.ceil(durations.parse(duration)))
