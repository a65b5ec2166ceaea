"""Compares the outcomes of a case, and lists the differences that are intended, with their reasons.

docs/convert.md has the list as a table.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from agreement import subjects
from agreement.cases import Case, Happening, Outcome
from windlass.model.base import Json


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


def _keeps_running_pods(case: Case, original: Outcome, other: Outcome) -> bool:
    policy = case.job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")
    fewer = all(other.left.get(role, 0) <= count for role, count in original.left.items())
    return policy == "None" and fewer and original.verdict != subjects.ACTIVE


def _keeps_failed_pods(case: Case, original: Outcome, other: Outcome) -> bool:
    fewer = all(other.left.get(role, 0) <= count for role, count in original.left.items())
    return fewer and original.has_retries


def _is_never_removed(case: Case, original: Outcome, other: Outcome) -> bool:
    specs = next(value for key, value in case.job["spec"].items() if key.endswith("ReplicaSpecs"))
    has_exit_codes = any(spec.get("restartPolicy") == "ExitCode" for spec in specs.values())
    return has_exit_codes and original.verdict == subjects.FAILED and other.is_removed


def _has_no_exit_code(case: Case, original: Outcome, other: Outcome) -> bool:
    vanished = {number for number, step in enumerate(case.steps) if step.what is Happening.VANISH}
    policies = [job.get("podFailurePolicy", {}).get("rules", ()) for job in _job_specs(case)]
    has_codes = any("onExitCodes" in rule for rules in policies for rule in rules)
    return has_codes and bool(vanished - set(original.skipped))


def _replaces_in_work_queue(case: Case, original: Outcome, other: Outcome) -> bool:
    return any("completions" not in job for job in _job_specs(case)) and bool(other.replaced)


def _job_specs(case: Case) -> list[Json]:
    """Return the specs of the batch/v1 Jobs of the case."""
    spec = case.job["spec"]
    return [job["template"]["spec"] for job in spec["replicatedJobs"]] if case.kind == "JobSet" else [spec]


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
        kinds=("TFJob", "PyTorchJob"),
        parts=("is_removed", "left"),
        what="With `restartPolicy: ExitCode`, `ttlSecondsAfterFinished` also deletes a job that failed with a "
        "permanent exit code.",
        reason="The operator stores no completion time in this case, and then cannot tell when the time is over.",
        applies=_is_never_removed,
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
        parts=("verdict", "created", "left", "restarts", "skipped"),
        what="A pod that is deleted with `--force` has no exit code: `onExitCodes` does not match it.",
        reason="Pods of Windlass disappear at once. A finalizer keeps those of a Job until the kubelet has reported "
        "their exit code.",
        applies=_has_no_exit_code,
    ),
    Rule(
        kinds=("Job",),
        parts=("created", "left", "restarts", "skipped"),
        what="Without `completions`, a failed pod is replaced even if another one has succeeded.",
        reason="A task is completed when its own pod has succeeded. The new pod finds that there is no more work.",
        applies=_replaces_in_work_queue,
    ),
)


def differences(original: Outcome, other: Outcome) -> list[Difference]:
    """Return what does not agree. Windlass may set more variables than the original."""
    found = [
        Difference(part, f"{getattr(original, part)} became {getattr(other, part)}")
        for part in ("verdict", "created", "left", "restarts", "is_removed", "skipped")
        if getattr(original, part) != getattr(other, part)
    ]
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
