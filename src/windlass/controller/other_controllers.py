"""Who else writes the statuses that we write (A8), told by what the API server notes down about every writer.

The reference controller that ran here before us has left its name in every Framework, so a name says little. One that
shows up, or writes again, after we first saw the Framework is still at work. Only times that the server wrote are
compared, and only with one another: nobody's clock matters.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from windlass.wire.codec import StatusWriter

PEOPLE = "kubectl"
"""A status that somebody edits by hand makes nobody a controller."""
_EVER = datetime.min.replace(tzinfo=UTC)


class Rivals:
    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._past: dict[str, dict[str, datetime]] = {}
        """By UID of the Framework: who had written its status when we first saw it, and when."""

    def among(self, uid: str, writers: Iterable[StatusWriter]) -> str:
        """The name of another controller that has written since, or nothing."""
        others = {
            writer.manager: writer.time or _EVER
            for writer in writers
            if writer.manager != self._ours and not writer.manager.startswith(PEOPLE)
        }
        past = self._past.setdefault(uid, others)
        return next((name for name, time in others.items() if time > past.get(name, _EVER)), "")

    def forget(self, uid: str) -> None:
        self._past.pop(uid, None)
