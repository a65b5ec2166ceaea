"""Untrusted text, e.g. log lines: find and remove what could control a terminal or hide or reorder other text."""

import re

# Each kind of sequence begins with ESC and a character, or with one C1 character.
SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC etc.: title, clipboard, links
    r"|\x1b[ -/]*[0-~]?"
)
SEQUENCES = re.compile(SEQUENCE)
_HIDDEN_RANGES = (
    (0x061C, 0x061C),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2060),
    (0x2066, 0x2069),
    (0xFEFF, 0xFEFF),
    (0xE0000, 0xE007F),
)
"""Characters that hide text, or that change the direction and thereby the order of the text around them. Joiners
(U+200C, U+200D) are not among them: some scripts and emoji need them."""
HIDDEN = "".join(f"{chr(first)}-{chr(last)}" for first, last in _HIDDEN_RANGES)
"""The hidden ranges, for a character class of a regular expression."""
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09} | {
    code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    for first, last in _HIDDEN_RANGES
    for code in range(first, last + 1)
}


def escaped(text: str) -> str:
    """Escape line breaks and everything that could control a terminal. Keep tabs."""
    return text.translate(_ESCAPES)


def last_overwrite(line: str) -> str:
    """Return the visible part of a line: each carriage return starts a part that overwrites the previous one."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if SEQUENCES.sub("", part).strip()), "")


def visible(line: str) -> str:
    """Return a log line without colours and overwritten parts, and escape the other characters that are not visible."""
    if line.isascii() and line.isprintable():
        return line
    return escaped(last_overwrite(SEQUENCES.sub("", line)))
