"""JobSets: one to three replicated jobs with policies for success, failure and start order."""

from typing import Final

from agreement.generate import batch_job
from agreement.generate.drafts import HAPPENINGS, Draft, Drawn, Generator
from agreement.subjects import MAX_PODS_PER_JOB
from windlass.model.base import Json

_ACTIONS: Final = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "FailJobSet")
_REASONS: Final = ("BackoffLimitExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded")
_ROLES: Final = ("driver", "workers", "data-prep")


def _draw(draft: Draft) -> Drawn:
    count = draft.number(1, 3)
    needs_two = draft.wanted.startswith(
        ("dependsOn", "startupPolicy", "successPolicy targets", "rule targets")
    )
    names = list(_ROLES[: max(count, 2) if needs_two else count])
    jobs = [_replicated_job(draft, name) for name in names]
    spec: Json = {"replicatedJobs": jobs}
    _add_order(draft, spec, jobs, names)
    _add_policies(draft, spec, names)
    if draft.has("network", 0.2):
        spec["network"] = {"enableDNSHostnames": True, "subdomain": "net"}
    _drop_refused(draft, spec)
    is_indexed = jobs[0]["template"]["spec"].get("completionMode", "Indexed") == "Indexed"
    if is_indexed and draft.has("coordinator", 0.15):
        spec["coordinator"] = {"replicatedJob": names[0], "jobIndex": 0, "podIndex": 0}
    if draft.has("managedBy", 0.05):
        spec["managedBy"] = "jobset.sigs.k8s.io/jobset-controller"
    is_removed = draft.has("ttlSecondsAfterFinished", 0.05)
    if is_removed:
        spec["ttlSecondsAfterFinished"] = 0
    if draft.has("suspend", 0.03):
        return Drawn({**spec, "suspend": True})
    for _ in range(draft.number(1, 2)):
        job = draft.pick(jobs)
        replica = draft.number(0, job.get("replicas", 1) - 1)
        batch_job.happen(draft, job["template"]["spec"], job["name"], replica * MAX_PODS_PER_JOB)
    return Drawn(spec, is_removed=is_removed)


def _replicated_job(draft: Draft, name: str) -> Json:
    job_spec = batch_job.drawn_spec(draft, may_be_work_queue=False)
    # Child Jobs fail soon, so that the policies of the JobSet decide.
    if "backoffLimitPerIndex" not in job_spec and draft.random.random() < 0.6:
        job_spec["backoffLimit"] = 0
        draft.features.add("backoffLimit 0")
    # The JobSet controller makes Jobs Indexed unless they say otherwise.
    job_spec.setdefault("completionMode", "NonIndexed")
    if job_spec["completionMode"] == "Indexed" and draft.has("completionMode unset", 0.3):
        del job_spec["completionMode"]
    job: Json = {"name": name, "template": {"spec": job_spec}}
    if draft.has("replicas", 0.4):
        job["replicas"] = 2
    if draft.has("groupName", 0.1):
        job["groupName"] = "learners"
    return job


def _add_order(draft: Draft, spec: Json, jobs: list[Json], names: list[str]) -> None:
    if len(jobs) < 2:
        return
    if draft.has("startupPolicy: InOrder", 0.15):
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
        return
    if draft.wanted.startswith("dependsOn") or draft.random.random() < 0.3:
        status = draft.one_of("dependsOn", ("Ready", "Complete"))
        jobs[1]["dependsOn"] = [{"name": names[0], "status": status}]


def _add_policies(draft: Draft, spec: Json, names: list[str]) -> None:
    if draft.wanted.startswith("successPolicy") or draft.random.random() < 0.5:
        policy: Json = {"operator": draft.one_of("successPolicy", ("All", "Any"))}
        if len(names) > 1 and draft.has("successPolicy targets", 0.5):
            policy["targetReplicatedJobs"] = [draft.pick(names)]
        spec["successPolicy"] = policy
    has_rules = draft.wanted.startswith("rule")
    if has_rules or draft.wanted == "maxRestarts" or draft.random.random() < 0.7:
        failure: Json = {}
        if draft.has("maxRestarts", 0.8):
            failure["maxRestarts"] = draft.number(1, 2)
        if has_rules or draft.random.random() < 0.4:
            failure["rules"] = [_rule(draft, names, number) for number in range(draft.number(1, 2))]
        spec["failurePolicy"] = failure


def _drop_refused(draft: Draft, spec: Json) -> None:
    """Remove the success policies of Jobs whose success is not that of the JobSet, or that others wait for: a
    conversion refuses them."""
    policy = spec.get("successPolicy", {"operator": "All"})
    targets = policy.get("targetReplicatedJobs") or [job["name"] for job in spec["replicatedJobs"]]
    count = sum(job.get("replicas", 1) for job in spec["replicatedJobs"] if job["name"] in targets)
    is_one_enough = policy["operator"] == "Any" or count == 1
    awaited = {
        other["name"]
        for job in spec["replicatedJobs"]
        for other in job.get("dependsOn", ())
        if other["status"] == "Complete"
    }
    kept = []
    for job in spec["replicatedJobs"]:
        job_spec = job["template"]["spec"]
        if not (is_one_enough and job["name"] in targets) or job["name"] in awaited:
            job_spec.pop("successPolicy", None)
        kept += job_spec.get("successPolicy", {}).get("rules", ())
    for feature in ("succeededIndexes", "succeededCount"):
        if not any(feature in rule for rule in kept):
            draft.features.discard(f"successPolicy: {feature}")


def _rule(draft: Draft, names: list[str], number: int) -> Json:
    rule: Json = {"name": f"rule{number}", "action": draft.one_of("rule", _ACTIONS)}
    if draft.has("rule onJobFailureReasons", 0.4):
        rule["onJobFailureReasons"] = sorted(draft.random.sample(_REASONS, 2))
    if draft.has("rule targets", 0.3):
        rule["targetReplicatedJobs"] = [draft.pick(names)]
    return rule


GENERATOR: Final = Generator(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    (
        *(f"rule: {action}" for action in _ACTIONS),
        "rule onJobFailureReasons",
        "rule targets",
        "maxRestarts",
        "successPolicy: All",
        "successPolicy: Any",
        "successPolicy targets",
        "startupPolicy: InOrder",
        "dependsOn: Ready",
        "dependsOn: Complete",
        "replicas",
        "groupName",
        "completionMode unset",
        "network",
        "coordinator",
        "managedBy",
        "suspend",
        "ttlSecondsAfterFinished",
        *(feature for feature in batch_job.SPEC_FEATURES if feature != "completions unset"),
        "container restart",
        *HAPPENINGS,
    ),
    _draw,
)
