"""How many requests a client lets itself send: a bucket of tokens. It waits for nobody; it says how long to wait."""

import time
from collections.abc import Callable


class RateLimit:
    """`qps` requests a second in the long run, and up to `burst` at once."""

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(
                f"a rate limit needs more than 0 requests a second, not {qps}, and a burst of 1, not {burst}"
            )
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()

    def take(self) -> float:
        """Takes a token, perhaps one that is yet to come: after so many seconds it is there."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """A token that was taken for a request that is not sent after all."""
        self._tokens += 1
