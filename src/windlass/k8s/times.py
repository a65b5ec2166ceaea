"""How moments and durations are written: in whole seconds, as the API has them, and as Go prints a duration."""

from datetime import UTC, datetime, timedelta


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def written_or_null(moment: datetime | None) -> str | None:
    return None if moment is None else written(moment)


def read(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def go_duration(duration: timedelta) -> str:
    """`10s`, `1m20s`, `5m0s`, `1h0m0s`, `1.5s`, `250ms`."""
    milliseconds = round(duration / timedelta(milliseconds=1))
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
