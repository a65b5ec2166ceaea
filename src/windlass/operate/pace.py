"""How much is asked of the API server at a time, learnt from how fast it answers.

How many pods one pass creates or deletes before it looks again, and how long a status that nobody waits for may wait.

A gang of ten thousand takes half a minute to create. A pass that did it in one go would not hear of a Stop, and
everything that happens to the Framework would wait for it.
"""

AT_FIRST = 200
FEWEST = 50
"""However slow the server is."""
MOST = 2000
AIM_SEC = 0.5

SHORTEST_PATIENCE = 0.5
LONGEST_PATIENCE = 5.0
STORES_TO_WAIT_FOR = 10
"""A server that is slow to store is spared what can be stored together with the next change."""
WEIGHT_OF_ONE = 0.1


class Pace:
    def __init__(self, at_first: int = AT_FIRST) -> None:
        self.at_a_time = at_first
        self._store_seconds = 0.0

    @property
    def patience(self) -> float:
        """For so many seconds a status may wait that leads to nothing which needs it."""
        return max(SHORTEST_PATIENCE, min(STORES_TO_WAIT_FOR * self._store_seconds, LONGEST_PATIENCE))

    def stored_in(self, seconds: float) -> None:
        self._store_seconds += WEIGHT_OF_ONE * (seconds - self._store_seconds)

    def took(self, count: int, seconds: float) -> None:
        is_telling = count >= FEWEST
        if is_telling:
            fitting = int(count * AIM_SEC / max(seconds, 1e-3))
            self.at_a_time = max(FEWEST, min(fitting, MOST))
