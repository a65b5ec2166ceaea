"""The spec of a JobSet: its fields and defaults."""

from collections.abc import Iterator

import msgspec

from windlass.convert import job_spec
from windlass.convert.conversion import Draft, Keys
from windlass.convert.job_spec import Job, JobSpec, Metadata
from windlass.model.base import Json, Sparse
from windlass.model.framework import Count

LABELS = "jobset.sigs.k8s.io/"


class Template(Sparse, frozen=True):
    """The template of the Jobs."""

    metadata: Metadata | None = None
    spec: JobSpec = JobSpec()


class DependsOn(Sparse, frozen=True):
    name: str
    status: str


class ReplicatedJobSpec(Sparse, frozen=True):
    name: str
    group_name: str | None = None
    replicas: Count | None = None
    depends_on: tuple[DependsOn, ...] | None = None
    template: Template = Template()


class Network(Sparse, frozen=True):
    enable_dns_hostnames: bool | None = msgspec.field(name="enableDNSHostnames", default=None)
    subdomain: str | None = None
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(Sparse, frozen=True):
    operator: str = "All"
    target_replicated_jobs: tuple[str, ...] | None = None


class FailureRule(Sparse, frozen=True):
    action: str
    name: str | None = None
    on_job_failure_reasons: tuple[str, ...] | None = None
    on_job_failure_message_patterns: tuple[str, ...] | None = None
    target_replicated_jobs: tuple[str, ...] | None = None


class FailurePolicy(Sparse, frozen=True):
    max_restarts: Count = 0
    restart_strategy: str | None = None
    rules: tuple[FailureRule, ...] | None = None


class StartupPolicy(Sparse, frozen=True):
    startup_policy_order: str


class Coordinator(Sparse, frozen=True):
    replicated_job: str
    job_index: Count = 0
    pod_index: Count = 0


class Retention(Sparse, frozen=True):
    when_deleted: str | None = None


class Claim(Sparse, frozen=True):
    """A template of a PersistentVolumeClaim."""

    metadata: Metadata
    spec: Json = {}


class ClaimPolicy(Sparse, frozen=True):
    templates: tuple[Claim, ...] | None = None
    retention_policy: Retention | None = None


class JobSetSpec(Sparse, frozen=True):
    replicated_jobs: tuple[ReplicatedJobSpec, ...] = ()
    network: Network | None = None
    success_policy: SuccessPolicy | None = None
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None
    coordinator: Coordinator | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: Count | None = None
    volume_claim_policies: tuple[ClaimPolicy, ...] | None = None


class ReplicatedJob(msgspec.Struct, frozen=True):
    """A replicated job with its defaults, and the role that is made of it. If each of its Jobs limits its own number of
    pods, there is one for each Job."""

    spec: ReplicatedJobSpec
    role: str
    replicas: int
    """Number of Jobs of the role."""
    first: int
    """Index of the first of these Jobs."""
    group: str
    job: Job
    keys: Keys

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def tasks(self) -> int:
        return self.replicas * self.job.tasks

    @property
    def total(self) -> int:
        """Number of Jobs of the replicated job."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    def index(self, offset: int) -> str:
        """Return the index of a task's Job in the role, plus an offset."""
        if self.replicas == 1:
            return str(offset)
        summand = f"+{offset}" if offset else ""
        divisor = f"/{self.job.tasks}" if self.job.tasks > 1 else ""
        return f"{{{{FC_TASK_INDEX{divisor}{summand}}}}}"

    @property
    def pod_index(self) -> str:
        """The index of a task in its Job."""
        if self.job.tasks == 1:
            return "0"
        return "{{FC_TASK_INDEX}}" if self.replicas == 1 else f"{{{{FC_TASK_INDEX%{self.job.tasks}}}}}"

    def selections(self) -> Iterator[tuple[str, Json]]:
        """Yield the name of each Job and the selection of its tasks."""
        for replica in range(self.replicas):
            selected: Json = {"taskRoles": [self.role]}
            if self.replicas > 1:
                first = replica * self.job.tasks
                last = first + self.job.tasks - 1
                selected["taskIndexes"] = str(first) if first == last else f"{first}-{last}"
            yield f"{self.name}-{self.first + replica}", selected


class JobSet(msgspec.Struct, frozen=True):
    """A JobSet and the parts that several steps of the conversion need."""

    name: str
    spec: JobSetSpec
    annotations: dict[str, str]
    jobs: tuple[ReplicatedJob, ...]

    @property
    def network(self) -> Network:
        return self.spec.network or Network()

    @property
    def has_host_names(self) -> bool:
        return self.network.enable_dns_hostnames is not False

    @property
    def subdomain(self) -> str:
        return self.network.subdomain or self.name

    @property
    def failure_rules(self) -> tuple[FailureRule, ...]:
        policy = self.spec.failure_policy
        return (policy.rules or ()) if policy is not None else ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(
            claim for policy in self.spec.volume_claim_policies or () for claim in policy.templates or ()
        )

    @property
    def is_in_order(self) -> bool:
        policy = self.spec.startup_policy
        return policy is not None and policy.startup_policy_order == "InOrder"

    def named(self, name: str) -> tuple[ReplicatedJob, ...]:
        return tuple(each for each in self.jobs if each.name == name)


def replicated_jobs(draft: Draft, spec: JobSetSpec) -> Iterator[ReplicatedJob]:
    for at, each in enumerate(spec.replicated_jobs):
        keys: Keys = ("spec", "replicatedJobs", at)
        written: Json = draft.spec["replicatedJobs"][at].get("template") or {}
        job = job_spec.read(
            draft,
            written.get("spec") or {},
            each.template.spec,
            (*keys, "template", "spec"),
            mode=job_spec.INDEXED,
            restart_policy=job_spec.ON_FAILURE,
        )
        if job.parallelism == 0 and job.completions:
            draft.refuse((*job.keys, "parallelism"), "0 starts no pods: set it to the number of completions")
        replicas = 1 if each.replicas is None else each.replicas
        group = each.group_name or "default"
        if job.limits_pods and replicas > 1:
            for first in range(replicas):
                role = draft.role_name(f"{each.name}-{first}")
                yield ReplicatedJob(each, role, 1, first, group, job, keys)
        else:
            yield ReplicatedJob(each, draft.role_name(each.name), replicas, 0, group, job, keys)
