"""Adapts batch sizes and status delays to the response times of the API server.

Creating a gang of ten thousand pods takes half a minute. A reconcile pass that created all of them at once would
not notice a request to stop the Framework, so a pass creates as many pods as fit into TARGET_BATCH_SEC.
"""

import statistics
from collections import deque

INITIAL_BATCH = 200
MIN_BATCH = 50
MAX_BATCH = 2000
TARGET_BATCH_SEC = 0.5

MIN_STATUS_DELAY = 0.5
MAX_STATUS_DELAY = 10.0
"""Seconds, for an API server that is slow for all Frameworks."""
MAX_LATER_STATUS_DELAY = 60.0
"""The same, once a deferred status of the Framework was stored: on a saturated server, jobs take so long that several
such updates would saturate it further."""
MAX_STATUS_DELAY_PER_TASK = 1.5e-3
"""Seconds per task, for a Framework whose status is slow to store because it is large."""
DELAY_FACTOR = 50
"""A status may be deferred for this multiple of the duration of a status update, within the limits above."""
UPDATE_SAMPLES = 9
SAMPLE_LIFETIME_SEC = 30.0


class AdaptiveBatching:
    def __init__(self, batch_size: int = INITIAL_BATCH) -> None:
        self.batch_size = batch_size
        """Maximum number of CreatePod actions, and of DeletePod actions, that one pass runs."""
        self._updates: deque[tuple[float, float]] = deque(maxlen=UPDATE_SAMPLES)
        """When each of the last status updates ended, and its duration."""

    def max_status_delay(
        self, tasks: int, last_update_seconds: float, now: float, *, is_first: bool = True
    ) -> float:
        """Return for how many seconds a status may be deferred.

        `tasks` is the number of tasks of the Framework, `last_update_seconds` the duration of its last status update.
        `is_first` is False if its last update was a deferred status, too.
        """
        recent = [seconds for at, seconds in self._updates if now - at <= SAMPLE_LIFETIME_SEC]
        # Missing samples count as fast: a few slow updates do not show that the server is slow.
        typical = statistics.median(recent + [0.0] * (UPDATE_SAMPLES - len(recent)))
        for_server = min(DELAY_FACTOR * typical, MAX_STATUS_DELAY if is_first else MAX_LATER_STATUS_DELAY)
        for_framework = min(DELAY_FACTOR * last_update_seconds, MAX_STATUS_DELAY_PER_TASK * tasks)
        return max(MIN_STATUS_DELAY, for_server, for_framework)

    def record_update(self, seconds: float, now: float) -> None:
        self._updates.append((now, seconds))

    def record_batch(self, count: int, seconds: float) -> None:
        """Adapt the batch size to the duration of a batch, unless the batch is too small for an estimate."""
        if count >= MIN_BATCH:
            fitting = int(count * TARGET_BATCH_SEC / max(seconds, 1e-3))
            self.batch_size = max(MIN_BATCH, min(fitting, MAX_BATCH))
