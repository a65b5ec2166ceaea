"""Access to fields that may be absent, and durations as Kubernetes prints them."""

import math
import re
from datetime import datetime, timedelta
from typing import Any

Object = dict[str, Any]

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
# Upper limits in seconds, each with the larger and the smaller unit in which shorter durations are printed.
_DURATION_UNITS = (
    *((120, "s", ""), (600, "m", "s"), (3 * 3600, "m", ""), (8 * 3600, "h", "m"), (48 * 3600, "h", "")),
    *((8 * 86400, "d", "h"), (730 * 86400, "d", ""), (2920 * 86400, "y", "d"), (math.inf, "y", "")),
)


def human_duration(elapsed: timedelta) -> str:
    """Return a duration in one or two units, as Kubernetes prints it: `5s`, `3m12s`, `2d3h`."""
    seconds = int(elapsed.total_seconds())
    # A time less than two seconds in the future (clock skew) is shown as 0s.
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    large, small = next((large, small) for limit, large, small in _DURATION_UNITS if seconds < limit)
    text = f"{seconds // _UNIT_SECONDS[large]}{large}"
    rest = seconds % _UNIT_SECONDS[large] // _UNIT_SECONDS[small] if small else 0
    return f"{text}{rest}{small}" if rest else text


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 timestamp, or return None."""
    try:
        return datetime.fromisoformat(text) if _TIMESTAMP.fullmatch(text) else None
    except ValueError:
        return None


def age(timestamp: str | None, now: datetime) -> str:
    """Return the time since a timestamp; `<unknown>` without a timestamp, `<invalid>` if it is malformed."""
    if not timestamp:
        return "<unknown>"
    then = parse_time(timestamp)
    return "<invalid>" if then is None else human_duration(now - then)


def age_of(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def name_of(obj: Object) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


def at(obj: Any, *path: str) -> Any:
    """Return the value at a path, or None."""
    for key in path:
        obj = obj.get(key) if obj else None
    return obj


def text(obj: Object, *path: str, absent: str = "") -> str:
    return at(obj, *path) or absent


def entries(obj: Object, *path: str) -> list[Any]:
    return at(obj, *path) or []


def number(obj: Object, *path: str) -> int:
    return at(obj, *path) or 0


def condition_status(obj: Object, type_name: str) -> str:
    """Return the status of a condition; "" if the object does not have the condition."""
    conditions = entries(obj, "status", "conditions")
    return next((each.get("status", "") for each in conditions if each.get("type") == type_name), "")
