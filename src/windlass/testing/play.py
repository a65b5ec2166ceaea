"""`python -m windlass.testing.play --seeds 2000`: plays many scenarios, and shows the first that breaks a guarantee."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from windlass.testing import scenario, shrink

CHUNK = 50


def failures_in(seeds: Sequence[int]) -> list[tuple[int, str]]:
    found = ((seed, shrink.failure_of(scenario.draw(seed))) for seed in seeds)
    return [(seed, failure) for seed, failure in found if failure is not None]


def report(seed: int) -> str:
    """What a person needs who wants to mend it."""
    shortest = shrink.shrink(scenario.draw(seed))
    return (
        f"seed {seed} breaks a guarantee: {shrink.failure_of(scenario.draw(seed))}\n"
        f"replay it with: python -m windlass.testing.play --first {seed} --seeds 1\n"
        f"shortest form found, which breaks: {shrink.failure_of(shortest)}\n{shortest.describe()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windlass.testing.play", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many scenarios to play")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    started = time.monotonic()
    broken: list[tuple[int, str]] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for failures in pool.map(failures_in, chunks):
            broken += failures
    took = time.monotonic() - started
    print(f"{len(seeds)} scenarios played in {took:.1f} s, {len(broken)} broke a guarantee")
    for seed, failure in broken[1:20]:
        print(f"  seed {seed}: {failure}")
    if broken:
        print(report(broken[0][0]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
