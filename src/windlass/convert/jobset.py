"""JobSet (jobset.x-k8s.io/v1alpha2): a role per replicated job, whose tasks are the pods of all its Jobs.

Task i of a role is pod i % completions of Job i / completions. Each Job keeps its own rules, for the tasks of this Job.
If one of them fails a Job, failurePolicy decides whether all pods are restarted: this is the type of the failure.
"""

from windlass.convert import (
    job_rules,
    job_spec,
    jobset_policies,
    jobset_spec,
    pod_templates,
    training_operator,
)
from windlass.convert.conversion import Draft, Keys
from windlass.convert.fields import METADATA, Fields, Kind
from windlass.convert.job_spec import Metadata
from windlass.convert.jobset_spec import LABELS, FailurePolicy, JobSet, JobSetSpec, ReplicatedJob
from windlass.model.base import Json

API_VERSION = "jobset.x-k8s.io/v1alpha2"
OWN_CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
_NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE = "alpha.jobset.sigs.k8s.io/no-schedule"
_ATTEMPT = "{{FC_FRAMEWORK_ATTEMPT_ID}}"
_NAMESPACE = "{{FC_FRAMEWORK_NAMESPACE}}"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def convert(draft: Draft) -> None:
    spec = job_spec.decode(draft, JobSetSpec, draft.spec, ("spec",))
    metadata = job_spec.decode(draft, Metadata, draft.original.get("metadata") or {}, ("metadata",))
    if spec is None or metadata is None:
        return
    jobs = tuple(jobset_spec.replicated_jobs(draft, spec))
    if not jobs:
        draft.refuse(("spec", "replicatedJobs"), "missing: add at least one")
    jobset = JobSet(draft.name, spec, metadata.annotations or {}, jobs)
    job_spec.check_manager(draft, spec.managed_by, ("spec", "managedBy"), OWN_CONTROLLER)
    for each in jobs:
        _put_role(draft, jobset, each)
    jobset_policies.put_start_order(draft, jobset)
    _put_service(draft, jobset)
    _put_claims(draft, jobset)
    jobset_policies.put_policies(draft, jobset)


# Roles


def _put_role(draft: Draft, jobset: JobSet, each: ReplicatedJob) -> None:
    role: Keys = ("roles", each.role)
    comment = (
        f"{each.replicas} Jobs × {each.job.tasks} pods" if each.replicas > 1 and each.job.tasks > 1 else ""
    )
    draft.put((*role, "tasks"), each.tasks, (*each.keys, "replicas"), comment)
    draft.map_origin(role, each.keys)
    draft.put((*role, "completion"), {"minFailedTaskCount": -1, "minSucceededTaskCount": -1})
    template = _pod_template(jobset, each)
    pod_templates.put_template(draft, each.role, template, (*each.job.keys, "template"))
    if each.job.completions is None:
        draft.note((*each.job.keys, "parallelism"), job_rules.WORK_QUEUE)
    if each.job.spec.active_deadline_seconds is not None:
        _put_deadline(draft, jobset, each)
    if each.job.spec.scheduling:
        training_operator.put_scheduling_policy(draft, each.job.spec.scheduling)
    fields = job_rules.role_fields(each.job)
    if fields:
        draft.framework_role(each.role, fields)


def _put_deadline(draft: Draft, jobset: JobSet, each: ReplicatedJob) -> None:
    """Put the deadline of the Jobs as that of the job, if it is the same."""
    deadlines = {other.job.spec.active_deadline_seconds for other in jobset.jobs}
    keys = (*each.job.keys, "activeDeadlineSeconds")
    has_order = jobset.is_in_order or any(other.spec.depends_on for other in jobset.jobs)
    if len(deadlines) > 1 or has_order or (jobset.spec.failure_policy or FailurePolicy()).max_restarts:
        draft.refuse(
            keys,
            "a deadline of single Jobs is converted only if all replicated jobs have the same one, start together and "
            "are not restarted: set activeDeadlineSeconds in the spec of the pods instead, which limits each pod",
        )
    else:
        draft.put(("activeDeadline",), each.job.spec.active_deadline_seconds, keys)


def _pod_template(jobset: JobSet, each: ReplicatedJob) -> Json:
    job_name = f"{jobset.name}-{each.name}-{each.index(each.first)}"
    template = job_rules.pod_template(each.job, job_name, each.pod_index)
    metadata, spec = template["metadata"], template["spec"]
    own = _labels(jobset, each)
    metadata["labels"] |= own
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **own}
    if jobset.has_host_names:
        spec["subdomain"] = jobset.subdomain
    _put_exclusive_placement(jobset, each, template, job_name)
    claims = [str(claim.metadata.name) for claim in jobset.claims if _mounts(each, claim.metadata.name)]
    if claims:
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{jobset.name}"}}
            for claim in claims
        ]
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    return template


def _labels(jobset: JobSet, each: ReplicatedJob) -> dict[str, str]:
    """Return the labels of the pods, which are annotations too."""
    jobs = jobset.jobs
    before = jobs[: jobs.index(each)]
    labels = {
        "jobset-name": jobset.name,
        "replicatedjob-name": each.name,
        "restart-attempt": _ATTEMPT,
        "replicatedjob-replicas": str(each.total),
        "global-replicas": str(sum(other.replicas for other in jobs)),
        "job-index": each.index(each.first),
        "job-global-index": each.index(sum(other.replicas for other in before)),
        "group-name": each.group,
        "group-replicas": str(sum(other.replicas for other in jobs if other.group == each.group)),
        "job-group-index": each.index(sum(other.replicas for other in before if other.group == each.group)),
    }
    coordinator = jobset.spec.coordinator
    if coordinator is not None:
        pod = f"{coordinator.replicated_job}-{coordinator.job_index}-{coordinator.pod_index}"
        labels["coordinator"] = f"{jobset.name}-{pod}.{jobset.subdomain}"
    return {LABELS + name: value for name, value in labels.items()}


def _put_exclusive_placement(jobset: JobSet, each: ReplicatedJob, template: Json, job_name: str) -> None:
    """Add what gives each Job a topology domain, e.g. a rack, of its own."""
    metadata, spec = template["metadata"], template["spec"]
    own_metadata = each.spec.template.metadata or Metadata()
    given = [each for each in (jobset.annotations, own_metadata.annotations or {}) if EXCLUSIVE in each]
    if not given:
        return
    if any(NODE_SELECTOR in annotations for annotations in given):
        selector = {_NAMESPACED_JOB: f"{_NAMESPACE}_{job_name}"}
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
        toleration = {"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
        spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]
        return
    key, value = f"{LABELS}job-key", f"{_NAMESPACE}.{job_name}"
    metadata["labels"][key] = metadata["annotations"][key] = value
    own = {"key": key, "operator": "In", "values": [value]}
    others = [{"key": key, "operator": "Exists"}, {"key": key, "operator": "NotIn", "values": [value]}]
    affinity: Json = dict(spec.get("affinity") or {})
    for field, expressions in (("podAffinity", [own]), ("podAntiAffinity", others)):
        term = {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": given[-1][EXCLUSIVE],
            "namespaceSelector": {},
        }
        present: Json = affinity.get(field) or {}
        affinity[field] = {**present, _REQUIRED: [*(present.get(_REQUIRED) or ()), term]}
    spec["affinity"] = affinity


def _mounts(each: ReplicatedJob, claim: str | None) -> bool:
    pod = each.job.spec.template.spec
    containers = (*pod.containers, *(pod.init_containers or ()))
    return any(
        isinstance(mount, dict) and mount.get("name") == claim
        for container in containers
        for mount in container.get("volumeMounts") or ()
    )


# Objects


def _put_service(draft: Draft, jobset: JobSet) -> None:
    coordinator = jobset.spec.coordinator
    if coordinator is not None:
        is_valid = any(
            each.job.is_indexed
            and coordinator.job_index < each.total
            and coordinator.pod_index < each.job.tasks
            for each in jobset.named(coordinator.replicated_job)
        )
        if not is_valid:
            draft.refuse(("spec", "coordinator"), "no indexed replicated job has this pod")
    if not jobset.has_host_names or jobset.subdomain == jobset.name:
        _note_own_service(draft, jobset)
        return
    spec: Json = {
        "clusterIP": "None",
        "publishNotReadyAddresses": jobset.network.publish_not_ready_addresses is not False,
        "selector": {f"{LABELS}jobset-name": jobset.name},
    }
    metadata = draft.metadata_of(jobset.subdomain)
    draft.objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def _note_own_service(draft: Draft, jobset: JobSet) -> None:
    """Every job has a headless Service of its name, by which the names of its pods resolve, ready or not."""
    job_spec.take_service(draft)
    for field, value in (
        ("enableDNSHostnames", jobset.network.enable_dns_hostnames),
        ("publishNotReadyAddresses", jobset.network.publish_not_ready_addresses),
    ):
        if value is False:
            draft.no_effect(("spec", "network", field), "the host names of the pods always resolve")


def _put_claims(draft: Draft, jobset: JobSet) -> None:
    for claim in jobset.claims:
        name = claim.metadata.name
        if not any(_mounts(each, name) for each in jobset.jobs):
            draft.refuse(
                ("spec", "volumeClaimPolicies"),
                f"no container mounts {name}: add a volumeMount, or remove it",
            )
        own = draft.metadata_of(f"{name}-{jobset.name}")
        labels = {**(claim.metadata.labels or {}), **own["labels"], f"{LABELS}jobset-name": jobset.name}
        metadata = {**own, "labels": labels}
        if claim.metadata.annotations:
            metadata["annotations"] = claim.metadata.annotations
        draft.objects.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim.spec}
        )
    for at, policy in enumerate(jobset.spec.volume_claim_policies or ()):
        kept = policy.retention_policy.when_deleted if policy.retention_policy is not None else None
        if kept not in (None, "Delete", "Retain"):
            draft.refuse(
                ("spec", "volumeClaimPolicies", at, "retentionPolicy", "whenDeleted"),
                f"found {kept}, expected Delete or Retain",
            )
        elif kept != "Retain":
            draft.note(
                ("spec", "volumeClaimPolicies", at),
                "the claims are kept: Windlass does not delete storage with a job",
            )


_JOB = "spec.replicatedJobs.*.template"
FIELDS = (
    METADATA
    | job_spec.fields(f"{_JOB}.spec")
    | Fields(
        mapped=(
            "spec.replicatedJobs.*.name",
            "spec.replicatedJobs.*.replicas",
            "spec.replicatedJobs.*.groupName",
            "spec.replicatedJobs.*.dependsOn.*.name",
            "spec.replicatedJobs.*.dependsOn.*.status",
            f"{_JOB}.metadata.annotations",
            "spec.coordinator.replicatedJob",
            "spec.coordinator.jobIndex",
            "spec.coordinator.podIndex",
            "spec.failurePolicy.maxRestarts",
            "spec.failurePolicy.restartStrategy",
            "spec.failurePolicy.rules.*.name",
            "spec.failurePolicy.rules.*.action",
            "spec.failurePolicy.rules.*.onJobFailureReasons",
            "spec.failurePolicy.rules.*.onJobFailureMessagePatterns",
            "spec.failurePolicy.rules.*.targetReplicatedJobs",
            "spec.managedBy",
            "spec.network.enableDNSHostnames",
            "spec.network.publishNotReadyAddresses",
            "spec.network.subdomain",
            "spec.startupPolicy.startupPolicyOrder",
            "spec.successPolicy.operator",
            "spec.successPolicy.targetReplicatedJobs",
            "spec.suspend",
            "spec.ttlSecondsAfterFinished",
            "spec.volumeClaimPolicies.*.retentionPolicy.whenDeleted",
            "spec.volumeClaimPolicies.*.templates.*.metadata",
            "spec.volumeClaimPolicies.*.templates.*.spec",
        ),
        no_effect={
            f"{_JOB}.metadata": "there are no Job objects: put labels into the pod template",
            f"{_JOB}.spec.suspend": "the JobSet controller overwrites it: set suspend of the JobSet",
            f"{_JOB}.spec.ttlSecondsAfterFinished": "finished pods are kept until the whole job is deleted: set "
            "ttlSecondsAfterFinished of the JobSet",
            "spec.volumeClaimPolicies.*.templates.*.apiVersion": "always v1",
            "spec.volumeClaimPolicies.*.templates.*.kind": "always PersistentVolumeClaim",
            "spec.volumeClaimPolicies.*.templates.*.status": "the API server sets this field",
        },
    )
)

KINDS = (Kind(API_VERSION, "JobSet", "jobsets", FIELDS, convert),)
