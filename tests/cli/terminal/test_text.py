"""Untrusted text on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cli.terminal import text as terminal_text

LINES = {
    "plain": ("step 3: loss 0.5", "step 3: loss 0.5"),
    "colours": ("\x1b[1;31mred\x1b[0m and \x1b[38;5;20mblue", "red and blue"),
    "cursor-and-screen": ("\x1b[2J\x1b[Hmine\x1b[10A", "mine"),
    "title": ("\x1b]0;a title\x07words", "words"),
    "link": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"),
    "unfinished-title": ("words \x1b]0;never ends", "words "),
    "reset": ("\x1bcwords", "words"),
    "bell-and-backspace": ("a\x07b\x08c\x00d", "abcd"),
    "c1": ("a\x9b31mb\x85", "a31mb"),
    "tab": ("a\tb", "a  b"),
    "carriage-return": ("10%\r20%\r30%", "30%"),
    "carriage-return-at-the-end": ("done\r", "done"),
    "right-to-left-override": ("a\u202eb", "ab"),
    "zero-width": ("a\u200bb\ufeff", "ab"),
    "line-separators": ("a\u2028b", "ab"),
    "variation-selector": ("\u2764\ufe0f", "\u2764"),
    "accents": ("cafe\u0301", "cafe\u0301"),
    "wide": ("日本", "日本"),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES.keys())
def test_printable_removes_control_sequences(line: str, expected: str) -> None:
    assert terminal_text.printable(line) == expected


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
