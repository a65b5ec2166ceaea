"""What has to be stored before anything is done, and what may be stored later, together with the next change."""

from collections.abc import Sequence

from windlass.decide.contract import Action, CreateConfigMap, CreatePod, CreateService
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus


def may_wait(framework: Framework, wanted: FrameworkStatus, actions: Sequence[Action]) -> bool:
    """Whether a crash before it is stored loses nothing: the same is decided again, on what there is by then."""
    is_final = wanted.state is State.COMPLETED
    return not is_final and all(_needs_nothing_stored(action, framework.status, wanted) for action in actions)


def _needs_nothing_stored(action: Action, stored: FrameworkStatus | None, wanted: FrameworkStatus) -> bool:
    match action:
        case CreateConfigMap() | CreateService():
            # They say themselves which attempt of which Framework they belong to.
            return True
        case CreatePod():
            return stored is not None and _is_stored(action, stored, wanted)
    return False


def _is_stored(creation: CreatePod, stored: FrameworkStatus, wanted: FrameworkStatus) -> bool:
    """A gang that is created bit by bit: its tasks were stored before the first of their pods."""
    if stored.attempt_status.config_map_uid != wanted.attempt_status.config_map_uid:
        return False
    before, after = _tasks(stored, creation.role), _tasks(wanted, creation.role)
    return creation.index < len(before) and before[creation.index] is after[creation.index]


def _tasks(status: FrameworkStatus, name: str) -> Sequence[object]:
    return next((role.task_statuses for role in status.attempt_status.roles if role.name == name), ())
