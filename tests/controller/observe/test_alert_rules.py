"""The alerting rules of deploy/monitoring, tested with promtool: each one fires and stays silent for a given series.

A row is an alert, the series that makes it fire, how long that takes, the labels of the alert, and a series that does
not. `a+bxn` is Prometheus' notation: n samples after a, one per minute, each larger by b.
"""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
SYSTEM = {"namespace": "windlass-system"}

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)

Series = dict[str, str]
"""Values by the name and labels of a metric."""


class Row(msgspec.Struct, frozen=True):
    alert: str
    firing: Series
    silent: Series
    labels: dict[str, str] = {}
    minutes: int = 90


def histogram(name: str, slow: int, fast: int, bound: str, labels: str = "") -> Series:
    """Return a histogram that gets `fast` observations below the bound and `slow` above it, per minute."""
    prefix = f"{name}_bucket{{{labels}le="
    return {f'{prefix}"{bound}"}}': f"0+{fast}x120", f'{prefix}"+Inf"}}': f"0+{fast + slow}x120"} | {
        # The quantile is the highest finite bound if it is in the last bucket.
        f'{prefix}"86400"}}': f"0+{fast + slow}x120"
    }


REQUESTS = 'windlass_api_requests_total{verb="get",resource="pods",code='
ROWS = [
    Row("WindlassHasNoLeader", {"windlass_leader": "0x120"}, {"windlass_leader": "1x120"}),
    Row(
        "WindlassHasNoLeader",
        {'windlass_leader{pod="a"}': "1x120", 'windlass_leader{pod="b"}': "1x120"},
        {'windlass_leader{pod="a"}': "1x120", 'windlass_leader{pod="b"}': "0x120"},
    ),
    Row("WindlassHasNoLeader", {"up": "1x120"}, {"windlass_leader": "1x120"}),
    Row(
        "WindlassFallsBehind",
        {"windlass_queue_depth": "51x120"},
        # It catches up once in ten minutes.
        {"windlass_queue_depth": "5000x85 0 5000x40"},
    ),
    Row(
        "WindlassPassesAreSlow",
        histogram("windlass_pass_duration_seconds", 2, 98, "5"),
        histogram("windlass_pass_duration_seconds", 0, 98, "5"),
    ),
    Row(
        "WindlassRequestsFail",
        {f'{REQUESTS}"200"}}': "0+94x120", f'{REQUESTS}"503"}}': "0+6x120"},
        {f'{REQUESTS}"200"}}': "0+90x120", f'{REQUESTS}"404"}}': "0+10x120", f'{REQUESTS}"0"}}': "0+1x120"},
    ),
    Row(
        "WindlassRequestsAreSlow",
        histogram("windlass_api_request_duration_seconds", 2, 98, "5", 'verb="patch",'),
        histogram("windlass_api_request_duration_seconds", 0, 98, "5", 'verb="patch",'),
        {"verb": "patch"},
    ),
    Row(
        "WindlassRecordsLost",
        {'windlass_attempt_records_total{outcome="rejected"}': "0x80 1x40"},
        {'windlass_attempt_records_total{outcome="written"}': "0+5x120"},
    ),
    Row(
        "WindlassWatchesBreak",
        {'windlass_watch_errors_total{resource="pods"}': "0+3x120"},
        {'windlass_watch_errors_total{resource="pods"}': "0+1x120"},
        {"resource": "pods"},
    ),
    Row(
        "FrameworksDoNotStart",
        {'windlass_frameworks{state="AttemptCreationPending"}': "101x120"},
        {'windlass_frameworks{state="AttemptRunning"}': "5000x120"},
        {"state": "AttemptCreationPending"},
    ),
    Row(
        "TasksDoNotEnd",
        {'windlass_tasks{state="AttemptDeleting"}': "1x120"},
        {'windlass_tasks{state="AttemptDeleting"}': "1x50 0 1x120"},
        {"state": "AttemptDeleting"},
    ),
    Row(
        "FrameworksAreRetriedOften",
        {'windlass_retries_total{level="framework",class="transient"}': "0+2x120"},
        {'windlass_retries_total{level="task",class="transient"}': "0+2x120"},
        {"level": "framework", "class": "transient"},
    ),
    Row(
        "FirstPodsAreLate",
        histogram("windlass_time_to_first_pod_seconds", 2, 8, "60"),
        histogram("windlass_time_to_first_pod_seconds", 0, 8, "60"),
    ),
    Row(
        "GangsWait",
        histogram("windlass_barrier_wait_seconds", 6, 4, "1800"),
        histogram("windlass_barrier_wait_seconds", 4, 6, "1800"),
    ),
    Row(
        "WindlassEventsAreLost",
        {'windlass_events_total{outcome="failed"}': "0+7x120"},
        {'windlass_events_total{outcome="dropped"}': "0+70x120"},
    ),
    Row(
        "WindlassReplicasDiffer",
        {'windlass_build_info{version="1"}': "1x120", 'windlass_build_info{version="2"}': "1x120"},
        {
            'windlass_build_info{version="2",pod="a"}': "1x120",
            'windlass_build_info{version="2",pod="b"}': "1x120",
        },
    ),
]


def is_global(row: Row) -> bool:
    """Whether the series have no namespace."""
    return "up" in row.firing


def with_namespace(series: Series) -> list[dict[str, str]]:
    """Add the label `namespace`, which Prometheus adds to the metrics of a pod."""
    return [
        {
            "series": f'{name.rstrip("}")}{"," if "{" in name else "{"}namespace="windlass-system"}}',
            "values": values,
        }
        for name, values in series.items()
    ]


def promtool(folder: Path, row: Row, series: Series, expected: list[dict[str, dict[str, str]]]) -> str:
    """Return what promtool finds wrong."""
    test = {
        "interval": "1m",
        "input_series": with_namespace(series),
        "alert_rule_test": [{"eval_time": f"{row.minutes}m", "alertname": row.alert, "exp_alerts": expected}],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_rules_are_valid() -> None:
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_and_has_a_severity() -> None:
    assert {row.alert for row in ROWS} == ALERTS.keys()
    assert {rule["labels"]["severity"] for rule in ALERTS.values()} == {"critical", "warning", "info"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.alert)
def test_alert_fires(tmp_path: Path, row: Row) -> None:
    rule = ALERTS[row.alert]
    labels = {**rule["labels"], **row.labels, **({} if is_global(row) else SYSTEM)}
    summary = rule["annotations"]["summary"]
    for name, value in row.labels.items():
        summary = summary.replace(f"{{{{ $labels.{name} }}}}", value)
    expected = {"exp_labels": labels, "exp_annotations": {"summary": summary}}
    assert "{{" not in summary
    assert promtool(tmp_path, row, row.firing, [expected]) == ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.alert)
def test_alert_stays_silent(tmp_path: Path, row: Row) -> None:
    assert promtool(tmp_path, row, row.silent, []) == ""


def test_comparison_detects_a_wrong_expectation(tmp_path: Path) -> None:
    assert "WindlassHasNoLeader" in promtool(tmp_path, ROWS[0], ROWS[0].firing, [])
