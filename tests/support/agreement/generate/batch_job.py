"""Jobs of batch/v1. `drawn_spec` also draws the Jobs of a JobSet.

The Job controller delays the n-th retry by 10 s · 2^(n-1), so a case has at most three failures of pods.
"""

from typing import Final

from agreement.generate.drafts import HAPPENINGS, PERMANENT, Draft, Drawn, Generator, template
from windlass.model.base import Json

DEADLINE: Final = 20
MAX_FAILURES: Final = 3
CONTAINER: Final = "main"
_ACTIONS: Final = ("FailJob", "Ignore", "Count", "FailIndex")
_FAILURE_POLICY: Final = tuple(f"podFailurePolicy: {action}" for action in _ACTIONS)
SPEC_FEATURES: Final = (
    "NonIndexed",
    "Indexed",
    "completions unset",
    "parallelism below completions",
    "restartPolicy: Never",
    "restartPolicy: OnFailure",
    "backoffLimit 0",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    *_FAILURE_POLICY,
    "podFailurePolicy: onPodConditions",
    "podFailurePolicy: NotIn",
    "successPolicy: succeededIndexes",
    "successPolicy: succeededCount",
    "podReplacementPolicy: Failed",
    "podReplacementPolicy: TerminatingOrFailed",
)


def drawn_spec(draft: Draft, *, may_be_work_queue: bool = True) -> Json:
    """Return the spec of a Job without deadlines."""
    wanted = draft.wanted
    needs_index = wanted in (
        "Indexed",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "podFailurePolicy: FailIndex",
    )
    is_indexed = (
        needs_index
        or wanted.startswith("successPolicy")
        or (wanted not in ("NonIndexed", "completions unset") and draft.random.random() < 0.6)
    )
    draft.features.add("Indexed" if is_indexed else "NonIndexed")
    spec: Json = {"completionMode": "Indexed"} if is_indexed else {}
    parallelism = draft.number(1, 3)
    if not is_indexed and may_be_work_queue and draft.has("completions unset", 0.25):
        spec["parallelism"] = parallelism
    elif draft.has("parallelism below completions", 0.3):
        spec |= {"completions": parallelism + draft.number(1, 2), "parallelism": parallelism}
    else:
        spec |= {"completions": parallelism, "parallelism": parallelism}
    if is_indexed and draft.has("maxFailedIndexes", 0.12):
        draft.features.add("backoffLimitPerIndex")
        spec |= {"backoffLimitPerIndex": draft.number(0, 1), "maxFailedIndexes": draft.number(0, 1)}
    elif is_indexed and (wanted == "podFailurePolicy: FailIndex" or draft.has("backoffLimitPerIndex", 0.15)):
        draft.features.add("backoffLimitPerIndex")
        spec["backoffLimitPerIndex"] = draft.number(0, 2)
    elif draft.has("backoffLimit 0", 0.15):
        spec["backoffLimit"] = 0
    elif draft.has("backoffLimit", 0.5):
        spec["backoffLimit"] = draft.number(1, 2)
    _add_policies(draft, spec, is_indexed=is_indexed)
    return spec


def _add_policies(draft: Draft, spec: Json, *, is_indexed: bool) -> None:
    has_failure_policy = draft.wanted.startswith("podFailurePolicy") or draft.random.random() < 0.25
    needs_never = (
        has_failure_policy or "backoffLimitPerIndex" in spec or draft.wanted == "restartPolicy: Never"
    )
    if needs_never or (draft.wanted != "restartPolicy: OnFailure" and draft.random.random() < 0.6):
        policy = "Never"
    else:
        policy = "OnFailure"
    draft.features.add(f"restartPolicy: {policy}")
    if has_failure_policy:
        spec["podFailurePolicy"] = {
            "rules": _failure_rules(draft, is_per_index="backoffLimitPerIndex" in spec)
        }
    if is_indexed and draft.has("successPolicy: succeededIndexes", 0.12):
        last = spec["completions"] - 1
        rule: Json = {"succeededIndexes": str(draft.number(0, last)) if last else "0"}
        spec["successPolicy"] = {"rules": [rule]}
    elif is_indexed and draft.has("successPolicy: succeededCount", 0.12):
        spec["successPolicy"] = {"rules": [{"succeededCount": draft.number(1, spec["completions"])}]}
    if draft.has("podReplacementPolicy: Failed", 0.15):
        spec["podReplacementPolicy"] = "Failed"
    elif not has_failure_policy and draft.has("podReplacementPolicy: TerminatingOrFailed", 0.15):
        spec["podReplacementPolicy"] = "TerminatingOrFailed"
    spec["template"] = template(CONTAINER, policy)


def _failure_rules(draft: Draft, *, is_per_index: bool) -> list[Json]:
    rules: list[Json] = []
    for _ in range(draft.number(1, 2)):
        actions = _ACTIONS if is_per_index else _ACTIONS[:-1]
        action = draft.one_of("podFailurePolicy", actions)
        is_by_condition = draft.has("podFailurePolicy: onPodConditions", 0.4)
        if is_by_condition:
            rules.append(
                {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            )
            continue
        codes: Json = {"operator": "NotIn" if draft.has("podFailurePolicy: NotIn", 0.2) else "In"}
        codes["values"] = sorted(draft.random.sample((*PERMANENT, 137, 143), 3))
        if draft.random.random() < 0.3:
            codes["containerName"] = CONTAINER
        rules.append({"action": action, "onExitCodes": codes})
    return rules


def happen(draft: Draft, spec: Json, role: str, first_index: int) -> None:
    """Let at most three pods fail, and some succeed or restart their container."""
    count = int(spec["parallelism"])
    is_restarted = spec["template"]["spec"].get("restartPolicy", "OnFailure") == "OnFailure"
    failures = 0
    for _ in range(draft.number(1, 4)):
        index = first_index + draft.number(0, count - 1)
        if is_restarted and draft.has("container restart", 0.6):
            for _ in range(draft.number(1, 2)):
                draft.exit(role, index, draft.pick((1, 137)))
            continue
        before = len(draft.steps)
        draft.happen(role, index, HAPPENINGS if failures < MAX_FAILURES else ("success",))
        failures += "success" not in str(draft.steps[before]) and draft.steps[before].code != 0
        failures += draft.steps[before].code == 0 and draft.steps[before].what != "exit"


def _draw(draft: Draft) -> Drawn:
    spec = drawn_spec(draft)
    if draft.has("activeDeadlineSeconds reached", 0.04):
        spec["activeDeadlineSeconds"] = DEADLINE
        return Drawn(spec, waits_for_deadline=True)
    if draft.has("activeDeadlineSeconds", 0.1):
        spec["activeDeadlineSeconds"] = 36000
    if draft.has("suspend", 0.03):
        return Drawn({**spec, "suspend": True})
    if draft.has("managedBy", 0.05):
        spec["managedBy"] = "kubernetes.io/job-controller"
    is_removed = draft.has("ttlSecondsAfterFinished", 0.05)
    if is_removed:
        spec["ttlSecondsAfterFinished"] = 0
    happen(draft, spec, "job", 0)
    return Drawn(spec, is_removed=is_removed)


GENERATOR: Final = Generator(
    "Job",
    "batch/v1",
    (
        *SPEC_FEATURES,
        "activeDeadlineSeconds reached",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "suspend",
        "managedBy",
        "container restart",
        *HAPPENINGS,
    ),
    _draw,
)
