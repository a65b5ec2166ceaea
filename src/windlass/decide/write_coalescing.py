"""What has to be stored before anything is done, and what may be stored later, together with the next change."""

from collections.abc import Mapping, Sequence

from windlass.decide.types import Action, CreateConfigMap, CreatePod, CreateService
from windlass.model.framework import Framework
from windlass.model.states import State
from windlass.model.status import FrameworkStatus, TaskStatus

Tasks = Mapping[str, Sequence[TaskStatus]]


def may_wait(framework: Framework, wanted: FrameworkStatus, actions: Sequence[Action]) -> bool:
    """Whether a crash before it is stored loses nothing: the same is decided again, on what there is by then."""
    if wanted.state is State.COMPLETED:
        return False
    before, after = _tasks_stored(framework.status, wanted), _tasks_by_role(wanted)
    return all(_needs_no_stored_status(action, before, after) for action in actions)


def is_resumable(framework: Framework, unstored: FrameworkStatus | None) -> bool:
    """Not if it has the ConfigMap of an attempt that was never stored: that attempt might come and go unseen."""
    return unstored is not None and _config_map_of(unstored) in (None, _config_map_of(framework.status))


def _config_map_of(status: FrameworkStatus | None) -> str | None:
    return None if status is None else status.attempt_status.config_map_uid


def _needs_no_stored_status(action: Action, before: Tasks, after: Tasks) -> bool:
    match action:
        case CreateConfigMap() | CreateService():
            # They say themselves which attempt of which Framework they belong to.
            return True
        case CreatePod(role, index):
            # A gang that is created bit by bit: its tasks were stored before the first of their pods.
            stored = before.get(role, ())
            return index < len(stored) and stored[index] is after[role][index]
    return False


def _tasks_stored(stored: FrameworkStatus | None, wanted: FrameworkStatus) -> Tasks:
    """None where it is another attempt that is wanted."""
    if stored is None or stored.attempt_status.config_map_uid != wanted.attempt_status.config_map_uid:
        return {}
    return _tasks_by_role(stored)


def _tasks_by_role(status: FrameworkStatus) -> Tasks:
    return {role.name: role.task_statuses for role in status.attempt_status.roles}
