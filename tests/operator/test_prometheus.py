"""A real Prometheus that scrapes a busy controller evaluates the rules and the queries of the board."""

import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from operated.controllers import Controller
from operated.jobs import FOREVER, fails, framework, role
from operated.place import Place
from operated.processes import Spawned

from conformance.waiting import wait_for

PROGRAM = shutil.which("prometheus") or ""

pytestmark = [
    # Runs with the real API server: `make test-api`.
    pytest.mark.kubernetes,
    pytest.mark.skipif(not PROGRAM, reason="Prometheus is not installed (Debian: prometheus)"),
]

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
BOARD = json.loads((MONITORING / "board.json").read_text())
QUERIES = {target["expr"]: panel["title"] for panel in BOARD["panels"] for target in panel["targets"]}
JOBS = 20
MAY_BE_EMPTY = {"Failed requests"}
"""Panels of things that should not happen."""
DUE_TO_LOAD = {"WindlassPassesAreSlow", "WindlassRequestsAreSlow", "FirstPodsAreLate"}
"""Alerts that are right on a busy machine."""


class Prometheus:
    def __init__(self, process: Spawned) -> None:
        self._process = process
        self._address = wait_for("Prometheus to listen", self._listening)
        wait_for("Prometheus to be ready", self._is_ready)

    def _listening(self) -> str:
        found = re.search(r'msg="Listening on" address=(\S+)', self._process.text())
        return found[1] if found else ""

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready") as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def get(self, path: str, **query: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url) as response:
            body = json.load(response)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the current samples. A query that is wrong gets a response with status 400."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


@pytest.fixture
def prometheus(controller: Controller, tmp_path: Path) -> Iterator[Prometheus]:
    target = {"targets": [controller.address()], "labels": {"namespace": "windlass-system"}}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "rules.yaml")],
        "scrape_configs": [{"job_name": "windlass", "static_configs": [target]}],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    command = [
        PROGRAM,
        f"--config.file={file}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    process = Spawned("prometheus", command, tmp_path / "prometheus.log")
    yield Prometheus(process)
    process.kill()


def test_rules_and_board_work_on_a_busy_controller(prometheus: Prometheus, place: Place) -> None:
    wait_for("a scrape", lambda: prometheus.query("windlass_leader == 1"))
    for number in range(JOBS):
        place.submit(framework(f"job-{number}", role(tasks=3)))
    place.submit(framework("failing", role(life=fails(), retry={"maxRetryCount": 2})))
    place.submit(framework("running", role(tasks=2, life=FOREVER)))
    for number in range(JOBS):
        place.wait_for_completed(f"job-{number}")
    place.wait_for_completed("failing")
    place.wait_for_running("running", 2)

    finished = f'namespace_state:windlass_frameworks:sum{{state="Completed"}} >= {JOBS}'
    wait_for("the finished jobs to be recorded", lambda: prometheus.query(finished))
    passes = "namespace:windlass_pass_duration_seconds:p99_10m > 0"
    wait_for("the durations to be recorded", lambda: prometheus.query(passes))
    retries = 'namespace_level_class:windlass_retries:increase1h{level="task",class="unknown"} > 0'
    wait_for("the retries to be recorded", lambda: prometheus.query(retries))

    rules = prometheus.rules()
    assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
        (rule["name"], "ok", "") for rule in rules
    }
    recorded = {rule["name"]: prometheus.query(rule["name"]) for rule in rules if rule["type"] == "recording"}
    assert {name for name, samples in recorded.items() if not samples} == set()
    assert {each["labels"]["alertname"] for each in prometheus.get("alerts")["alerts"]} <= DUE_TO_LOAD
    shown = {expression: prometheus.query(expression) for expression in QUERIES}
    empty = {QUERIES[expression] for expression, samples in shown.items() if not samples}
    assert empty <= MAY_BE_EMPTY
