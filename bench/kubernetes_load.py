"""Measure the load on a real API server: Windlass, the minimal writer ("floor"), the Job controller, and any other
controller.

Everything runs on this machine: etcd, kube-apiserver, a fake kubelet (it reports pods as running and finished), the
driver and the controller. Each contender gets an empty server in each scenario. With KUBECONFIG that cluster is used:
no other controller of Frameworks may run there, and server-side counts are omitted.

The contenders take turns in several rounds (A B C A B C …), and their medians are compared. Print one JSON line per
measurement, then a table and the targets. The lines are stored in
bench/results/kubernetes.jsonl; changed ratios show the former value. Plots and tables for the documentation are made
from the stored results.
"""

import argparse
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import kubernetes_api
import kubernetes_binaries
import programs
from cluster_load import contenders, plots, report, scenarios, stages
from cluster_load.contenders import Contender
from cluster_load.results import Result, median_of
from cluster_load.scenarios import NotServedError, Scenario
from cluster_load.workloads import Pods

KEPT = Path(__file__).parent / "results" / "kubernetes.jsonl"
DOCS = Path(__file__).parents[1] / "docs"
BEGIN = "<!-- measured -->"
END = "<!-- end of what was measured -->"
SUMMARY_BEGIN = "<!-- summary -->"
SUMMARY_END = "<!-- end of the summary -->"


def contenders_for(scenario: Scenario, pods: Pods, commands: list[str]) -> list[Contender]:
    """Return the contenders to compare with. Jobs keep their pods, so they are compared with jobs whose pods are kept.
    A controller without `completedPods` removes them."""
    found = [contenders.WINDLASS]
    if scenario.has_floor:
        found.append(contenders.FLOOR)
    if pods is Pods.KEPT:
        found.append(contenders.JOB_CONTROLLER)
    if pods is scenario.pods[-1]:
        found += map(contenders.other, commands)
    return found


def measure(chosen: list[Scenario], commands: list[str], only: str, run: str, rounds: int) -> list[Result]:
    """Return the median of each contender. The contenders take turns, because the speed of a machine may vary."""
    results: list[Result] = []
    for scenario in chosen:
        for pods in scenario.pods:
            compared = [each for each in contenders_for(scenario, pods, commands) if only in each.name]
            measured: dict[str, list[Result]] = {}
            for contender in compared * rounds:
                with stages.stage() as stage:
                    try:
                        result = scenario.run(stage, contender, pods)
                    except NotServedError as error:
                        print(f"{scenario.name}: skipped: {error}", file=sys.stderr, flush=True)
                        continue
                measured.setdefault(contender.name, []).append(msgspec.structs.replace(result, run=run))
                print(msgspec.json.encode(measured[contender.name][-1]).decode(), flush=True)
            results += map(median_of, measured.values())
    return results


def described(version: str) -> str:
    processor = platform.processor() or platform.machine()
    return "; ".join(
        (
            f"{os.cpu_count()} cores, {processor}, {platform.system()} {platform.release()}",
            f"Kubernetes {version.removeprefix('v')}, Python {platform.python_version()}",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.1f}",
        )
    )


def kept(path: Path) -> list[Result]:
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Result) for line in path.read_bytes().splitlines()]


def keep(path: Path, results: list[Result]) -> None:
    """Store results; those not measured this time stay."""
    merged = {result.key: result for result in (*kept(path), *results)}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in merged.values()))


def publish() -> None:
    """Write the plots and tables of the stored results into the documentation."""
    results = kept(KEPT)
    plots.draw(results, DOCS / "performance")
    page = DOCS / "performance.md"
    before, mark, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    where, verdicts = (
        "\n".join(f"* {line}" for line in lines) for lines in (report.runs(results), report.verdicts(results))
    )
    section = f"\n{where}\n{report.table(results)}\n{verdicts}\n"
    head, summary_mark, rest = before.partition(SUMMARY_BEGIN)
    _, summary_end, before = rest.partition(SUMMARY_END)
    summary = f"\n{report.summary(results)}"
    page.write_text(f"{head}{summary_mark}{summary}{summary_end}{before}{mark}{section}{end}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="'CMD'",
        help="command of another Framework controller, started with KUBECONFIG",
    )
    parser.add_argument("--scenario", action="append", default=[], help="only those whose name holds this")
    parser.add_argument("--contender", default="", help="only those whose name holds this")
    parser.add_argument(
        "--rounds", type=int, default=3, help="measurements per contender, of which the median counts"
    )
    parser.add_argument("--no-save", action="store_true", help="do not update the stored results")
    arguments = parser.parse_args()
    selected = [
        scenario
        for scenario in scenarios.ALL
        if not arguments.scenario or any(part in scenario.name for part in arguments.scenario)
    ]
    if not selected:
        parser.error(f"unknown scenario; known: {', '.join(each.name for each in scenarios.ALL)}")
    try:
        with kubernetes_api.serve() as api:
            run = described(api.version)
        results = measure(selected, arguments.controller, arguments.contender, run, arguments.rounds)
    except (programs.StartError, kubernetes_binaries.BinariesError) as error:
        print(error, file=sys.stderr)
        return 1
    print(report.table(results, kept(KEPT)))
    print("\n".join(report.verdicts(results)))
    if not arguments.no_save:
        keep(KEPT, results)
        publish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
