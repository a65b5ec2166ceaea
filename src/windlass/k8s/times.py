"""Timestamps as the API writes them, and durations as Go prints them."""

from datetime import UTC, datetime, timedelta


def format_time(moment: datetime) -> str:
    """Return a `Time`, which has whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def format_micro_time(moment: datetime) -> str:
    """Return a `MicroTime`, always with six fractional digits: older servers reject fewer digits."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def format_duration(duration: timedelta) -> str:
    """Return a duration as Go prints it, rounded to milliseconds: `10s`, `1m20s`, `5m0s`, `1h0m0s`, `1.5s`, `250ms`."""
    milliseconds = round(duration / timedelta(milliseconds=1))
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
