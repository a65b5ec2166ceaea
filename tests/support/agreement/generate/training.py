"""What TFJob and PyTorchJob share: the run policy, replicas with restart policies, and what happens to their pods."""

from typing import Final

from agreement.generate.drafts import HAPPENINGS, Draft, Drawn, template
from windlass.model.base import Json

RESTART_POLICIES: Final = ("Never", "OnFailure", "Always", "ExitCode")
RUN_POLICY_FEATURES: Final = (
    *(f"cleanPodPolicy: {value}" for value in ("None", "Running", "All")),
    *(f"restartPolicy: {value}" for value in RESTART_POLICIES),
    "restartPolicy unset",
    "backoffLimit 0",
    "backoffLimit",
    "activeDeadlineSeconds reached",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "suspend",
    "managedBy",
    "schedulingPolicy",
    "container restart",
    *HAPPENINGS,
)
DEADLINE: Final = 20


def run_policy(draft: Draft) -> Json:
    policy: Json = {}
    if draft.random.random() < 0.8 or "cleanPodPolicy" in draft.wanted:
        policy["cleanPodPolicy"] = draft.one_of("cleanPodPolicy", ("None", "Running", "All"))
    if draft.has("backoffLimit 0", 0.08):
        policy["backoffLimit"] = 0
    elif draft.has("backoffLimit", 0.4):
        policy["backoffLimit"] = draft.number(1, 3)
    if draft.has("activeDeadlineSeconds reached", 0.04):
        policy["activeDeadlineSeconds"] = DEADLINE
    elif draft.has("activeDeadlineSeconds", 0.1):
        policy["activeDeadlineSeconds"] = 36000
    if draft.has("ttlSecondsAfterFinished", 0.05):
        policy["ttlSecondsAfterFinished"] = 0
    if draft.has("suspend", 0.03):
        policy["suspend"] = True
    if draft.has("managedBy", 0.05):
        policy["managedBy"] = "kubeflow.org/training-operator"
    if draft.has("schedulingPolicy", 0.06):
        policy["schedulingPolicy"] = {"minAvailable": 1, "queue": "default", "priorityClass": "high"}
    return policy


def replicas(draft: Draft, count: int, container: str, port: str) -> Json:
    is_given = count != 1 or container == "pytorch" or draft.random.random() < 0.5
    spec: Json = {"replicas": count} if is_given else {}
    if draft.has("restartPolicy unset", 0.05):
        policy = ""
    else:
        policy = spec["restartPolicy"] = draft.one_of("restartPolicy", RESTART_POLICIES)
    more: Json = {}
    if draft.random.random() < 0.2:
        more["ports"] = [{"name": port, "containerPort": draft.number(3000, 4000)}]
    if draft.random.random() < 0.2:
        more["env"] = [{"name": "MODE", "value": policy or "default"}]
    spec["template"] = template(container, **more)
    return spec


def play(draft: Draft, specs: dict[str, Json], policy: Json) -> Drawn:
    """Let things happen to the pods of the roles, and return the drawn case without its own spec."""
    if "activeDeadlineSeconds reached" in draft.features:
        return Drawn({}, waits_for_deadline=not policy.get("suspend"))
    pods = [(role.lower(), index) for role, spec in specs.items() for index in range(spec.get("replicas", 1))]
    in_place = [
        (role, index)
        for role, index in pods
        for name, spec in specs.items()
        if name.lower() == role and spec.get("restartPolicy") in ("OnFailure", "Always")
    ]
    if not policy.get("suspend"):
        if in_place and draft.has("container restart", 0.4):
            # The containers of one pod fail again and again, up to the limit or beyond.
            chosen = draft.pick(in_place)
            for _ in range(draft.number(1, 3)):
                draft.exit(*chosen, draft.pick((1, 137)))
        for _ in range(draft.number(1, 4)):
            draft.happen(*draft.pick(pods))
    return Drawn({}, is_removed="ttlSecondsAfterFinished" in policy and not policy.get("suspend"))
