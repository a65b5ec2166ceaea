"""Find the error in the last lines of a log: the last traceback of a Python program, or a line about an error."""

import re
from collections.abc import Sequence

MAX_ERROR_LENGTH = 200

# Launchers put the rank of the process before each line, exception groups a bar.
_PREFIX = r"(?:\[[^\]\s]{1,40}\]:? ?|\s*\| )?"
_FRAME = re.compile(rf'{_PREFIX}\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_START = re.compile(rf"{_PREFIX}\s*Traceback \(most recent call last\):")
_EXCEPTION = re.compile(rf"{_PREFIX}(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$")
_PREFIXES = re.compile(_PREFIX)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "<frozen ")
_MENTIONS_ERROR = re.compile(
    r"\b(?:error|exception|fatal|panic|cannot|can't|could not|couldn't|no such|not found|denied|refused|aborted|"
    r"segmentation fault|unrecognized|invalid|out of memory)\b(?!\s*[=:]?\s*-?\d)",
    re.IGNORECASE,
)
ERROR_WORDS = (
    "error|exception|fatal|panic|can't|cannot|could ?n|no such|not found|denied|refused|aborted|segmentation fault|"
    "unrecognized|invalid|out of memory|traceback"
)
"""Expression of RE2 for texts of which `mentions_error` may be true, regardless of case: a faster first test."""
_ERROR_NAME = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b")


def find_error(lines: Sequence[str]) -> str:
    """Return e.g. `KeyError: 'lr' (train.py:41)`: the last exception and where it was raised, or else the last line if
    it mentions an error. Empty if there is neither."""
    found = _last_exception(lines)
    if found is not None:
        error, frames = found
        location = _location([lines[at] for at in frames])
        return _shortened(error, f" ({location})" if location else "")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return _shortened(last) if _MENTIONS_ERROR.search(last) else ""


def mentions_error(line: str) -> bool:
    """Return whether the line is about an error, e.g. the first line of a traceback."""
    return any(each.search(line) for each in (_START, _ERROR_NAME, _MENTIONS_ERROR))


def select_last_lines(lines: Sequence[str], count: int) -> Sequence[str]:
    """Return the last frames of the last traceback, at most `count` lines, or else the last `count` lines."""
    if count <= 0:
        return ()
    found = _last_exception(lines)
    if found is None:
        return lines[-count:]
    _, frames = found
    end = _end_of_exception(lines, frames[-1])
    start = frames[0] - 1 if frames[0] and _START.match(lines[frames[0] - 1]) else frames[0]
    if end - start <= count:
        return lines[start:end]
    # Begin with a whole frame if one fits.
    start = next((at for at in frames if end - at <= count), end - count)
    return lines[start:end]


def _last_exception(lines: Sequence[str]) -> tuple[str, list[int]] | None:
    """Return the last exception, and the positions of the frames of its traceback."""
    last = next((at for at in range(len(lines) - 1, -1, -1) if _FRAME.match(lines[at])), None)
    if last is None:
        return None
    at = _end_of_exception(lines, last) - 1
    found = _EXCEPTION.match(lines[at]) if at > last else None
    if found is None:
        return None
    frames = [last]
    for before in range(last - 1, -1, -1):
        if _FRAME.match(lines[before]):
            frames.insert(0, before)
        elif _START.match(lines[before]) or not _is_indented(lines[before]):
            break
    return found["error"], frames


def _end_of_exception(lines: Sequence[str], last_frame: int) -> int:
    """Return the position after the line that names the exception: the first one after the frame and its source."""
    for at in range(last_frame + 1, len(lines)):
        if not _is_indented(lines[at]):
            return at + 1
    return len(lines)


def _is_indented(line: str) -> bool:
    prefix = _PREFIXES.match(line)
    return line[prefix.end() if prefix is not None else 0 :].startswith((" ", "\t"))


def _location(frames: Sequence[str]) -> str:
    """Return the file and the line of the last frame that is not in a library, or else of the last frame."""
    found = [(match["file"], match["line"]) for frame in frames if (match := _FRAME.match(frame)) is not None]
    own = [each for each in found if not any(library in each[0] for library in _LIBRARIES)]
    file, line = (own or found)[-1]
    return f"{file.rpartition('/')[2]}:{line}"


def _shortened(error: str, location: str = "") -> str:
    limit = MAX_ERROR_LENGTH - len(location)
    return f"{error if len(error) <= limit else error[: limit - 1] + '…'}{location}"
