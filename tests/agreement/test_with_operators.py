"""The original operators and Windlass run the same files under the same happenings, with the same result.

AGREEMENT_CASES is the number of cases per kind (default: 200), AGREEMENT_SEED their seed. WINDLASS_REGENERATE=1 records
outcomes of the originals for `make test`, and the figures in docs/convert.md.
"""

import asyncio
import os
import sys

import pytest
from agreement.cases import Case
from agreement.run import Result

from agreement import figures, generate, originals, run

pytestmark = [pytest.mark.kubernetes]

COUNT = int(os.environ.get("AGREEMENT_CASES", "200"))
SEED = int(os.environ.get("AGREEMENT_SEED", "0"))
MIN_SHARE_WITH_RETRIES = 0.3


def played(kind: str, cases: list[Case]) -> list[Result]:
    """Play all cases. Those that do not agree are played again, a few at a time, with more patience.

    A controller on a busy machine may take longer than a case waits, and then sees two steps as one. Return all
    results; the last one of a case counts.
    """
    with originals.served([kind]) as api:
        results = asyncio.run(run.run(api.kubeconfig, cases))
        again = [result.case for result in results if result.differences]
        return [
            *results,
            *(asyncio.run(run.run(api.kubeconfig, again, quiet=3 * run.QUIET)) if again else []),
        ]


@pytest.mark.parametrize("kind", tuple(generate.GENERATORS))
def test_windlass_agrees_with_the_operator(kind: str) -> None:
    cases = generate.cases(kind, COUNT, SEED)
    every = played(kind, cases)
    found = figures.of(kind, every)
    last = {result.case.name: result for result in every}
    print(f"{kind}: {found}", file=sys.stderr)
    if os.environ.get("WINDLASS_REGENERATE"):
        figures.write(every)
    assert {name: result.differences for name, result in last.items() if result.differences} == {}
    assert found.with_retries >= MIN_SHARE_WITH_RETRIES * len(cases)
