"""Format the results as a table: each contender in each scenario, and Windlass compared with each other one."""

import re
from collections.abc import Iterable, Iterator, Sequence

from cluster_load.contenders import FLOOR, JOB_CONTROLLER, WINDLASS, Contender
from cluster_load.results import Result
from cluster_load.workloads import Pods

HEAD = (
    "",
    "pods",
    "done",
    "seconds",
    "jobs/s",
    "from … to",
    "p50 s",
    "p99 s",
    "first pod p50",
    "p99 s",
    "CPU ms/job",
    "peak MB",
    "requests/job",
    "409",
    "Windlass jobs/s ÷ its jobs/s",
    "its p50 ÷ Windlass p50",
)


def table(results: Sequence[Result], last: Sequence[Result] = ()) -> str:
    """Return a Markdown table. Ratios that differ from the `last` results show the former value too."""
    lines = []
    for scenario in dict.fromkeys(result.scenario for result in results):
        rows = [HEAD, *(_row(each, results, last) for each in results if each.scenario == scenario)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines += ["", f"**{scenario}**", ""]
        lines += [_line(rows[0], widths), _line(["-" * width for width in widths], widths)]
        lines += [_line(row, widths) for row in rows[1:]]
    return "\n".join(lines) + "\n"


def runs(results: Sequence[Result]) -> Iterator[str]:
    """List when and where each run was measured."""
    for run in dict.fromkeys(result.run for result in results):
        measured = dict.fromkeys(result.scenario for result in results if result.run == run)
        yield f"{run}: {', '.join(measured)}"


def _line(row: Iterable[str], widths: Iterable[int]) -> str:
    return "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |"


def _row(result: Result, results: Sequence[Result], last: Sequence[Result]) -> tuple[str, ...]:
    now, before = _ratios(result, results), _ratios(result, last)
    return (
        result.contender,
        result.pods,
        f"{result.done}/{result.jobs}",
        f"{result.seconds:.2f}",
        _shown(result.jobs_per_second or None),
        " … ".join(map(_shown, result.jobs_per_second_range or ())),
        _shown(result.done_p50 or None),
        _shown(result.done_p99 or None),
        _shown(result.first_pod_p50 or None),
        _shown(result.first_pod_p99 or None),
        _shown(result.cpu_ms_per_job),
        _shown(result.peak_mb),
        _shown(result.requests_per_job),
        _shown(result.conflicts),
        *(_compared(*pair) for pair in zip(now, before, strict=True)),
    )


def _ratios(result: Result, results: Sequence[Result]) -> tuple[float | None, float | None]:
    """Return the speedups of Windlass: by jobs per second, and by the median time per job."""
    theirs = next((each for each in results if each.key == result.key), None)
    ours = None if theirs is None else _windlass_beside(theirs, results)
    if result.contender == WINDLASS.name or ours is None or theirs is None:
        return None, None
    speed = ours.jobs_per_second / theirs.jobs_per_second if theirs.jobs_per_second else None
    median = theirs.done_p50 / ours.done_p50 if ours.done_p50 else None
    return speed, median


def _windlass_beside(result: Result, results: Iterable[Result]) -> Result | None:
    """Return the result of Windlass in the same scenario and run with the same pod policy."""
    key = (result.scenario, WINDLASS.name, result.pods)
    return next((each for each in results if each.key == key and each.run == result.run), None)


def _compared(now: float | None, before: float | None) -> str:
    if now is None:
        return ""
    was = "" if before is None or f"{before:.2f}" == f"{now:.2f}" else f" (was {before:.2f})"
    return f"× {now:.2f}{was}"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


# Targets

AS_FAST = 0.95
ENOUGH = (
    # The contender to compare jobs per second with, and the required speedup.
    ("burst of 100", Pods.KEPT, JOB_CONTROLLER, AS_FAST),
    ("burst of 100", Pods.REMOVED, FLOOR, 0.7),
    ("burst of 500", Pods.KEPT, JOB_CONTROLLER, AS_FAST),
    ("burst of 2000", Pods.KEPT, FLOOR, 0.6),
    ("burst of 2000", Pods.REMOVED, FLOOR, 0.6),
    ("one of 500 tasks", Pods.KEPT, JOB_CONTROLLER, AS_FAST),
    ("one of 2000 tasks", Pods.KEPT, JOB_CONTROLLER, AS_FAST),
    ("one of 10000 tasks", Pods.KEPT, JOB_CONTROLLER, AS_FAST),
)
CPU_MS = {Pods.KEPT: 8, Pods.REMOVED: 12}
FIRST_POD = 1.1
"""The time to the first pod, divided by that of the Job controller."""


def summary(results: Sequence[Result]) -> str:
    """Return a Markdown table of Windlass, with its ratios to the Job controller in the same run."""
    rows = [
        (
            "scenario",
            "pods",
            "jobs/s",
            "÷ Job controller",
            "median time, its ÷ ours",
            "first pod p99 ÷ its",
            "CPU ms/job",
            "its CPU",
            "÷ floor",
            "Kubernetes, load of the machine",
        )
    ]
    for ours in results:
        if ours.contender != WINDLASS.name or not ours.jobs_per_second:
            continue
        theirs, floor = (_beside(ours, contender, results) for contender in (JOB_CONTROLLER, FLOOR))
        speed, median = (None, None) if theirs is None else _ratios(theirs, results)
        first = ours.first_pod_p99 / theirs.first_pod_p99 if theirs and theirs.first_pod_p99 else None
        rows.append(
            (
                ours.scenario,
                ours.pods,
                _shown(ours.jobs_per_second),
                _compared(speed, None),
                _compared(median, None),
                _compared(first, None),
                _shown(ours.cpu_ms_per_job),
                _shown(None if theirs is None else theirs.cpu_ms_per_job),
                _compared(None if floor is None else _ratios(floor, results)[0], None),
                ", ".join(re.findall(r"(?:Kubernetes|load) ([\d.]+)", ours.run)),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(rows[0], widths), _line(["-" * width for width in widths], widths)]
    return "\n".join([*lines, *(_line(row, widths) for row in rows[1:])]) + "\n"


def _beside(ours: Result, contender: Contender, results: Iterable[Result]) -> Result | None:
    """Return the result of another contender in the same scenario and run with the same pod policy."""
    key = (ours.scenario, contender.name, ours.pods)
    return next((each for each in results if each.key == key and each.run == ours.run), None)


def verdicts(results: Sequence[Result]) -> Iterator[str]:
    """Yield each target with its result: reached or missed."""
    found = {result.key: result for result in results}
    for scenario, pods, contender, aim in ENOUGH:
        theirs = found.get((scenario, contender.name, pods))
        speed, median = (None, None) if theirs is None else _ratios(theirs, results)
        if speed is not None:
            yield _verdict(
                f"{scenario}, pods {pods}: jobs/s of Windlass ÷ jobs/s of the {contender.name}",
                speed,
                "≥",
                aim,
            )
        if median is not None and contender is JOB_CONTROLLER:
            yield _verdict(
                f"{scenario}, pods {pods}: p50 of the {contender.name} ÷ p50 of Windlass", median, "≥", aim
            )
    for result in results:
        if result.contender == WINDLASS.name:
            yield from _verdicts_of(result, _beside(result, JOB_CONTROLLER, results))


def _verdicts_of(ours: Result, job_controller: Result | None) -> Iterator[str]:
    what = f"{ours.scenario}, pods {ours.pods}"
    yield _verdict(f"{what}: not done", ours.jobs - ours.done, "≤", 0)
    if ours.scenario == "burst of 100" and job_controller is not None and job_controller.first_pod_p99:
        first = ours.first_pod_p99 / job_controller.first_pod_p99
        yield _verdict(f"{what}: p99 to the first pod ÷ that of the Job controller", first, "≤", FIRST_POD)
    if ours.scenario.startswith("burst"):
        yield from _costs(ours, what)
    writing = ours.notes.get("status_writes_seconds")
    if ours.scenario == "one of 10000 tasks" and writing is not None:
        yield _verdict(f"{what}: status writes, % of the time", 100 * writing / (ours.seconds or 1), "≤", 10)
    if ours.scenario == "1000 idle, then deleted":
        if ours.conflicts is not None:
            busy = sum(number for what, number in ours.requests.items() if not _is_quiet(what))
            yield _verdict(f"{what}: requests other than watches and the lease", busy, "≤", 0)
        if ours.cpu_percent is not None:
            yield _verdict(f"{what}: CPU while idle, % of a core", ours.cpu_percent, "≤", 0.5)
    if ours.scenario == "restart under 1000":
        yield _verdict(f"{what}: seconds", ours.seconds, "≤", 3)


def _costs(ours: Result, what: str) -> Iterator[str]:
    # A ConfigMap, five statuses and the pods; with removal one more status and two deletions.
    budget = ours.tasks + (6 if ours.pods == Pods.KEPT else 9)
    if ours.cpu_ms_per_job is not None:
        limit = CPU_MS[Pods(ours.pods)]
        yield _verdict(f"{what}: CPU of the controller per job, ms", ours.cpu_ms_per_job, "≤", limit)
    if ours.requests_per_job is not None:
        yield _verdict(f"{what}: requests per job", ours.requests_per_job, "≤", budget)
    if ours.conflicts is not None:
        yield _verdict(f"{what}: responses with status 409", ours.conflicts, "≤", 0)
    if ours.jobs == 2000 and ours.peak_mb is not None:
        yield _verdict(f"{what}: peak memory, MB", ours.peak_mb, "≤", 160)


def _is_quiet(what: str) -> bool:
    return what.startswith("watch ") or what.endswith(" leases")


def _verdict(what: str, value: float, sign: str, aim: float) -> str:
    is_reached = value >= aim if sign == "≥" else value <= aim
    return f"{'reached' if is_reached else 'MISSED '}  {what}: {value:.4g} (target {sign} {aim:g})"
