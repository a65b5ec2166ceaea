"""Access to fields that may be absent, and durations as Kubernetes prints them."""

import re
from datetime import datetime, timedelta
from typing import Any

Object = dict[str, Any]

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def human_duration(elapsed: timedelta) -> str:
    """Return a duration with two or three significant digits, as Kubernetes prints it: `5s`, `3m12s`, `2d3h`."""
    seconds = int(elapsed.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    # A slightly slow clock is not an error.
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two_parts(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_parts(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_parts(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    return _two_parts(years, "y", days % 365 if years < 8 else 0, "d")


def _two_parts(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 timestamp, or return None."""
    try:
        return datetime.fromisoformat(text) if _TIMESTAMP.fullmatch(text) else None
    except ValueError:
        return None


def age(timestamp: str | None, now: datetime) -> str:
    """Return the time since a timestamp."""
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


def condition(obj: Object, wanted: str) -> str:
    """Return the status of a condition, or "" if there is none."""
    conditions = entries(obj, "status", "conditions")
    return next((each.get("status", "") for each in conditions if each.get("type") == wanted), "")
