"""Which log lines a decision leaves behind (statement 49). Deletions that a watch shows leave theirs with the watch."""

from collections.abc import Iterator, Sequence

from windlass.decide.types import Reason, ReasonKind
from windlass.model.framework import Framework
from windlass.model.settings import LogObjectSnapshot
from windlass.wire import snapshots
from windlass.wire.snapshots import SnapshotTrigger

TRIGGERS = {
    ReasonKind.FRAMEWORK_RETRIED: SnapshotTrigger.FRAMEWORK_RETRY,
    ReasonKind.TASK_RETRIED: SnapshotTrigger.TASK_RETRY,
    ReasonKind.TASK_DELETED: SnapshotTrigger.TASK_DELETION,
}


def lines(framework: Framework, reasons: Sequence[Reason], wanted: LogObjectSnapshot) -> Iterator[str]:
    """One for each thing whose status is about to be forgotten."""
    for reason in reasons:
        trigger = TRIGGERS.get(reason.kind)
        if trigger is None or not snapshots.is_wanted(trigger, wanted):
            continue
        taken = framework
        if reason.status is not None:
            taken = framework.with_status(reason.status)
        elif reason.task is not None:
            taken = snapshots.task_snapshot(framework, reason.role, reason.task)
        yield snapshots.snapshot_line(reason.message, trigger, taken)
