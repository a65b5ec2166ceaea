"""The result of one contender in one scenario, stored as one JSON line."""

import statistics
from collections.abc import Sequence

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
    rounds: int = 1
    """Number of measurements of which this is the median."""
    jobs_per_second_range: tuple[float, float] | None = None
    """The lowest and the highest measurement."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.contender, self.pods


MEDIANS = (
    *("seconds", "jobs_per_second", "done_p50", "done_p99", "first_pod_p50", "first_pod_p99"),
    *("cpu_ms_per_job", "cpu_percent", "peak_mb", "requests_per_job"),
)


def median_of(rounds: Sequence[Result]) -> Result:
    """Return a result with the median of each measurement, and the smallest number of finished jobs."""
    if len(rounds) == 1:
        return rounds[0]
    medians = {}
    for field in MEDIANS:
        values = [value for each in rounds if (value := getattr(each, field)) is not None]
        medians[field] = float(f"{statistics.median(values):.4g}") if values else None
    speeds = [each.jobs_per_second for each in rounds]
    conflicts = [each.conflicts for each in rounds if each.conflicts is not None]
    return msgspec.structs.replace(
        rounds[0],
        **medians,
        done=min(each.done for each in rounds),
        conflicts=max(conflicts) if conflicts else None,
        rounds=len(rounds),
        jobs_per_second_range=(min(speeds), max(speeds)),
    )


def quantile(values: list[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
