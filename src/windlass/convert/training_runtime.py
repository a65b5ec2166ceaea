"""The JobSet that the Trainer creates for a TrainJob and its runtime, and the objects that its MPI plugin adds."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from windlass.convert import pod_parts, torchtune
from windlass.convert.conversion import Keys
from windlass.convert.default_runtimes import ANCESTOR, LAUNCHER, NODE, TRAINER
from windlass.k8s import quantities
from windlass.k8s.strategic_merge import strategic_merge_patch
from windlass.model import names
from windlass.model.base import Json

DATASET, MODEL = "dataset-initializer", "model-initializer"
PORT = 29500
_COMPLETION_INDEX: Json = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
}
_SSH_VOLUME, _HOSTS_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
_HOSTS_FOLDER = "/etc/mpi"
_RESERVED = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
}
"""Variables that only the Trainer sets, by policy."""


class Made(msgspec.Struct, frozen=True):
    job_set: Json
    trainers: tuple[str, ...]
    """Names of the replicated jobs that run the trainer."""
    objects: tuple[Json, ...] = ()
    needs_ssh_key: bool = False


Problems = list[tuple[Keys, str]]
"""Paths in the TrainJob, and what to do."""


# The JobSet


def job_set(train_job: Json, runtime: Json) -> tuple[Problems, Made | None]:
    """Return the JobSet, or problems in the TrainJob."""
    return _Builder(train_job, runtime).build()


class _Builder:
    def __init__(self, train_job: Json, runtime: Json) -> None:
        self._name: str = train_job["metadata"]["name"]
        self._metadata: Json = train_job["metadata"]
        self._spec: Json = train_job.get("spec") or {}
        self._trainer: Json | None = self._spec.get("trainer")
        runtime_spec: Json = runtime.get("spec") or {}
        self._has_policy = runtime_spec.get("mlPolicy") is not None
        self._policy: Json = runtime_spec.get("mlPolicy") or {}
        self._template: Json = copy.deepcopy(runtime_spec.get("template") or {})
        self._problems: Problems = []
        self._runtime_name: str = (self._spec.get("runtimeRef") or {}).get("name") or ""

    def build(self) -> tuple[Problems, Made | None]:
        spec: Json = self._template.setdefault("spec", {})
        jobs: list[Json] = [each for each in spec.get("replicatedJobs") or () if isinstance(each, dict)]
        metadata = self._patched_metadata()
        for at, patch in enumerate(self._spec.get("runtimePatches") or ()):
            self._apply_patch(jobs, patch, ("spec", "runtimePatches", at))
        counts = {str(job.get("name")): self._count(job) for job in jobs}
        self._merge_resources(jobs)
        objects = self._apply_policy(jobs, counts)
        self._apply_trainer(jobs)
        self._apply_initializers(jobs)
        for job in jobs:
            job_spec = job["template"]["spec"]
            job_spec["parallelism"] = job_spec["completions"] = counts[str(job.get("name"))]
        if self._spec.get("suspend") is not None:
            spec["suspend"] = self._spec["suspend"]
        made: Json = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {
                **{key: self._metadata[key] for key in ("name", "namespace") if key in self._metadata},
                **metadata,
            },
            "spec": {**spec, "replicatedJobs": jobs},
        }
        if self._problems:
            return self._problems, None
        trainers = tuple(str(job.get("name")) for job in jobs if _ancestor(job) == TRAINER)
        for job in jobs:
            _remove_step(job)
        return [], Made(made, trainers, tuple(objects), bool(objects))

    def _patched_metadata(self) -> Json:
        """Return labels and annotations of the runtime's template, with those of the patches."""
        sources = [self._template.get("metadata") or {}]
        for patch in self._spec.get("runtimePatches") or ():
            template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
            sources.append(template.get("metadata") or {})
        found: Json = {}
        for source in sources:
            for key in ("labels", "annotations"):
                if source.get(key):
                    found[key] = {**found.get(key, {}), **source[key]}
        return found

    def _apply_patch(self, jobs: Sequence[Json], patch: Json, keys: Keys) -> None:
        template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for at, job_patch in enumerate((template.get("spec") or {}).get("replicatedJobs") or ()):
            path = (*keys, "trainingRuntimeSpec", "template", "spec", "replicatedJobs", at)
            job = next((each for each in jobs if each.get("name") == job_patch.get("name")), None)
            if job is None:
                self._problems.append((path, f"the runtime has no replicated job {job_patch.get('name')}"))
                continue
            given: Json = job_patch.get("template") or {}
            self._check_containers(job, given, (*path, "template"))
            metadata = given.get("metadata") or {}
            target: Json = job["template"].setdefault("metadata", {})
            for key in ("labels", "annotations"):
                if metadata.get(key):
                    target[key] = {**(target.get(key) or {}), **metadata[key]}
            pod_patch = (given.get("spec") or {}).get("template")
            if pod_patch:
                spec = job["template"]["spec"]
                spec["template"] = strategic_merge_patch(spec["template"], pod_patch, "V1PodTemplateSpec")

    def _check_containers(self, job: Json, patch: Json, keys: Keys) -> None:
        """A patch must not add containers, nor set variables that other fields of the TrainJob set."""
        pod: Json = _pod_spec(patch)
        known = {each.get("name") for each in _containers(job, "initContainers", "containers")}
        for field in ("initContainers", "containers"):
            for at, container in enumerate(pod.get(field) or ()):
                path = (*keys, "spec", "template", "spec", field, at)
                if container.get("name") not in known:
                    self._problems.append((path, f"the runtime has no container {container.get('name')}"))
                elif container.get("env") and container["name"] in (NODE, DATASET, MODEL):
                    self._problems.append(
                        (
                            (*path, "env"),
                            "move these variables to spec.trainer.env, or to the env of the initializer",
                        )
                    )

    def _count(self, job: Json) -> int:
        """Return the number of pods of a replicated job."""
        count = job["template"]["spec"].get("parallelism")
        if _ancestor(job) == TRAINER and self._has_policy:
            count = self._policy.get("numNodes")
        count = 1 if count is None else max(int(count), 1)
        nodes = (self._trainer or {}).get("numNodes")
        mpi = self._policy.get("mpi")
        if nodes is None or (job.get("name") != NODE if mpi is not None else _ancestor(job) != TRAINER):
            return count
        if mpi is not None and mpi.get("runLauncherAsNode"):
            return max(int(nodes) - 1, 1)
        return int(nodes)

    def _merge_resources(self, jobs: Sequence[Json]) -> None:
        own = (self._trainer or {}).get("resourcesPerNode")
        if not own or not self._has_policy:
            return
        for job in jobs:
            if _ancestor(job) == TRAINER or self._is_launcher_as_node(job):
                for container in _containers(job):
                    if container.get("name") == NODE:
                        container["resources"] = strategic_merge_patch(
                            container.get("resources") or {}, own, "V1ResourceRequirements"
                        )
                        break

    def _is_launcher_as_node(self, job: Json) -> bool:
        return bool((self._policy.get("mpi") or {}).get("runLauncherAsNode")) and job.get("name") == NODE

    def _resources(self, jobs: Sequence[Json]) -> Json:
        """Return the resources of a node."""
        own = (self._trainer or {}).get("resourcesPerNode")
        if own is not None:
            return dict(own)
        for job in jobs:
            if job.get("name") == NODE or _ancestor(job) == TRAINER:
                for container in _containers(job):
                    if container.get("name") == NODE and container.get("resources"):
                        return dict(container["resources"])
        return {}

    # Policies

    def _apply_policy(self, jobs: Sequence[Json], counts: Mapping[str, int]) -> list[Json]:
        """Set variables, ports and volumes for the training library. Return the objects that they need."""
        job = next((each for each in jobs if _ancestor(each) == TRAINER), None)
        container = None
        if job is not None and self._trainer is not None:
            container = next((each for each in _containers(job) if each.get("name") == NODE), None)
        nodes = counts[str(job["name"])] if job is not None else 1
        self._check_reserved()
        if container is not None and "mpi" not in self._policy:
            pod_parts.set_variables(container, (self._trainer or {}).get("env") or ())
        if "torch" in self._policy:
            self._apply_torch(jobs, container, nodes)
        elif "jax" in self._policy and container is not None:
            values = {"JAX_NUM_PROCESSES": str(nodes), "JAX_PROCESS_ID": _COMPLETION_INDEX}
            pod_parts.set_values(
                container, {**values, "JAX_COORDINATOR_ADDRESS": f"{self._first_host}:{PORT}"}
            )
            _open_port(container)
        elif "xgboost" in self._policy and container is not None:
            workers = nodes * (_gpus(self._resources(jobs)) or 1)
            values = {"DMLC_TRACKER_URI": self._first_host, "DMLC_TRACKER_PORT": str(PORT)}
            pod_parts.set_values(
                container, {**values, "DMLC_TASK_ID": _COMPLETION_INDEX, "DMLC_NUM_WORKER": str(workers)}
            )
            _open_port(container)
        elif self._policy.get("mpi") is not None:
            return self._apply_mpi(jobs, counts)
        return []

    def _check_reserved(self) -> None:
        for policy, reserved in _RESERVED.items():
            if policy not in self._policy:
                continue
            for at, variable in enumerate((self._trainer or {}).get("env") or ()):
                if variable.get("name") in reserved:
                    keys: Keys = ("spec", "trainer", "env", at)
                    self._problems.append((keys, f"the Trainer sets {variable['name']}: remove it"))

    @property
    def _first_host(self) -> str:
        return f"{self._name}-{NODE}-0-0.{self._name}"

    def _apply_torch(self, jobs: Sequence[Json], container: Json | None, nodes: int) -> None:
        resources = self._resources(jobs)
        gpus = _gpus(resources)
        processes: int | str | None = (self._trainer or {}).get("numProcPerNode")
        if processes is None:
            processes = "auto" if gpus else max(1, _cpus(resources))
        common: Json = {
            "PET_NNODES": str(nodes),
            "PET_NPROC_PER_NODE": str(processes),
            "PET_NODE_RANK": _COMPLETION_INDEX,
        }
        master = {"PET_MASTER_ADDR": self._first_host, "PET_MASTER_PORT": str(PORT)}
        if container is not None:
            pod_parts.set_values(container, common)
            if (self._trainer or {}).get("command") == list(torchtune.COMMAND):
                self._apply_torchtune(container, nodes, processes, gpus)
            else:
                pod_parts.set_values(container, master)
            _open_port(container)
        targets = ((self._policy["torch"] or {}).get("envInjection") or {}).get("targets") or ()
        for target in targets:
            for name in target.get("containerNames") or ():
                chosen = next(
                    (
                        each
                        for job in jobs
                        if job.get("name") == target.get("jobName")
                        for each in _containers(job, "containers", "initContainers")
                        if each.get("name") == name
                    ),
                    None,
                )
                if chosen is None:
                    problem = f"envInjection of the runtime names the container {name}, which does not exist"
                    self._problems.append((("spec", "runtimeRef"), problem))
                else:
                    pod_parts.set_values(chosen, {**common, **master})

    def _apply_torchtune(self, container: Json, nodes: int, processes: int | str, gpus: int) -> None:
        assert self._trainer is not None  # noqa: S101 — it has the command
        words = torchtune.command(
            runtime=self._runtime_name,
            nodes=nodes,
            processes=processes,
            gpus=gpus,
            arguments=self._trainer.get("args") or (),
            endpoint=f"{self._first_host}:{PORT}",
            given=container.get("command") or (),
        )
        self._trainer = {**self._trainer, "command": words}

    # MPI

    def _apply_mpi(self, jobs: Sequence[Json], counts: Mapping[str, int]) -> list[Json]:
        policy: Json = self._policy["mpi"]
        slots = (self._trainer or {}).get("numProcPerNode")
        if slots is None:
            slots = policy.get("numProcPerNode", 1)
            gpus = _gpus(self._resources(jobs))
            slots = gpus if slots == 1 and gpus > 1 else slots
        hosts = f"{self._name}-mpi-hostfile"
        ssh_folder = policy.get("sshAuthMountPath") or "/root/.ssh"
        for job in jobs:
            if job.get("name") not in (NODE, LAUNCHER):
                continue
            pod = job["template"]["spec"]["template"]["spec"]
            volumes = [_ssh_volume(self._name)]
            mounts = [{"name": _SSH_VOLUME, "mountPath": ssh_folder}]
            values: Json = {}
            if job["name"] == LAUNCHER:
                item = {"key": "hostfile", "path": "hostfile", "mode": 0o444}
                volumes.append({"name": _HOSTS_VOLUME, "configMap": {"name": hosts, "items": [item]}})
                mounts.append({"name": _HOSTS_VOLUME, "mountPath": _HOSTS_FOLDER})
                values = {
                    "OMPI_MCA_orte_default_hostfile": f"{_HOSTS_FOLDER}/hostfile",
                    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                    "OMPI_MCA_orte_set_default_slots": str(slots),
                    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                }
            pod["volumes"] = pod_parts.upserted(pod.get("volumes"), volumes, "name")
            for container in _containers(job):
                if container.get("name") == NODE:
                    container["volumeMounts"] = pod_parts.upserted(
                        container.get("volumeMounts"), mounts, "mountPath"
                    )
                    pod_parts.set_values(container, values)
        return [_host_file(hosts, self._hosts(jobs, counts), slots)]

    def _hosts(self, jobs: Sequence[Json], counts: Mapping[str, int]) -> Iterator[str]:
        network: Json = (self._template.get("spec") or {}).get("network") or {}
        includes_launcher = bool(self._policy["mpi"].get("runLauncherAsNode"))
        for job in jobs:
            name = job.get("name")
            if name == NODE or (name == LAUNCHER and includes_launcher):
                # The Trainer sets replicas to 1 afterwards, in jobs with a step only.
                replicas = job.get("replicas")
                for replica in range(1 if replicas is None else replicas):
                    for index in range(counts[str(name)]):
                        subdomain = network.get("subdomain") or self._name
                        yield f"{self._name}-{name}-{replica}-{index}.{subdomain}"

    # The TrainJob's own fields

    def _apply_trainer(self, jobs: Sequence[Json]) -> None:
        for job in jobs:
            is_ancestor = _ancestor(job) == TRAINER
            if is_ancestor:
                job["replicas"] = 1
            if self._trainer is None or not (is_ancestor or self._is_launcher_as_node(job)):
                continue
            for container in _containers(job):
                if container.get("name") != NODE:
                    continue
                for field in ("image", "command", "args") if is_ancestor else ():
                    if self._trainer.get(field) is not None:
                        container[field] = self._trainer[field]
                pod_parts.set_variables(container, self._trainer.get("env") or ())

    def _apply_initializers(self, jobs: Sequence[Json]) -> None:
        for kind, field in ((DATASET, "dataset"), (MODEL, "model")):
            given = (self._spec.get("initializer") or {}).get(field)
            steps = [job for job in jobs if _ancestor(job) == kind]
            for job in steps:
                job["replicas"] = 1
            if given is None:
                continue
            containers = [each for job in steps for each in _containers(job) if each.get("name") == kind]
            if not containers:
                problem = (
                    f"the runtime has no replicated job and container {kind}: add them, or remove this field"
                )
                self._problems.append((("spec", "initializer", field), problem))
            for container in containers:
                if given.get("storageUri") is not None:
                    pod_parts.set_values(container, {"STORAGE_URI": given["storageUri"]})
                pod_parts.set_variables(container, given.get("env") or ())
                if given.get("secretRef"):
                    reference = {"secretRef": {"name": given["secretRef"].get("name") or ""}}
                    container["envFrom"] = [*(container.get("envFrom") or ()), reference]


# Parts of a replicated job


def _ancestor(job: Json) -> str:
    """Return the step of the TrainJob that a replicated job stands for."""
    metadata: Json = job["template"].get("metadata") or {}
    return str((metadata.get("labels") or {}).get(ANCESTOR) or "")


def _remove_step(job: Json) -> None:
    """Remove the label of the step, which only the Trainer reads."""
    metadata: Json = job["template"].get("metadata") or {}
    (metadata.get("labels") or {}).pop(ANCESTOR, None)
    kept = {key: value for key, value in metadata.items() if value}
    job["template"] = {**job["template"], "metadata": kept}
    if not kept:
        del job["template"]["metadata"]


def _pod_spec(template: Json) -> Json:
    found: Json = ((template.get("spec") or {}).get("template") or {}).get("spec") or {}
    return found


def _containers(job: Json, *fields: str) -> list[Json]:
    pod = _pod_spec(job["template"])
    return [each for field in fields or ("containers",) for each in pod.get(field) or ()]


def _open_port(container: Json) -> None:
    container["ports"] = pod_parts.upserted(
        container.get("ports"), [{"containerPort": PORT}], "containerPort"
    )


def _ssh_volume(name: str) -> Json:
    """Return the volume with the key that Windlass generates at every submission."""
    items = [
        {"key": names.SSH_KEY_FILE, "path": "id_rsa", "mode": 0o640},
        {"key": names.SSH_AUTHORIZED_KEYS_FILE, "path": "id_rsa.pub", "mode": 0o644},
        {"key": names.SSH_AUTHORIZED_KEYS_FILE, "path": "authorized_keys", "mode": 0o644},
    ]
    secret = {"secretName": names.ssh_secret_name(name), "defaultMode": 0o400, "items": items}
    return {"name": _SSH_VOLUME, "secret": secret}


def _host_file(name: str, hosts: Iterator[str], slots: int) -> Json:
    lines = "".join(f"{host} slots={slots}\n" for host in hosts)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"hostfile": lines}}


# Resources


def _gpus(resources: Json) -> int:
    """Return the number of GPUs of a node: of any resource with gpu in its name."""
    return _amount(resources, lambda name: "gpu" in name.lower())


def _cpus(resources: Json) -> int:
    return _amount(resources, lambda name: name == "cpu")


def _amount(resources: Json, is_wanted: Callable[[str], bool]) -> int:
    """Return the first amount above 0 of such a resource, of the requests before the limits, rounded up."""
    for field in ("requests", "limits"):
        for name, quantity in (resources.get(field) or {}).items():
            if is_wanted(str(name)) and (found := math.ceil(quantities.parse(str(quantity)))):
                return found
    return 0
