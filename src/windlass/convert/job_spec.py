"""The spec of a batch/v1 Job: its fields, defaults and checks. JobSets consist of Jobs, so they use it too."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from windlass.convert.conversion import Draft, Keys
from windlass.convert.fields import Fields
from windlass.model.base import Json, Sparse
from windlass.model.framework import Count

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
NEVER, ON_FAILURE = "Never", "OnFailure"
OWN_CONTROLLER = "kubernetes.io/job-controller"
UNLIMITED = 2**31 - 1
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_DEFAULT_BACKOFF_LIMIT = 6
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_INDEXES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_GANG = "the pods are scheduled one by one; kept in the annotation windlass.dev/scheduling-policy"

_Part = TypeVar("_Part")


def fields(prefix: str = "spec") -> Fields:
    """Return the fields of the spec of a Job at this path."""
    mapped = (
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
        "completionMode",
        "completions",
        "managedBy",
        "maxFailedIndexes",
        "parallelism",
        "podFailurePolicy.rules.*.action",
        "podFailurePolicy.rules.*.onExitCodes",
        "podFailurePolicy.rules.*.onPodConditions",
        "successPolicy.rules.*.succeededCount",
        "successPolicy.rules.*.succeededIndexes",
        "template",
    )
    owned = "a job finds its pods by their owner, not by labels"
    no_effect = {
        "manualSelector": owned,
        "selector": owned,
        "podReplacementPolicy": "the pods of a task have one name, so the next one always waits until the previous one "
        "has ended, as with Failed",
        "scheduling.schedulingPolicy": _GANG,
        "scheduling.schedulingConstraints": _GANG,
        "scheduling.disruptionMode": _GANG,
    }
    claims = (
        "name the ResourceClaims or templates of the pods in the pod template, without a claim of a PodGroup"
    )
    return Fields(
        tuple(f"{prefix}.{name}" for name in mapped),
        {f"{prefix}.{name}": reason for name, reason in no_effect.items()},
        {f"{prefix}.scheduling.resourceClaims": claims},
    )


class ExitCodes(Sparse, frozen=True):
    operator: str = ""
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodCondition(Sparse, frozen=True):
    type: str
    status: str | None = None


class FailureRule(Sparse, frozen=True):
    """A rule of podFailurePolicy."""

    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodCondition, ...] | None = None


class SuccessRule(Sparse, frozen=True):
    """A rule of successPolicy."""

    succeeded_indexes: str | None = None
    succeeded_count: Count | None = None


class FailurePolicy(Sparse, frozen=True):
    rules: tuple[FailureRule, ...] = ()


class SuccessPolicy(Sparse, frozen=True):
    rules: tuple[SuccessRule, ...] = ()


class Metadata(Sparse, frozen=True):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodSpec(Sparse, frozen=True):
    """The fields of a pod that a conversion reads."""

    containers: tuple[Json, ...] = ()
    init_containers: tuple[Json, ...] | None = None
    restart_policy: str | None = None
    volumes: tuple[Json, ...] | None = None
    affinity: dict[str, Json] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Json, ...] | None = None


class PodTemplate(Sparse, frozen=True):
    metadata: Metadata | None = None
    spec: PodSpec = PodSpec()


class JobSpec(Sparse, frozen=True):
    """The spec of a Job as it is written."""

    completions: Count | None = None
    parallelism: Count | None = None
    completion_mode: str | None = None
    backoff_limit: Count | None = None
    backoff_limit_per_index: Count | None = None
    max_failed_indexes: Count | None = None
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    active_deadline_seconds: Count | None = None
    ttl_seconds_after_finished: Count | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    scheduling: Json | None = None
    template: PodTemplate = PodTemplate()


class Job(msgspec.Struct, frozen=True):
    """A Job with the defaults of its spec."""

    spec: JobSpec
    keys: Keys
    """Path of the spec."""
    completions: int | None
    """None: a success of any pod means that there is no more work."""
    parallelism: int
    backoff_limit: int
    is_indexed: bool
    restart_policy: str
    template: Json

    @property
    def tasks(self) -> int:
        return self.parallelism if self.completions is None else self.completions

    @property
    def limits_pods(self) -> bool:
        """Whether fewer pods than completions run at a time."""
        return 0 < self.parallelism < self.tasks

    @property
    def failure_rules(self) -> tuple[FailureRule, ...]:
        return self.spec.pod_failure_policy.rules if self.spec.pod_failure_policy is not None else ()

    @property
    def success_rules(self) -> tuple[SuccessRule, ...]:
        return self.spec.success_policy.rules if self.spec.success_policy is not None else ()

    def container_names(self) -> tuple[str, ...]:
        pod = self.spec.template.spec
        return tuple(str(each.get("name")) for each in (*pod.containers, *(pod.init_containers or ())))


def decode(draft: Draft, kind: type[_Part], value: Any, keys: Keys) -> _Part | None:
    """Return a part of the original as a value of this type. Refuse a value of another type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        below = tuple(int(index) if index else key for key, index in _STEP.findall(path))
        draft.refuse((*keys, *below), text[:1].lower() + text[1:].replace("`", "").replace("got", "found"))
        return None


def read(
    draft: Draft,
    written: Json,
    spec: JobSpec,
    keys: Keys,
    *,
    mode: str = NON_INDEXED,
    restart_policy: str = "",
) -> Job:
    """Return the Job with its defaults. Refuse values that the API server would reject."""
    completions = spec.completions
    if completions is None and spec.parallelism is None:
        completions = 1
    limit = spec.backoff_limit
    if limit is None:
        limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else UNLIMITED
    job = Job(
        spec=spec,
        keys=keys,
        completions=completions,
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        backoff_limit=limit,
        is_indexed=(spec.completion_mode or mode) == INDEXED,
        restart_policy=spec.template.spec.restart_policy or restart_policy,
        template=written.get("template") or {},
    )
    for path, advice in _problems(job):
        draft.refuse((*keys, *path), advice)
    check_manager(draft, spec.managed_by, (*keys, "managedBy"), OWN_CONTROLLER)
    return job


def take_service(draft: Draft) -> None:
    """Leave out a headless Service of the file with the name of the job, because the job has its own."""
    for other in draft.others:
        metadata, spec = other.get("metadata") or {}, other.get("spec") or {}
        is_same = other.get("kind") == "Service" and metadata.get("name") == draft.name
        if is_same and spec.get("clusterIP") == "None":
            draft.used.append(other)
            draft.note(
                ("metadata", "name"),
                f"the Service {draft.name} of the file is not created: the job has its own",
            )


def check_manager(draft: Draft, manager: str | None, keys: Keys, own: str) -> None:
    """Refuse a job that another controller manages."""
    if manager == own:
        draft.no_effect(keys, "Windlass manages its own jobs")
    elif manager:
        draft.refuse(
            keys, f"{manager} manages this job, not its own controller: remove the field to run it here"
        )


def _problems(job: Job) -> Iterator[tuple[Keys, str]]:
    """Yield path and advice for each value that cannot be converted."""
    spec = job.spec
    if spec.completion_mode not in (None, INDEXED, NON_INDEXED):
        yield ("completionMode",), f"found {spec.completion_mode}, expected Indexed or NonIndexed"
    if job.is_indexed and job.completions is None:
        yield ("completions",), "required with completionMode Indexed: add it, e.g. as many as parallelism"
    if job.completions == 0:
        yield ("completions",), "a job with 0 completions runs nothing: remove it"
    if job.completions is None and job.parallelism == 0:
        yield ("parallelism",), "0 starts no pods: set it, or completions, and suspend the job"
    if job.restart_policy not in (NEVER, ON_FAILURE):
        found = job.restart_policy or "no value"
        yield (
            ("template", "spec", "restartPolicy"),
            f"found {found}, expected Never or OnFailure, as in the original",
        )
    yield from _problems_of_policies(job)


def _problems_of_policies(job: Job) -> Iterator[tuple[Keys, str]]:
    spec = job.spec
    per_index = spec.backoff_limit_per_index is not None
    if per_index and not job.is_indexed:
        yield ("backoffLimitPerIndex",), _required("completionMode Indexed")
    if per_index and job.restart_policy == ON_FAILURE:
        yield ("backoffLimitPerIndex",), _required("the restartPolicy Never")
    if spec.max_failed_indexes is not None and not per_index:
        yield ("maxFailedIndexes",), _required("backoffLimitPerIndex")
    if job.failure_rules and job.restart_policy == ON_FAILURE:
        yield ("podFailurePolicy",), _required("the restartPolicy Never")
    if job.success_rules and not job.is_indexed:
        yield ("successPolicy",), _required("completionMode Indexed")
    for at, rule in enumerate(job.failure_rules):
        for path, advice in _problems_of_rule(rule, per_index=per_index):
            yield ("podFailurePolicy", "rules", at, *path), advice
    for at, success in enumerate(job.success_rules):
        if not _INDEXES.fullmatch(success.succeeded_indexes or "0"):
            yield ("successPolicy", "rules", at, "succeededIndexes"), "expected indexes such as 0-3,7"


def _required(what: str) -> str:
    return f"requires {what}, as in the original"


def _problems_of_rule(rule: FailureRule, *, per_index: bool) -> Iterator[tuple[Keys, str]]:
    if rule.action not in ACTIONS:
        yield ("action",), f"found {rule.action}, expected {', '.join(ACTIONS)}"
    if rule.action == "FailIndex" and not per_index:
        yield ("action",), f"FailIndex {_required('backoffLimitPerIndex')}"
    if (rule.on_exit_codes is None) == (not rule.on_pod_conditions):
        yield (), "expected either onExitCodes or onPodConditions"
    if rule.on_exit_codes is not None and rule.on_exit_codes.operator not in ("In", "NotIn"):
        yield ("onExitCodes", "operator"), "expected In or NotIn"
    for at, condition in enumerate(rule.on_pod_conditions or ()):
        if condition.status not in (None, "", "True"):
            yield (
                ("onPodConditions", at, "status"),
                "only conditions with the status True are recognised: use a condition that is True, or remove the rule",
            )
