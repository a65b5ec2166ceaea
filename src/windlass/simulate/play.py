"""`python -m windlass.simulate.play --seeds 2000`: simulate many scenarios and show the first violation."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from windlass.simulate import scenario, shrink

CHUNK = 50


def first_failure_in(seeds: Sequence[int]) -> tuple[int, str] | None:
    """Return the first seed that violates an invariant, with the violation."""
    for seed in seeds:
        failure = shrink.failure_of(scenario.draw(seed))
        if failure is not None:
            return seed, failure
    return None


def failures_in(seeds: Sequence[int]) -> list[tuple[int, str]]:
    """Return every seed that violates an invariant, with its violation."""
    found = ((seed, shrink.failure_of(scenario.draw(seed))) for seed in seeds)
    return [(seed, failure) for seed, failure in found if failure is not None]


def report(seed: int) -> str:
    """Describe a violation: the seed, the command that replays it, and a minimal scenario."""
    shortest = shrink.shrink(scenario.draw(seed))
    return (
        f"seed {seed} violates an invariant: {shrink.failure_of(scenario.draw(seed))}\n"
        f"replay it with: python -m windlass.simulate.play --first {seed} --seeds 1\n"
        f"minimal scenario found, with the violation: {shrink.failure_of(shortest)}\n{shortest.describe()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windlass.simulate.play", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="number of scenarios (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (default: one per core)"
    )
    parser.add_argument(
        "--fail-fast",
        action="store_true",
        help="simulate the seeds in order in one process, stop at the first violation and do not shrink it",
    )
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return _play_until_failure(seeds) if arguments.fail_fast else _play_all(seeds, arguments.jobs)


def _play_until_failure(seeds: range) -> int:
    found = first_failure_in(seeds)
    if found is None:
        print(f"{len(seeds)} scenarios simulated, 0 violated an invariant")
        return 0
    print(f"seed {found[0]}: {found[1]}")
    return 1


def _play_all(seeds: range, jobs: int) -> int:
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    started = time.monotonic()
    broken: list[tuple[int, str]] = []
    with ProcessPoolExecutor(jobs) as pool:
        for failures in pool.map(failures_in, chunks):
            broken += failures
    took = time.monotonic() - started
    print(f"{len(seeds)} scenarios simulated in {took:.1f} s, {len(broken)} violated an invariant")
    for seed, failure in broken[1:20]:
        print(f"  seed {seed}: {failure}")
    if broken:
        print(report(broken[0][0]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
