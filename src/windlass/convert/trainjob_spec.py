"""The fields of TrainJobs and their runtimes that conversions read, to check their types first."""

from windlass.convert.job_spec import Metadata
from windlass.convert.pod_parts import PodTemplate
from windlass.model.base import Json, Sparse
from windlass.model.framework import Count


class Trainer(Sparse, frozen=True):
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Json, ...] | None = None
    num_nodes: Count | None = None
    num_proc_per_node: Count | None = None
    resources_per_node: Json | None = None


class InitializerStep(Sparse, frozen=True):
    storage_uri: str | None = None
    env: tuple[Json, ...] | None = None
    secret_ref: dict[str, str] | None = None


class Initializer(Sparse, frozen=True):
    dataset: InitializerStep | None = None
    model: InitializerStep | None = None


class RuntimeRef(Sparse, frozen=True):
    name: str
    api_group: str | None = None
    kind: str | None = None


class JobTemplateSpec(Sparse, frozen=True):
    template: PodTemplate = PodTemplate()
    parallelism: Count | None = None


class JobTemplate(Sparse, frozen=True):
    spec: JobTemplateSpec
    metadata: Metadata | None = None


class PatchedJobTemplate(Sparse, frozen=True):
    spec: JobTemplateSpec | None = None
    metadata: Metadata | None = None


class ReplicatedJob(Sparse, frozen=True):
    name: str
    template: JobTemplate
    replicas: Count | None = None


class PatchedJob(Sparse, frozen=True):
    name: str
    template: PatchedJobTemplate | None = None


class PatchedJobSetSpec(Sparse, frozen=True):
    replicated_jobs: tuple[PatchedJob, ...] | None = None


class PatchedTemplate(Sparse, frozen=True):
    metadata: Metadata | None = None
    spec: PatchedJobSetSpec | None = None


class PatchedRuntime(Sparse, frozen=True):
    template: PatchedTemplate | None = None


class RuntimePatch(Sparse, frozen=True):
    training_runtime_spec: PatchedRuntime | None = None


class TrainJobSpec(Sparse, frozen=True):
    runtime_ref: RuntimeRef
    active_deadline_seconds: Count | None = None
    initializer: Initializer | None = None
    managed_by: str | None = None
    runtime_patches: tuple[RuntimePatch, ...] | None = None
    suspend: bool | None = None
    trainer: Trainer | None = None


class Network(Sparse, frozen=True):
    subdomain: str | None = None


class JobSetSpec(Sparse, frozen=True):
    replicated_jobs: tuple[ReplicatedJob, ...]
    network: Network | None = None


class JobSetTemplate(Sparse, frozen=True):
    spec: JobSetSpec
    metadata: Metadata | None = None


class EnvTarget(Sparse, frozen=True):
    job_name: str | None = None
    container_names: tuple[str, ...] | None = None


class EnvInjection(Sparse, frozen=True):
    targets: tuple[EnvTarget, ...] | None = None


class Torch(Sparse, frozen=True):
    env_injection: EnvInjection | None = None


class Mpi(Sparse, frozen=True):
    mpi_implementation: str | None = None
    num_proc_per_node: Count | None = None
    run_launcher_as_node: bool | None = None
    ssh_auth_mount_path: str | None = None


class MlPolicy(Sparse, frozen=True):
    num_nodes: Count | None = None
    torch: Torch | None = None
    mpi: Mpi | None = None
    jax: Json | None = None
    xgboost: Json | None = None


class RuntimeSpec(Sparse, frozen=True):
    template: JobSetTemplate
    ml_policy: MlPolicy | None = None
    pod_group_policy: Json | None = None


class Runtime(Sparse, frozen=True):
    spec: RuntimeSpec
