"""How many pods one pass creates or deletes before it looks again.

A gang of ten thousand takes half a minute to create. A pass that did it in one go would not hear of a Stop, and
everything that happens to the Framework would wait for it.
"""

AT_FIRST = 200
FEWEST = 50
"""However slow the server is."""
MOST = 2000
AIM_SEC = 0.5


class Pace:
    """Learns from each batch how many fit into the time that a pass may take."""

    def __init__(self, at_first: int = AT_FIRST) -> None:
        self.at_a_time = at_first

    def took(self, count: int, seconds: float) -> None:
        is_telling = count >= FEWEST
        if is_telling:
            fitting = int(count * AIM_SEC / max(seconds, 1e-3))
            self.at_a_time = max(FEWEST, min(fitting, MOST))
