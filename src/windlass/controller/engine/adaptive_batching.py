"""How much is asked of the API server at a time, learnt from how fast it answers.

How many pods one pass creates or deletes before it looks again, and how long a status that nobody waits for may wait.

A gang of ten thousand takes half a minute to create. A pass that did it in one go would not hear of a Stop, and
everything that happens to the Framework would wait for it.
"""

import statistics
from collections import deque

AT_FIRST = 200
FEWEST = 50
"""However slow the server is."""
MOST = 2000
AIM_SEC = 0.5

SHORTEST_PATIENCE = 0.5
LONGEST_PATIENCE = 10.0
"""With a server that is slow for everybody."""
LONGEST_PATIENCE_PER_TASK = 1.5e-3
"""With a Framework whose own status takes long to store, since it is large."""
STORES_TO_WAIT_FOR = 50
"""A server that is slow to store is spared what can be stored together with the next change."""
STORES_REMEMBERED = 9
REMEMBERED_SEC = 30.0
"""A server that was slow before that may be quick by now."""


class Pace:
    def __init__(self, at_first: int = AT_FIRST) -> None:
        self.at_a_time = at_first
        self._stores: deque[tuple[float, float]] = deque(maxlen=STORES_REMEMBERED)
        """When, and for how long."""

    def patience(self, tasks: int, last_store_seconds: float, now: float) -> float:
        """For so many seconds a status may wait that leads to nothing which needs it, in a Framework of so many tasks
        that was stored in so many seconds the last time."""
        recent = [seconds for at, seconds in self._stores if now - at <= REMEMBERED_SEC]
        # A few say nothing.
        usual = statistics.median(recent + [0.0] * (STORES_REMEMBERED - len(recent)))
        for_all = min(STORES_TO_WAIT_FOR * usual, LONGEST_PATIENCE)
        for_this_one = min(STORES_TO_WAIT_FOR * last_store_seconds, LONGEST_PATIENCE_PER_TASK * tasks)
        return max(SHORTEST_PATIENCE, for_all, for_this_one)

    def stored_in(self, seconds: float, now: float) -> None:
        self._stores.append((now, seconds))

    def took(self, count: int, seconds: float) -> None:
        is_telling = count >= FEWEST
        if is_telling:
            fitting = int(count * AIM_SEC / max(seconds, 1e-3))
            self.at_a_time = max(FEWEST, min(fitting, MOST))
