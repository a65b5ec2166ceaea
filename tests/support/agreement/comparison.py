"""Compares the outcomes of a case, and lists the differences that are intended, with their reasons.

docs/convert.md has the list as a table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from agreement import subjects
from agreement.cases import Case, Happening, Outcome, Progress, Step
from agreement.hollow import KILLED, TERMINATED
from windlass.model.base import Json

FIRST_RETRYABLE: Final = 128
"""Lower exit codes are permanent with `restartPolicy: ExitCode`."""


EXIT_CODES_OF_DELETED: Final = {
    Happening.DELETE: TERMINATED,
    Happening.PREEMPT: TERMINATED,
    Happening.VANISH: KILLED,
}


class Difference(msgspec.Struct, frozen=True):
    """A part of the outcomes that differs."""

    part: str
    """Field of the Outcome, e.g. created."""
    text: str

    def __str__(self) -> str:
        return f"{self.part}: {self.text}"


class Rule(msgspec.Struct, frozen=True):
    """An intended difference."""

    kinds: tuple[str, ...]
    parts: tuple[str, ...]
    what: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome], bool]
    """Return whether the difference is expected in this case: case, outcome of the original, and that of Windlass."""

    def excuses(self, case: Case, original: Outcome, other: Outcome, found: Difference) -> bool:
        return case.kind in self.kinds and found.part in self.parts and self.applies(case, original, other)


def _sum(counts: Mapping[str, int]) -> int:
    return sum(counts.values())


def _keeps_running_pods(case: Case, original: Outcome, other: Outcome) -> bool:
    policy = case.job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")
    return policy == "None" and original.verdict != subjects.ACTIVE and _are_stopped(case, original, other)


def _leaves_pods_after_an_eviction(case: Case, original: Outcome, other: Outcome) -> bool:
    played = _played(case, original)
    is_evicted = bool(played) and (played[-1].role, played[-1].what) == ("worker", Happening.EVICT)
    return is_evicted and original.verdict == subjects.FAILED and _are_stopped(case, original, other)


def _are_stopped(case: Case, original: Outcome, other: Outcome) -> bool:
    """Return whether the pods that only the original has left run. Also failed pods of the launcher of an MPIJob, which
    is a Job."""
    stopped = {role: original.left.get(role, 0) - other.left.get(role, 0) for role in original.left}
    failed = {"launcher": max(original.replaced, other.replaced)} if case.kind == "MPIJob" else {}
    return all(
        0 <= count <= original.running.get(role, 0) + failed.get(role, 0) for role, count in stopped.items()
    )


def _keeps_ended_workers(case: Case, original: Outcome, other: Outcome) -> bool:
    deletes_all = case.job["spec"].get("runPolicy", {}).get("cleanPodPolicy") == "All"
    launchers, others = original.left.get("launcher", 0), other.left.get("launcher", 0)
    return (
        deletes_all
        and "worker" not in original.left
        and bool(other.left.get("worker"))
        and 0 <= launchers - others <= max(original.replaced, other.replaced)
    )


def _keeps_failed_pods(case: Case, original: Outcome, other: Outcome) -> bool:
    fewer = all(other.left.get(role, 0) <= count for role, count in original.left.items())
    return fewer and _sum(original.left) - _sum(other.left) <= max(original.replaced, other.replaced)


def _is_never_removed(case: Case, original: Outcome, other: Outcome) -> bool:
    played = _played(case, original)
    is_permanent = (
        bool(played) and played[-1].what is Happening.EXIT and 0 < played[-1].code < FIRST_RETRYABLE
    )
    has_exit_codes = bool(played) and _restart_policies(case)[played[-1].role] == "ExitCode"
    return is_permanent and has_exit_codes and original.verdict == subjects.FAILED and other.is_removed


def _replaces_deleted_pods(case: Case, original: Outcome, other: Outcome) -> bool:
    found = _first_divergence(case, original, other)
    if found is None:
        return False
    step, before, after, others = found
    if case.kind == "PyTorchJob" and case.job["spec"].get("runPolicy", {}).get("backoffLimit") != 0:
        return False
    is_deleted = step.what in (Happening.DELETE, Happening.PREEMPT, Happening.VANISH)
    is_restarted = _restart_policies(case)[step.role] in ("OnFailure", "Always", "ExitCode")
    return (
        is_deleted and is_restarted and after.verdict == subjects.FAILED and _replaced(step, before, others)
    )


def _fails_when_a_pod_vanishes(case: Case, original: Outcome, other: Outcome) -> bool:
    found = _first_divergence(case, original, other)
    if found is None:
        return False
    step, before, after, others = found
    is_never = _restart_policies(case)[step.role] == "Never"
    is_vanished = step.what is Happening.VANISH and is_never and _has_new_pod(step, before, after)
    return is_vanished and others.verdict == subjects.FAILED and others.created == before.created


def _creates_after_its_end(case: Case, original: Outcome, other: Outcome) -> bool:
    created = {role: other.created.get(role, 0) + original.late.get(role, 0) for role in original.created}
    has_ended = original.verdict == other.verdict and original.verdict in (
        subjects.FAILED,
        subjects.SUCCEEDED,
    )
    return has_ended and bool(original.late) and created == original.created


def _is_removed_before_its_end(case: Case, original: Outcome, other: Outcome) -> bool:
    is_unfinished = original.verdict == subjects.ACTIVE and original.is_removed
    return is_unfinished and other.verdict == subjects.FAILED


def _has_no_exit_code(case: Case, original: Outcome, other: Outcome) -> bool:
    found = _first_divergence(case, original, other)
    code = EXIT_CODES_OF_DELETED.get(found[0].what) if found is not None else None
    if found is None or code is None:
        return False
    step = found[0]
    spec = next(spec for role, spec in _job_specs(case).items() if role == step.role)
    by_code = [
        rule["onExitCodes"]
        for rule in spec.get("podFailurePolicy", {}).get("rules", ())
        if "onExitCodes" in rule
    ]
    return any((code in codes["values"]) == (codes["operator"] == "In") for codes in by_code)


def _replaces_in_work_queue(case: Case, original: Outcome, other: Outcome) -> bool:
    found = _first_divergence(case, original, other)
    if found is None or "completions" in _job_specs(case).get("job", {"completions": 1}):
        return False
    step, before, after, others = found
    played = _played(case, original)
    has_succeeded = any(
        each.what is Happening.EXIT and each.code == 0 for each in played[: played.index(step)]
    )
    return has_succeeded and after.created == before.created and _replaced(step, before, others)


# Parts of the rules


def _played(case: Case, outcome: Outcome) -> list[Step]:
    return [step for number, step in enumerate(case.steps) if number not in outcome.skipped]


def _first_divergence(
    case: Case, original: Outcome, other: Outcome
) -> tuple[Step, Progress, Progress, Progress] | None:
    """Return the first step after which the progress differs: the step, the progress before it, and both after it."""
    for step, before, after, others in zip(
        case.steps, original.progress, original.progress[1:], other.progress[1:], strict=False
    ):
        if after != others:
            return step, before, after, others
    return None


def _replaced(step: Step, before: Progress, after: Progress) -> bool:
    """Return whether exactly the pod of the step was replaced, and the job goes on."""
    return after.verdict == subjects.ACTIVE and _has_new_pod(step, before, after)


def _has_new_pod(step: Step, before: Progress, after: Progress) -> bool:
    return after.created == {**before.created, step.role: before.created.get(step.role, 0) + 1}


def _restart_policies(case: Case) -> dict[str, str]:
    """Return the restart policies of a job of the training operator by role."""
    default = "OnFailure" if case.kind == "PyTorchJob" else "Never"
    specs = next(value for key, value in case.job["spec"].items() if key.endswith("ReplicaSpecs"))
    return {role.lower(): spec.get("restartPolicy", default) for role, spec in specs.items()}


def _job_specs(case: Case) -> dict[str, Json]:
    """Return the specs of the batch/v1 Jobs of the case by role."""
    spec = case.job["spec"]
    if case.kind == "JobSet":
        return {job["name"]: job["template"]["spec"] for job in spec["replicatedJobs"]}
    return {"job": spec}


SEQUENCE: Final = ("verdict", "created", "left", "restarts", "skipped", "is_removed", "progress")
"""Parts that follow from what happened after a step."""

RULES: Final = (
    Rule(
        kinds=("TFJob", "PyTorchJob", "MPIJob"),
        parts=("left",),
        what="With `cleanPodPolicy: None`, pods that still run when the job ends are stopped.",
        reason="A finished job must not use nodes and GPUs. The operator leaves the pods running until somebody "
        "deletes them.",
        applies=_keeps_running_pods,
    ),
    Rule(
        kinds=("MPIJob",),
        parts=("left",),
        what="If a worker is evicted, the other pods are stopped.",
        reason="The job has failed, and must not use nodes and GPUs. The operator stores no completion time, and "
        "leaves all pods running.",
        applies=_leaves_pods_after_an_eviction,
    ),
    Rule(
        kinds=("MPIJob",),
        parts=("left",),
        what="With `cleanPodPolicy: All`, workers that ended before the job are kept.",
        reason="Pods are kept or deleted for the whole job, and those of the launcher, with its logs, are kept.",
        applies=_keeps_ended_workers,
    ),
    Rule(
        kinds=("TFJob", "PyTorchJob"),
        parts=("is_removed", "left"),
        what="With `restartPolicy: ExitCode`, `ttlSecondsAfterFinished` also deletes a job that failed with a "
        "permanent exit code.",
        reason="The operator stores no completion time in this case, and then cannot tell when the time is over.",
        applies=_is_never_removed,
    ),
    Rule(
        kinds=("TFJob", "PyTorchJob"),
        parts=SEQUENCE,
        what="A running pod that is deleted, e.g. because its node is drained, is replaced if its `restartPolicy` is "
        "OnFailure, Always or ExitCode.",
        reason="The operator counts a running pod that is being deleted as failed, and fails a TFJob before it looks "
        "at the `restartPolicy`. With `--force`, this depends on whether it sees the pod before its removal. With "
        "`backoffLimit: 0`, a PyTorchJob fails, too, if the operator first sees the pod when it has ended.",
        applies=_replaces_deleted_pods,
    ),
    Rule(
        kinds=("TFJob", "PyTorchJob"),
        parts=("verdict", "progress"),
        what="With `ttlSecondsAfterFinished: 0`, a job that exceeds its `backoffLimit` or deadline shows that it has "
        "failed before it is deleted.",
        reason="The operator deletes it first, so that nobody can see its verdict.",
        applies=_is_removed_before_its_end,
    ),
    Rule(
        kinds=("TFJob", "PyTorchJob"),
        parts=SEQUENCE,
        what="With `restartPolicy: Never`, a pod that is deleted with `--force` fails the job.",
        reason="Never means that no pod is replaced. The operator creates every pod that does not exist, because it "
        "does not remember the previous one.",
        applies=_fails_when_a_pod_vanishes,
    ),
    Rule(
        kinds=("TFJob", "PyTorchJob"),
        parts=("created", "left", "progress"),
        what="No pod is created after the end of a job.",
        reason="When the job ends, the operator deletes pods. If its cache does not have the end of the job yet, it "
        "creates them again.",
        applies=_creates_after_its_end,
    ),
    Rule(
        kinds=("Job", "JobSet", "MPIJob"),
        parts=("left",),
        what="A failed pod is deleted when it is replaced.",
        reason="The pods of a task have the same name one after the other, so that its address stays. Attempts and "
        "their logs are kept as records (`history`).",
        applies=_keeps_failed_pods,
    ),
    Rule(
        kinds=("Job", "JobSet"),
        parts=SEQUENCE,
        what="A deleted pod has no exit code: `onExitCodes` does not match it.",
        reason="Windlass decides when the deletion begins, because the pod may disappear before its exit code is "
        "seen. A finalizer keeps the pods of a Job until the kubelet has reported it.",
        applies=_has_no_exit_code,
    ),
    Rule(
        kinds=("Job",),
        parts=SEQUENCE,
        what="Without `completions`, a failed pod is replaced even if another one has succeeded.",
        reason="A task is completed when its own pod has succeeded. The new pod finds that there is no more work.",
        applies=_replaces_in_work_queue,
    ),
)


def differences(original: Outcome, other: Outcome) -> list[Difference]:
    """Return what does not agree. Windlass may set more variables than the original."""
    found = [
        Difference(part, f"{getattr(original, part)} became {getattr(other, part)}")
        for part in SEQUENCE
        if part != "progress" and getattr(original, part) != getattr(other, part)
    ]
    found += [
        Difference("progress", f"after {number} steps {before} became {after}")
        for number, (before, after) in enumerate(zip(original.progress, other.progress, strict=False))
        if before != after
    ][:1]
    for pod, variables in original.environment.items():
        others = other.environment.get(pod, {})
        found += [
            Difference("environment", f"{pod} {name}={value!r} became {others.get(name)!r}")
            for name, value in variables.items()
            if pod in other.environment and others.get(name) != value
        ]
    return found


def unexpected(
    case: Case, original: Outcome, other: Outcome, rules: Sequence[Rule] = RULES
) -> list[Difference]:
    """Return the differences that no rule excuses."""
    return [
        each
        for each in differences(original, other)
        if not any(rule.excuses(case, original, other, each) for rule in rules)
    ]


def table() -> str:
    """Return the intended differences as a table for the documentation."""
    lines = ["| kinds | difference | reason |", "|---|---|---|"]
    lines += [f"| {', '.join(rule.kinds)} | {rule.what} | {rule.reason} |" for rule in RULES]
    return "\n".join(lines)
