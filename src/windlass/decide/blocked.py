"""When nothing is done about a Framework, and its status says why: it makes no sense, or somebody else is at it (A8).

Nothing is forgotten and nothing is deleted: the tasks that run go on running.
"""

from datetime import datetime

import msgspec

from windlass.decide import conditions, initial_status
from windlass.decide.types import Decision, Observed, Reason, ReasonKind
from windlass.model.framework import Framework
from windlass.model.status import ConditionType, FrameworkStatus


def yield_to_other_controller(framework: Framework, observed: Observed, now: datetime) -> Decision:
    """Said once: two that answer each other's words would never end."""
    status = framework.status
    condition = None if status is None else status.condition(ConditionType.OTHER_CONTROLLER)
    if observed.is_other_controller_reported or (condition is not None and condition.is_true):
        return Decision(status=status)
    other = observed.other_controller
    message = (
        f"{other} also writes the status of this Framework. To let Windlass manage it, stop {other} and restart the "
        "Windlass controller"
    )
    return _block(framework, ConditionType.OTHER_CONTROLLER, ReasonKind.OTHER_CONTROLLER, message, now)


def report_invalid_spec(framework: Framework, nonsense: str, now: datetime) -> Decision:
    return _block(framework, ConditionType.INVALID, ReasonKind.INVALID, nonsense, now)


def _block(
    framework: Framework, condition: ConditionType, kind: ReasonKind, message: str, now: datetime
) -> Decision:
    status = framework.status or _without_tasks(framework, now.replace(microsecond=0))
    explained = conditions.with_condition(status, condition, message, now)
    if explained is framework.status:
        return Decision(status=explained)
    return Decision(status=explained, reasons=(Reason(kind, message, is_warning=True),))


def _without_tasks(framework: Framework, now: datetime) -> FrameworkStatus:
    """The roles that make no sense are not put down; those that will, come later as if they were added."""
    empty = msgspec.structs.replace(framework.spec, task_roles=())
    return initial_status.framework_status(msgspec.structs.replace(framework, spec=empty), now)
