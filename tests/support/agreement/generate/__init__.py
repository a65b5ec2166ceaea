"""Generators of cases, one module per kind.

Each has FEATURES: the policy fields and happenings that its cases have to cover. Every case has one of them for
certain, in turn, and the others by chance.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from agreement.cases import Case
from agreement.generate import batch_job, jobset, mpijob, pytorchjob, tfjob
from agreement.generate.drafts import Generator

GENERATORS: Final[dict[str, Generator]] = {
    "Job": batch_job.GENERATOR,
    "TFJob": tfjob.GENERATOR,
    "PyTorchJob": pytorchjob.GENERATOR,
    "MPIJob": mpijob.GENERATOR,
    "JobSet": jobset.GENERATOR,
}


def cases(kind: str, count: int, seed: int = 0) -> list[Case]:
    return [GENERATORS[kind].case(number, seed) for number in range(count)]


def coverage(kind: str, generated: Iterable[Case]) -> dict[str, int]:
    """Return the number of cases with each feature of the kind."""
    counted = Counter(feature for case in generated for feature in case.features)
    return {feature: counted[feature] for feature in GENERATORS[kind].features}
