"""The result of one contender in one scenario, stored as one JSON line."""

import msgspec


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    scenario: str
    contender: str
    pods: str
    """What happens to the pods of a finished job: kept or removed."""
    jobs: int = 0
    tasks: int = 0
    """Tasks per job."""
    done: int = 0
    """Jobs finished within the time limit of the scenario."""
    seconds: float = 0.0
    """Seconds from the first submission to the last finished job, or to the end of the scenario."""
    jobs_per_second: float = 0.0
    done_p50: float = 0.0
    done_p99: float = 0.0
    """Seconds from the submission of a job to its end."""
    first_pod_p50: float = 0.0
    first_pod_p99: float = 0.0
    """Seconds from the submission of a job to its first pod."""
    cpu_ms_per_job: float | None = None
    cpu_percent: float | None = None
    """Share of one core."""
    peak_mb: float | None = None
    requests_per_job: float | None = None
    """Writes counted on the server, without leases and events."""
    conflicts: int | None = None
    requests: dict[str, int] = {}
    """All requests by kind."""
    notes: dict[str, float] = {}
    """Values of this scenario only."""
    run: str = ""
    """Place and time of the run. Ratios compare results of the same run."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.contender, self.pods


def quantile(values: list[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
