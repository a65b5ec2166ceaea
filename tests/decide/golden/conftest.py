"""Reads and writes the golden files of decisions.

A case is a file of two YAML documents: what goes into the decision, written by a person, and the decision, written by
`WINDLASS_REGENERATE=1 pytest tests/decide/golden`. Read the difference before it is kept. Times are written as seen
from the moment of the decision: `<Now>`, `<Now>-5s`, `<Now>+300s`.

An observed object is written by what is peculiar to it (see `SeenPod` and `SeenConfigMap`); all else is as if it had
been made for the Framework and the task as the status has them.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import builders
import msgspec
import pytest
import yaml

from windlass.decide import decide
from windlass.decide.types import Action, CreatedPod, Decision, Observed, Outcomes, Reason, RejectedPod
from windlass.model.base import Json, Sparse, wire_name
from windlass.model.framework import Framework
from windlass.model.pods import ConfigMapView, PodPhase, PodView
from windlass.model.status import FrameworkStatus, TaskStatus

SEPARATOR = "\n---\n"
_RELATIVE = re.compile(r"<Now>(?:([+-]\d+(?:\.\d+)?)s)?")
_IDENTITIES = ("name", "index", "type")
"""Fields that identify the elements of a list in the status."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


class SeenConfigMap(Sparse, frozen=True):
    uid: str
    attempt_id: int = 0
    deletion_began: datetime | None = None


class SeenPod(Sparse, frozen=True):
    uid: str
    phase: str = PodPhase.PENDING
    exit_code: int | None = None
    finished_at: datetime | None = None
    deletion_began: datetime | None = None
    grace: int = 30
    config_map_uid: str | None = None
    """UID of the ConfigMap that owns it. Default: that of the status."""
    task_uid: str | None = None
    """UID of its task. Default: that of the status."""
    task_attempt_id: int | None = None


class Case(msgspec.Struct, frozen=True):
    """One golden file."""

    path: Path
    given: str
    expected: str

    @classmethod
    def read(cls, path: Path) -> "Case":
        given, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
        return cls(path, given, expected)

    def write(self, decision: Json) -> None:
        text = yaml.dump(
            decision,
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=None,
            width=110,
            allow_unicode=True,
        )
        self.path.write_text(self.given.rstrip() + SEPARATOR + text, encoding="utf-8")

    def decide(self) -> Json:
        """Return the decision as it is written to the file."""
        given = yaml.safe_load(self.given)
        now = datetime.fromisoformat(given["now"])
        given = _with_absolute_times(given, now)
        framework = msgspec.convert(given["framework"], Framework)
        decision = decide(framework, _observed(given.get("observed", {}), framework), now)
        shown: Json = _relative_to(now, _shown(framework, decision))
        return shown


# In


def _with_absolute_times(value: Any, now: datetime) -> Any:
    if isinstance(value, dict):
        return {key: _with_absolute_times(item, now) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_absolute_times(item, now) for item in value]
    found = _RELATIVE.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else (now + timedelta(seconds=float(found[1] or 0))).isoformat()


def _observed(given: Json, framework: Framework) -> Observed:
    outcomes = _fields(given.get("outcomes", {}), Outcomes)
    for key, kind in (("created", CreatedPod), ("rejected", RejectedPod)):
        outcomes[key] = {name: _fields(item, kind) for name, item in outcomes.get(key, {}).items()}
    config_map = given.get("configMap")
    return Observed(
        config_map=None if config_map is None else _config_map(framework, config_map),
        pods={name: _pod(framework, name, seen) for name, seen in given.get("pods", {}).items()},
        known=frozenset(given.get("known", ())),
        unconfirmed=frozenset(given.get("unconfirmed", ())),
        outcomes=msgspec.convert(outcomes, Outcomes),
    )


def _config_map(framework: Framework, given: Json) -> ConfigMapView:
    seen = msgspec.convert(given, SeenConfigMap)
    return builders.config_map(
        framework, seen.uid, attempt_id=seen.attempt_id, deleting_since=seen.deletion_began
    )


def _pod(framework: Framework, name: str, given: Json) -> PodView:
    seen = msgspec.convert(given, SeenPod)
    assert framework.status is not None
    attempt = framework.status.attempt_status
    _, role_name, index = name.rsplit("-", 2)
    pod = builders.pod(
        framework,
        _task_of(framework.status, role_name, int(index), seen),
        role_name,
        uid=seen.uid,
        config_map_uid=seen.config_map_uid or attempt.config_map_uid or "",
        phase=seen.phase,
        exit_code=seen.exit_code,
        finished_at=seen.finished_at,
    )
    if pod.is_terminal:  # a pod that has ended keeps its addresses
        addresses = msgspec.structs.replace(pod.status, pod_ip="10.0.0.1", host_ip="192.168.0.1")
        pod = msgspec.structs.replace(pod, status=addresses)
    if seen.deletion_began is None:
        return pod
    metadata = msgspec.structs.replace(
        pod.metadata,
        deletion_timestamp=seen.deletion_began + timedelta(seconds=seen.grace),
        deletion_grace_period_seconds=seen.grace,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _task_of(status: FrameworkStatus, role_name: str, index: int, seen: SeenPod) -> TaskStatus:
    """Return the task for which the pod was created."""
    roles = (role for role in status.attempt_status.roles if role.name == role_name)
    task = next(task for role in roles for task in role.task_statuses if task.index == index)
    attempt = task.attempt_status
    attempt_id = attempt.id if seen.task_attempt_id is None else seen.task_attempt_id
    return msgspec.structs.replace(
        task,
        instance_uid=seen.task_uid or task.instance_uid,
        attempt_status=msgspec.structs.replace(attempt, id=attempt_id),
    )


def _fields(given: Json, kind: type[msgspec.Struct]) -> Json:
    """Convert the JSON names of the file to field names."""
    fields = {wire_name(field): field for field in kind.__struct_fields__}
    return {fields[key]: value for key, value in given.items()}


# Out


def _shown(framework: Framework, decision: Decision) -> Json:
    before, after = _plain(framework.status), _plain(decision.status)
    return {
        "status": "unchanged" if after == before else _difference(before, after),
        "actions": [_action(action) for action in decision.actions],
        "wakeAt": decision.wake_at,
        "reasons": [_reason(reason) for reason in decision.reasons],
        "mayWait": decision.may_wait,
    }


def _action(action: Action) -> Json:
    fields = {wire_name(field): getattr(action, field) for field in action.__struct_fields__}
    return {"do": type(action).__name__, **fields}


def _reason(reason: Reason) -> Json:
    shown: Json = {"kind": str(reason.kind), "message": reason.message}
    if reason.role:
        shown["task"] = f"{reason.role}-{reason.index}"
    if reason.is_warning:
        shown["isWarning"] = True
    if reason.status is not None or reason.task is not None:
        shown["leavesSnapshot"] = True
    return shown


def _plain(value: Any) -> Any:
    """Convert to JSON with datetimes, and lists of named elements as mappings."""
    return _by_identity(msgspec.to_builtins(value, builtin_types=(datetime,)))


def _by_identity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _by_identity(item) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    for identity in _IDENTITIES:
        if value and all(isinstance(item, dict) and identity in item for item in value):
            return {item[identity]: _by_identity(item) for item in value}
    return value


def _difference(before: Any, after: Any) -> Any:
    """Return what is new or changed in `after`; removed parts are `<gone>`."""
    if not isinstance(after, dict):
        return after
    if not isinstance(before, dict):
        return {key: _difference(None, item) for key, item in after.items() if item is not None}
    changed = {
        key: _difference(before.get(key), item)
        for key, item in after.items()
        if key not in before or before[key] != item
    }
    return changed | {key: "<gone>" for key in before if key not in after}


def _relative_to(now: datetime, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _relative_to(now, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_relative_to(now, item) for item in value]
    if not isinstance(value, datetime):
        return value
    seconds = (value - now).total_seconds()
    return "<Now>" if seconds == 0 else f"<Now>{seconds:+.6f}".rstrip("0").rstrip(".") + "s"


@pytest.fixture(scope="session")
def read_case() -> Callable[[Path], Case]:
    return Case.read
