"""A token bucket that limits the requests of a client. It returns how long to wait and does not wait itself."""

import time
from collections.abc import Callable


class RateLimit:
    """Allows `qps` requests per second on average, and up to `burst` at once."""

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(
                f"invalid rate limit: qps must be greater than 0, found {qps}, and burst at least 1, found {burst}"
            )
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()

    def take(self) -> float:
        """Reserve a token, even if none is available yet. Return the seconds to wait before sending the request."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """Return the token of a request that is not sent."""
        self._tokens += 1
