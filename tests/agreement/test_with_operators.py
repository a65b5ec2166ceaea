"""The original operators and Windlass run the same files under the same happenings, with the same result.

AGREEMENT_CASES is the number of cases per kind (default: 200), AGREEMENT_SEED their seed. WINDLASS_REGENERATE=1 records
the outcomes of the originals for `make test`.
"""

import asyncio
import os
import sys

import pytest
from agreement.cases import Case, Played
from agreement.run import Result

from agreement import generate, originals, recorded, run

pytestmark = [pytest.mark.kubernetes]

COUNT = int(os.environ.get("AGREEMENT_CASES", "200"))
SEED = int(os.environ.get("AGREEMENT_SEED", "0"))
MIN_SHARE_WITH_RETRIES = 0.3


def played(kind: str, cases: list[Case]) -> tuple[list[Result], list[str]]:
    """Play all cases. Those that do not agree are played again, a few at a time, with more patience.

    A controller on a busy machine may take longer than a case waits, and then sees two steps as one. Return the
    results and the names of the repeated cases.
    """
    with originals.served([kind]) as api:
        results = asyncio.run(run.run(api.kubeconfig, cases))
        again = [result.case for result in results if result.differences]
        repeated = asyncio.run(run.run(api.kubeconfig, again, quiet=3 * run.QUIET)) if again else []
    by_name = {result.case.name: result for result in (*results, *repeated)}
    return list(by_name.values()), [case.name for case in again]


@pytest.mark.parametrize("kind", tuple(generate.GENERATORS))
def test_windlass_agrees_with_the_operator(kind: str) -> None:
    cases = generate.cases(kind, COUNT, SEED)
    results, repeated = played(kind, cases)
    retried = sum(result.original is not None and result.original.has_retries for result in results)
    found = {result.case.name: result.differences for result in results if result.differences}
    print(
        f"{kind}: {len(cases)} cases, {len(cases) - len(found)} agree, {retried} with retries, "
        f"{len(repeated)} played again: {' '.join(repeated)}",
        file=sys.stderr,
    )
    assert not found
    assert retried >= MIN_SHARE_WITH_RETRIES * len(cases)
    if os.environ.get("WINDLASS_REGENERATE"):
        recorded.write(kind, (Played(each.case, each.original) for each in results if each.original))
