"""Gangs: those that are too large to be created in one go, and what their barriers are told."""

from windlass.decide.contract import CreatePod, Decision, PublishGang
from windlass.decide.draft import Draft
from windlass.model import gang
from windlass.model.framework import Framework


def publish(draft: Draft) -> None:
    """Once every task has an address, and again whenever one has another pod: that pod's barrier waits for it."""
    if not draft.wishes.wants_gang:
        return
    members = gang.members_of(draft.spec, draft.status.attempt_status)
    if members is None:
        return
    fingerprint = gang.fingerprint(members)
    if fingerprint != draft.observed.outcomes.published_gang:
        draft.act(PublishGang(fingerprint))


def continues_a_gang(framework: Framework, decision: Decision) -> bool:
    """Whether nothing is wanted but pods of tasks that are stored as they are: nothing of it has to be stored first."""
    stored, wanted = framework.status, decision.status
    if stored is None or wanted is None or not decision.actions:
        return False
    if stored.attempt_status.config_map_uid != wanted.attempt_status.config_map_uid:
        return False
    before = {role.name: role.task_statuses for role in stored.attempt_status.roles}
    after = {role.name: role.task_statuses for role in wanted.attempt_status.roles}
    return all(
        isinstance(action, CreatePod)
        and action.index < len(before.get(action.role, ()))
        and before[action.role][action.index] is after[action.role][action.index]
        for action in decision.actions
    )
