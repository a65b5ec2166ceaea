"""Parse and format durations as people write them: 90, 90s, 15m, 1h30m, 7d."""

import re

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|[smhd])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EXPECTED = "a duration such as 90s, 15m, 1h30m or 7d"


def parse(duration: str | float) -> float:
    """Return a duration in seconds. A number without a unit means seconds. Raise ValueError if it is invalid."""
    text = str(duration).strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        return float(text)
    parts = list(_PART.finditer(text))
    is_whole = bool(parts) and "".join(part[0] for part in parts) == text
    if not is_whole:
        raise ValueError(f"found {text!r}, expected {EXPECTED}")
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)


def format_seconds(length: float) -> str:
    """Return a duration as people write it: 1h30m."""
    whole, fraction = divmod(round(length, 3), 1)
    minutes, secs = divmod(int(whole), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{number}{unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if number]
    if secs or fraction or not parts:
        parts.append(f"{secs + fraction:.3f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)
