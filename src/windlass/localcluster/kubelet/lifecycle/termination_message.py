"""The termination message of a container, from its termination log or from the end of its log."""

from collections.abc import Sequence

FILE_BYTES = 4096
LOG_BYTES = 2048
LOG_LINES = 80
POD_BYTES = 12 * 1024


def message(policy: str, file: bytes, log_lines: Sequence[bytes], *, exit_code: int) -> str:
    """Return the message. If the text is too long, only its end is returned.

    `file` is the content of the termination log, empty if there is none; `log_lines` are the last lines of the log.
    """
    may_use_log = policy == "FallbackToLogsOnError" and exit_code != 0
    if file or not may_use_log:
        return _text(file[-FILE_BYTES:])
    return _text(b"".join(log_lines[-LOG_LINES:])[-LOG_BYTES:])


def limited(text: str, container_count: int) -> str:
    """Truncate a message to the container's share of the limit for the whole pod."""
    encoded = text.encode()
    share = POD_BYTES // max(container_count, 1)
    return text if len(encoded) <= share else _text(encoded[:share])


def _text(cut: bytes) -> str:
    """Decode a text that may be truncated, without incomplete characters and other invalid bytes."""
    return cut.decode(errors="ignore")
