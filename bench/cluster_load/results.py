"""What was measured of one contender in one scenario. One JSON line each."""

import msgspec


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    scenario: str
    contender: str
    pods: str
    """What becomes of the pods of a job that is done: kept, or removed."""
    jobs: int = 0
    tasks: int = 0
    """Of each job."""
    done: int = 0
    """Jobs that were done within the time that the scenario has."""
    seconds: float = 0.0
    """From the first submission until the last job was done, or whatever the scenario measures was there."""
    jobs_per_second: float = 0.0
    done_p50: float = 0.0
    done_p99: float = 0.0
    """Seconds from the submission of a job until it was done."""
    first_pod_p50: float = 0.0
    first_pod_p99: float = 0.0
    """Seconds from the submission of a job until its first pod was seen."""
    cpu_ms_per_job: float | None = None
    cpu_percent: float | None = None
    """Of one core."""
    peak_mb: float | None = None
    requests_per_job: float | None = None
    """Counted on the server: those that change something, without leases and events."""
    conflicts: int | None = None
    requests: dict[str, int] = {}
    """All of them, by kind."""
    notes: dict[str, float] = {}
    """What only this scenario has."""
    run: str = ""
    """Where and when. Ratios are made of results of one run only."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.contender, self.pods


def quantile(values: list[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
