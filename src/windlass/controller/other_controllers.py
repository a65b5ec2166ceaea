"""Detects other controllers that write the status of a Framework (A8), from its managedFields.

A controller that ran in the cluster earlier has left its name in every Framework, so the name alone means little. A
controller is still running if its name appears, or its time changes, after the Framework was first seen. Only times
that the API server wrote are compared with each other.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from windlass.wire.codec import StatusWriter

MANUAL_MANAGER_PREFIX = "kubectl"
"""Prefix of field managers of users, who may edit a status by hand."""
_NEVER = datetime.min.replace(tzinfo=UTC)


class OtherControllers:
    def __init__(self, field_manager: str) -> None:
        self._field_manager = field_manager
        self._first_seen: dict[str, dict[str, datetime]] = {}
        """The writers of the status when the Framework was first seen and their times, by the Framework's UID."""

    def detect(self, uid: str, writers: Iterable[StatusWriter]) -> str:
        """Return the name of another controller that has written since the first call for this UID, or an empty
        string."""
        others = {
            writer.manager: writer.time or _NEVER
            for writer in writers
            if writer.manager != self._field_manager and not writer.manager.startswith(MANUAL_MANAGER_PREFIX)
        }
        first_seen = self._first_seen.setdefault(uid, others)
        return next((name for name, time in others.items() if time > first_seen.get(name, _NEVER)), "")

    def forget(self, uid: str) -> None:
        self._first_seen.pop(uid, None)
