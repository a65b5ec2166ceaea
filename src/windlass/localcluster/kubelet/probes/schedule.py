"""The schedule of startup, liveness and readiness probes of one run, and the meaning of their results.

`prober` performs the probes. Messages are those of the kubelet's events.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

import msgspec

from windlass.localcluster.kubelet.lifecycle import specs, terminations
from windlass.model.base import Json


class ProbeKind(StrEnum):
    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


SPEC_FIELDS = {kind: f"{kind.lower()}Probe" for kind in ProbeKind}
"""Kind of probe → field of the container with this probe."""


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    """The probe could not be performed: it counts neither as success nor as failure."""


class Probe(msgspec.Struct, frozen=True):
    """The settings and results of a probe. `verdict` is None until a threshold is reached."""

    kind: ProbeKind
    due_at: datetime
    period: timedelta
    success_threshold: int
    failure_threshold: int
    first_at: datetime
    grace_seconds: int | None = None
    verdict: bool | None = None
    latest: bool | None = None
    in_a_row: int = 0

    @property
    def must_kill(self) -> bool:
        return self.kind is not ProbeKind.READINESS and self.verdict is False

    def with_result(self, outcome: Outcome, now: datetime) -> Self:
        following = self.due_at + self.period
        due_at = following if following > now else now + self.period
        if outcome is Outcome.ERROR:
            return msgspec.structs.replace(self, due_at=due_at)
        is_success = outcome is Outcome.SUCCESS
        in_a_row = self.in_a_row + 1 if self.latest is is_success else 1
        threshold = self.success_threshold if is_success else self.failure_threshold
        return msgspec.structs.replace(
            self,
            due_at=due_at,
            latest=is_success,
            in_a_row=in_a_row,
            verdict=is_success if in_a_row >= threshold else self.verdict,
        )


class Probes(msgspec.Struct, frozen=True):
    """All probes of one run."""

    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None

    @property
    def has_started(self) -> bool:
        return self.startup is None or self.startup.verdict is True

    @property
    def is_ready(self) -> bool:
        return self.has_started and (self.readiness is None or self.readiness.verdict is True)

    @property
    def failed(self) -> Probe | None:
        """The failed probe because of which the container must be killed; None if there is none."""
        candidates = [probe for probe in (self.liveness, self.startup) if probe is not None]
        return next((probe for probe in candidates if probe.must_kill), None)

    def next_due(self, *, is_pod_terminating: bool = False) -> Probe | None:
        """Return the probe to perform next, at its `due_at`. A terminating pod gets only readiness probes."""
        if self.failed is not None:
            return None
        if not self.has_started:
            return None if is_pod_terminating else self.startup
        liveness = None if is_pod_terminating else self.liveness
        candidates = [probe for probe in (self.readiness, liveness) if probe is not None]
        return min(candidates, key=lambda probe: probe.due_at, default=None)

    def with_result(self, kind: ProbeKind, outcome: Outcome, now: datetime) -> "Probes":
        probe: Probe | None = getattr(self, kind.lower())
        after = None if probe is None else probe.with_result(outcome, now)
        changed = msgspec.structs.replace(self, **{kind.lower(): after})
        return _after_startup(changed, now) if changed.has_started and not self.has_started else changed


def _after_startup(probes: Probes, now: datetime) -> Probes:
    """Schedule the other probes after the startup probe. Their initial delay counts from the start of the run."""

    def due(probe: Probe | None) -> Probe | None:
        return probe and msgspec.structs.replace(probe, due_at=max(now, probe.first_at))

    return msgspec.structs.replace(probes, liveness=due(probes.liveness), readiness=due(probes.readiness))


class Kill(msgspec.Struct, frozen=True):
    """The decision to kill a container. `message` is the message of the event `Killing`."""

    grace_seconds: int
    message: str


def begin(container: Json, started_at: datetime) -> Probes:
    """Return the probes of a run that has just started."""
    specs_by_kind = {kind: container.get(field) for kind, field in SPEC_FIELDS.items()}
    return Probes(
        **{
            kind.lower(): _probe(kind, spec, started_at)
            for kind, spec in specs_by_kind.items()
            if spec is not None
        }
    )


def _probe(kind: ProbeKind, spec: Json, started_at: datetime) -> Probe:
    first_at = started_at + timedelta(seconds=spec.get("initialDelaySeconds") or 0)
    return Probe(
        kind=kind,
        due_at=first_at,
        first_at=first_at,
        period=timedelta(seconds=spec.get("periodSeconds") or 10),
        success_threshold=spec.get("successThreshold") or 1,
        failure_threshold=spec.get("failureThreshold") or 3,
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
    )


def decide_kill(pod: Json, container_name: str, probes: Probes) -> Kill | None:
    """Return the kill that a failed liveness or startup probe requires; None if no such probe has failed."""
    probe = probes.failed
    if probe is None:
        return None
    is_init = specs.is_init_container(pod, container_name)
    subject = "Init container" if is_init else "Container"
    is_restarted = not is_init and specs.restart_policy(pod) != "Never"
    message = f"{subject} {container_name} failed {probe.kind.lower()} probe"
    return Kill(
        _grace_seconds(pod, probe.grace_seconds), message + (", will be restarted" if is_restarted else "")
    )


def decide_kill_of_last_container(pod: Json, container_name: str) -> Kill:
    """Return the kill of a container with a failed probe that is the last running one, so that the pod ends with it.

    The grace period of the probe does not apply.
    """
    return Kill(_grace_seconds(pod, None), f"Stopping container {container_name}")


def _grace_seconds(pod: Json, probe_seconds: int | None) -> int:
    deletion_seconds: int | None = pod["metadata"].get("deletionGracePeriodSeconds")
    own = specs.grace_seconds(pod) if probe_seconds is None else probe_seconds
    return max(own if deletion_seconds is None else deletion_seconds, terminations.MIN_GRACE_SECONDS)


def event_message(kind: ProbeKind, outcome: Outcome, output: str) -> str | None:
    """Return the message of the event `Unhealthy`; None for a success."""
    match outcome:
        case Outcome.FAILURE:
            return f"{kind} probe failed: {output}"
        case Outcome.ERROR:
            return f"{kind} probe errored and resulted in unknown state: {output}"
        case Outcome.SUCCESS:
            return None


def http_result(status_code: int) -> tuple[Outcome, str]:
    """Return the result of an HTTP probe. As in the kubelet, a redirect that is not followed is a success."""
    if 200 <= status_code < 400:
        return Outcome.SUCCESS, ""
    return Outcome.FAILURE, f"HTTP probe failed with statuscode: {status_code}"
