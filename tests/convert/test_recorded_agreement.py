"""Converted jobs end like the originals in the recorded cases, which ran under the original operators."""

import os
from pathlib import Path

import in_process_cluster
import pytest
from agreement.cases import Case, Outcome
from agreement.hollow import Hollow

from agreement import comparison, converted, figures, generate, recorded, run
from windlass.convert import job_rules

QUIET = 0.15
SECONDS = 300
SHORT_DELAY = 0
"""Seconds until a failed pod is replaced for the first time."""
PAGE = Path(__file__).parents[2] / "docs" / "convert.md"
CASES_FOR_COVERAGE = 200


@pytest.mark.parametrize("kind", recorded.kinds())
def test_converted_jobs_end_as_recorded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(job_rules.BACKOFF, "initialSec", SHORT_DELAY)
    cases = recorded.read(kind)

    async def play() -> list[run.Result]:
        watched = [converted.WindlassSubject.resource]
        async with run.hollow_cluster(cluster.kubeconfig, watched, QUIET) as hollow:

            async def played(found: Hollow, case: Case) -> Outcome:
                return await run.play_converted(found, case, QUIET)

            return await run.play_all(hollow, [each.case for each in cases], {run.CONVERTED: played})

    with in_process_cluster.opened(label="nobody") as cluster:
        # On the event loop of the cluster, so that a quiet time is one in which the controller had nothing to do.
        results = cluster.stage.wait(play(), SECONDS)
    found = {
        each.case.name: list(result.errors)
        if result.converted is None
        else [str(each) for each in comparison.unexpected(each.case, each.outcome, result.converted)]
        for each, result in zip(cases, results, strict=True)
    }
    assert {name: differences for name, differences in found.items() if differences} == {}


@pytest.mark.parametrize("kind", recorded.kinds())
def test_recorded_cases_cover_every_feature(kind: str) -> None:
    covered = generate.coverage(kind, (each.case for each in recorded.read(kind)))
    assert {feature for feature, count in covered.items() if not count} <= {recorded.TIMED}


@pytest.mark.parametrize("kind", tuple(generate.GENERATORS))
def test_generated_cases_cover_every_feature(kind: str) -> None:
    covered = generate.coverage(kind, generate.cases(kind, CASES_FOR_COVERAGE))
    assert {feature: count for feature, count in covered.items() if count < 3} == {}


def test_generator_repeats_cases_for_a_seed() -> None:
    assert generate.cases("TFJob", 5, seed=7) == generate.cases("TFJob", 5, seed=7)
    assert generate.cases("TFJob", 5, seed=7) != generate.cases("TFJob", 5, seed=8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("differences", comparison.table()), ("agreement", figures.table(figures.read()))],
)
def test_documentation_shows_differences_and_figures(name: str, expected: str) -> None:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = PAGE.read_text().partition(begin)
    shown, _, after = rest.partition(end)
    if os.environ.get("WINDLASS_REGENERATE"):
        PAGE.write_text(f"{before}{begin}{expected}\n{end}{after}")
        shown = f"{expected}\n"
    assert shown == f"{expected}\n"
