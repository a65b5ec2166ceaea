"""Gangs that are too large to be created in one go."""

from windlass.decide.contract import CreatePod, Decision
from windlass.model.framework import Framework


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
