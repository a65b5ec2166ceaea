"""Measure a call: the best and the median CPU time of several rounds."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    best_ms: float
    median_ms: float


def timed(call: Callable[[], object], rounds: int = 15) -> Timing:
    call()
    times = []
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        call()
        times.append((time.process_time() - started) * 1000)
    return Timing(min(times), statistics.median(times))
