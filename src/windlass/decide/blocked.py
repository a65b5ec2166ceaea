"""Frameworks that are not managed, with the reason as a condition: an invalid spec, or another controller (A8).

Nothing is deleted: running tasks keep running.
"""

from datetime import datetime

import msgspec

from windlass.decide import conditions, initial_status
from windlass.decide.types import Decision, Observed, Reason, ReasonKind
from windlass.model.framework import Framework
from windlass.model.status import ConditionType, FrameworkStatus


def yield_to_other_controller(framework: Framework, observed: Observed, now: datetime) -> Decision:
    """Report the other controller once, so that the two do not overwrite each other's status forever."""
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


def report_invalid_spec(framework: Framework, error: str, now: datetime) -> Decision:
    return _block(framework, ConditionType.INVALID, ReasonKind.INVALID, error, now)


def _block(
    framework: Framework, condition: ConditionType, kind: ReasonKind, message: str, now: datetime
) -> Decision:
    status = framework.status or _without_tasks(framework, now.replace(microsecond=0))
    explained = conditions.with_condition(status, condition, message, now)
    if explained is framework.status:
        return Decision(status=explained)
    return Decision(status=explained, reasons=(Reason(kind, message, is_warning=True),))


def _without_tasks(framework: Framework, now: datetime) -> FrameworkStatus:
    """Return a status without roles. Once the spec is valid, its roles are added like new ones."""
    empty = msgspec.structs.replace(framework.spec, task_roles=())
    return initial_status.framework_status(msgspec.structs.replace(framework, spec=empty), now)
