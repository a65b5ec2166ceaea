"""Untrusted text on a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cli.terminal import text as terminal_text
from windlass.model import untrusted_text

LINES = {
    "plain": ("step 3: loss 0.5", "step 3: loss 0.5"),
    "colours": ("\x1b[1;31mred\x1b[0m and \x1b[38;5;20mblue", "red and blue"),
    "cursor-and-screen": ("\x1b[2J\x1b[Hmine\x1b[10A", "mine"),
    "title": ("\x1b]0;a title\x07words", "words"),
    "link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "unfinished-title": ("words \x1b]0;never ends", "words "),
    "reset": ("\x1bcwords", "words"),
    "bell-and-backspace": ("a\x07b\x08c\x00d", "abcd"),
    "c1": ("a\x9b31mb\x85", "ab"),
    "c1-title": ("a\x9d0;title\x9cb", "ab"),
    "tab": ("a\tb", "a  b"),
    "carriage-return": ("10%\r20%\r30%", "30%"),
    "carriage-return-at-the-end": ("done\r", "done"),
    "right-to-left-override": ("a\u202eb", "ab"),
    "zero-width": ("a\u200bb\ufeff", "ab"),
    "line-separators": ("a\u2028b", "ab"),
    "variation-selector": ("\u2764\ufe0f", "\u2764"),
    "accents": ("cafe\u0301", "cafe\u0301"),
    "wide": ("日本", "日本"),
    "many-accents": ("a" + "\u0301" * 900, "a\u0301\u0301"),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES.keys())
def test_printable_removes_control_sequences(line: str, expected: str) -> None:
    assert terminal_text.printable(line) == expected


RED, END = "\x1b[31m", "\x1b[0m"
# Input and text in which only colours are left.
SAFE = {
    "plain": ("step 3:\tloss 0.5\n", "step 3:\tloss 0.5\n"),
    "colours": (f"{RED}red{END} \x1b[38:5:20mblue", f"{RED}red{END} \x1b[38:5:20mblue{END}"),
    "cursor-and-screen": ("\x1b[2J\x1b[H\x1b[?1049hmine\x1b[10A", "mine"),
    "keyboard-mode": ("\x1b[>4;2mmine", "mine"),
    "title": ("\x1b]0;a title\x07words", "words"),
    "clipboard": ("\x1b]52;c;cm0gLXJmIH4=\x07words", "words"),
    "link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "unfinished-title": ("a \x1b]0;never ends\nb", "a \nb"),
    "device-control": ("\x1bP$qm\x1b\\words", "words"),
    "reset": ("\x1bcwords", "words"),
    "alternative-characters": ("\x1b(0\x0ewords", "words"),
    "sequence-in-a-sequence": ("\x1b\x1b]0;title\x07[2Jwords", "[2Jwords"),
    "sequence-with-a-control-character": ("\x1b[2\x00Jwords", "2Jwords"),
    "bell-and-backspace": ("a\x07b\x08c\x00d\x7f", "abcd"),
    "c1": ("a\x9b2Jb\x85\x9d0;title\x9cc", "abc"),
    "bidirectional": ("a\u202eb\u2066c\u2069\u202c", "abc"),
    "marks-and-isolates": ("a\u200e\u200f\u061c\u200b\u2060\ufeff\U000e0041b\U000e007f", "ab"),
    "persian": ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    "long-colour": (f"\x1b[{'1;' * 40}mwords", "words"),
    "many-accents": ("a" + "\u0301" * 900 + "b\u0301\u0323", "a\u0301\u0301b\u0301\u0323"),
    "emoji": ("\U0001f469\u200d\U0001f4bb \u2764\ufe0f", "\U0001f469\u200d\U0001f4bb \u2764\ufe0f"),
    "hebrew": ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "line-end-of-windows": ("a\r\nb", "a\nb"),
}


@pytest.mark.parametrize(("text", "expected"), SAFE.values(), ids=SAFE.keys())
def test_only_colours_remain(text: str, expected: str) -> None:
    assert terminal_text.only_colours(text) == expected


@given(st.text(st.sampled_from("\x1b\x9b\x9d[]0;m?J\x07\\\r\n\ta\u202e")))
def test_no_combination_of_sequences_leaves_more_than_colours(text: str) -> None:
    safe = terminal_text.only_colours(text)
    assert not set("\x07\r\x9b\x9d\u202e") & set(safe)
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", safe)


LOG_LINES = {
    "plain": (b"a\tb\nc\n", b"a\tb\nc\n"),
    "accents": ("caf\xe9\n".encode(), "caf\xe9\n".encode()),
    "invalid-utf-8": (b"a\x9b2Jb\n", "a\N{REPLACEMENT CHARACTER}2Jb\n".encode()),
    "colours-end-with-their-line": (b"\x1b[8mhidden\nshown\n", b"\x1b[8mhidden\x1b[0m\nshown\n"),
    "progress-bar": (b"10%\r20%\r30%\nnext\n", b"30%\nnext\n"),
    "coloured-progress-bar": (b"\x1b[32m10%\r20%\r\x1b[0m\n", b"20%\n"),
    "line-end-of-windows": (b"a\r\nb\r\n", b"a\nb\n"),
    "title": (b"\x1b]0;title\nb\x07\n", b"\nb\n"),
}


@pytest.mark.parametrize(("data", "expected"), LOG_LINES.values(), ids=LOG_LINES.keys())
def test_log_lines_keep_only_colours(data: bytes, expected: bytes) -> None:
    assert terminal_text.safe_log_lines(data) == expected


def test_escaped_text_shows_control_characters() -> None:
    text = "a\tb\n\x1b[2J\x7f\x9b\u202e\u2066\u200e\U000e0041"
    assert untrusted_text.escaped(text) == "a\tb\\x0a\\x1b[2J\\x7f\\x9b\\u202e\\u2066\\u200e\\U000e0041"


FITS = {
    "shorter": ("abc", 5, "abc", "abc  ", "  abc"),
    "exact": ("abcde", 5, "abcde", "abcde", "abcde"),
    "longer": ("abcdef", 5, "abcd…", "abcd…", "abcd…"),
    "wide": ("日本語", 5, "日本…", "日本…", "日本…"),
    "wide-that-does-not-fit": ("日本語", 4, "日…", "日… ", " 日…"),
    "accents": ("cafe\u0301!", 5, "cafe\u0301!", "cafe\u0301!", "cafe\u0301!"),
    "no-room": ("abc", 0, "", "", ""),
}


@pytest.mark.parametrize(("text", "columns", "clipped", "fitted", "right"), FITS.values(), ids=FITS.keys())
def test_truncate_to_a_width(text: str, columns: int, clipped: str, fitted: str, right: str) -> None:
    assert terminal_text.truncate(text, columns) == clipped
    assert terminal_text.pad(text, columns) == fitted
    assert terminal_text.pad(text, columns, is_right_aligned=True) == right


@given(st.text(), st.integers(0, 30))
def test_any_text_is_padded_to_its_width(line: str, columns: int) -> None:
    text = terminal_text.printable(line)
    assert text.isprintable() or set(filter(lambda each: not each.isprintable(), text)) <= set(
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
    ), "only spaces of other widths are left"
    assert terminal_text.display_width(terminal_text.pad(text, columns)) == columns
