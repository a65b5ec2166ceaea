"""Expressions in RE2 syntax (statement 51), each row with what Go's regexp makes of it."""

import re

import pytest

from windlass.model import expressions
from windlass.model.expressions import ExpressionError, compile_expression


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        # Plain search, anywhere in the text
        ("OOM", "was OOMKilled", "OOM"),
        ("OOM", "was evicted", None),
        ("", "anything", ""),
        ("a|b", "xb", "b"),
        ("^OutOf.+$", "OutOfcpu", "OutOfcpu"),
        # Flags
        ("(?msi)^oom.*ed$", "first\nOOM\nKilled\nlast", "OOM\nKilled"),
        ("(?i)evicted", "Evicted", "Evicted"),
        ("a(?i)b|c", "C", "C"),
        ("a(?i)b|c", "A", None),
        ("(a(?i)b)c", "aBc", "aBc"),
        ("(a(?i)b)c", "aBC", None),
        ("(?i)a(?-i)b", "Ab", "Ab"),
        ("(?i)a(?-i)b", "AB", None),
        ("(?i:a)b", "Ab", "Ab"),
        ("(?i:a)b", "AB", None),
        ("(?i-s:a.)", "A\n", None),
        ("(?)a", "a", "a"),
        ("(?U)a+", "aaa", "a"),
        ("(?U)a+?", "aaa", "aaa"),
        ("(?i)ſ", "S", "S"),
        # Anchors: a newline at the very end is not the end
        ("a$", "a", "a"),
        ("a$", "a\n", None),
        ("(?m)a$", "a\n", "a"),
        ("^b", "a\nb", None),
        ("(?m)^b", "a\nb", "b"),
        (r"\Aa\z", "a", "a"),
        (r"\Aa\z", "a\n", None),
        ("^*a", "a", "a"),
        (r"\bé", "aé", "é"),
        (".", "\n", None),
        ("(?s).", "\n", "\n"),
        # Classes: ASCII only, and white space without the vertical tab
        (r"\d", "٣", None),
        (r"\w", "é", None),
        (r"\W", "é", "é"),
        (r"\s", "\v", None),
        (r"\S", "\v", "\v"),
        (r"[\S]", "\v", "\v"),
        (r"[^\S]", "\v", None),
        (r"[^\S]", " ", " "),
        (r"[^\W\d]+", "1ab_-", "ab_"),
        (r"(?i)\W", "S", None),
        (r"[[:alpha:]]+", "1aZ2", "aZ"),
        (r"[[:^alpha:]]+", "a12b", "12"),
        (r"(?i)[[:^lower:]]", "A", None),
        (r"[[:space:]]", "\v", "\v"),
        (r"[[:punct:]]+", "a[]`~b", "[]`~"),
        (r"[[:word:]-]+", "a_1-é", "a_1-"),
        ("[]a]+", "b]a", "]a"),
        ("[^]a]+", "]b", "b"),
        ("[a-]+", "b-a", "-a"),
        (r"[\d-z]+", "a1-z", "1-z"),
        ("[[a]", "[", "["),
        ("[a&&b]", "&", "&"),
        ("[^a]", "\n", "\n"),
        (r"\pL+", "1éß2", "éß"),
        (r"\p{Lu}+", "aÉB", "ÉB"),
        (r"\PL", "é1", "1"),
        (r"\p{^L}", "é1", "1"),
        (r"[\pN_]+", "a½_", "½_"),
        # Repetition
        ("a{2}", "aaa", "aa"),
        ("a{2,}", "aaa", "aaa"),
        ("a{1,2}?", "aaa", "a"),
        ("a{,2}", "a{,2}", "a{,2}"),
        ("a{02}", "a{02}", "a{02}"),
        ("a{", "a{", "a{"),
        ("(a+)b", "aab", "aab"),
        # Escapes
        (r"\.\*\_\-", ".*_-", ".*_-"),
        (r"\x41\x{1F600}\101\07", "A😀A\a", "A😀A\a"),
        (r"\12", "\n", "\n"),
        (r"\a\f\t\n\r\v", "\a\f\t\n\r\v", "\a\f\t\n\r\v"),
        (r"\Qa.b*\E+", "a.b**", "a.b**"),
        (r"\Q(", "(", "("),
        (r"[\x41-\x{43}]+", "ABCD", "ABC"),
        ("é+ #", "éé #", "éé #"),
        # Groups
        ("(?P<word>a)(?<other>b)(?:c)", "abc", "abc"),
    ],
)
def test_an_expression_finds_what_go_finds(expression: str, text: str, found: str | None) -> None:
    assert expressions.find(compile_expression(expression), text) == found


@pytest.mark.parametrize(
    ("expression", "position", "problem", "advice"),
    [
        (r"(a)\1", 3, "backreference", "write the text out"),
        (r"(?P<a>x)(?P=a)", 8, "backreference", "write the text out"),
        ("a(?=b)", 1, "lookahead", "part of the expression"),
        ("(?!b)", 0, "negative lookahead", "another order"),
        ("(?<=a)b", 0, "lookbehind", "part of the expression"),
        ("(?<!a)b", 0, "negative lookbehind", "another order"),
        ("(?>a)", 0, "atomic group", "`(?:…)`"),
        ("(?(1)a|b)", 0, "conditional", "`a|b`"),
        ("(?#why)a", 0, "comment", "leave it out"),
        ("(?x)a", 0, "unknown group `(?x)`", "flags i, m, s, U"),
        ("(?i-)a", 0, "unknown group", "flags i, m, s, U"),
        ("a++", 2, "`+` after a repetition", "possessive"),
        ("a{2}{3}", 4, "`{3}` after a repetition", "stacked"),
        ("a**", 2, "`*` after a repetition", "stacked"),
        ("*a", 0, "nothing to repeat", r"`\*`"),
        ("(|+)", 2, "nothing to repeat", r"`\+`"),
        ("(?i)?", 4, "nothing to repeat", r"`\?`"),
        ("{2}", 0, "nothing to repeat", r"`\{`"),
        ("a{1001}", 1, "repeat count", "1000"),
        ("a{3,2}", 1, "repeat count", "smaller number"),
        (r"a\Z", 1, r"`\Z`", r"`\z`"),
        (r"\C", 0, r"unknown escape `\C`", "without the backslash"),
        (r"a\E", 1, r"unknown escape `\E`", "without the backslash"),
        (r"\é", 0, r"unknown escape `\é`", "without the backslash"),
        (r"\8", 0, "backreference", "write the text out"),
        ("a\\", 1, "at the end", r"`\\`"),
        (r"\x{110000}", 0, "no character", "10FFFF"),
        (r"\xg", 0, r"unknown escape `\x`", "without the backslash"),
        (r"\p{Greek}", 0, r"Unicode class `\p{Greek}`", r"`\p{Lu}`"),
        (r"\pX", 0, r"Unicode class `\pX`", r"`\p{Lu}`"),
        (r"\p", 0, r"Unicode class `\p`", r"`\p{Lu}`"),
        ("[[:letters:]]", 1, "unknown class `[:letters:]`", "alpha"),
        ("x[a", 1, "`[` without `]`", r"`\[`"),
        ("[]", 0, "`[` without `]`", r"`\[`"),
        ("[a-", 0, "`[` without `]`", r"`\[`"),
        ("[z-a]", 1, "empty range `z-a`", r"`\-`"),
        (r"[a-\d]", 3, r"unknown escape `\d`", "without the backslash"),
        ("a)", 1, "`)` without `(`", r"`\)`"),
        ("a(b(c)", 1, "`(` without `)`", r"`\(`"),
        ("(?P<1>a)", 0, "group name `1`", "letter"),
        ("(?P<a>x)(?P<a>y)", 8, "second group", "of its own"),
        ("(" * 101, 100, "nested groups", "flatter"),
    ],
)
def test_what_re2_or_python_lacks_is_refused_with_its_place(
    expression: str, position: int, problem: str, advice: str
) -> None:
    with pytest.raises(ExpressionError, match=re.escape(problem)) as refusal:
        compile_expression(expression)
    assert refusal.value.position == position
    assert refusal.value.expression == expression
    assert advice in str(refusal.value)
    assert f"character {position + 1} of `{expression}`" in str(refusal.value)


def test_only_the_beginning_of_a_text_is_searched() -> None:
    text = "a" * expressions.SEARCHED_LENGTH + "b"
    assert expressions.find(compile_expression("b"), text) is None
    assert expressions.find(compile_expression("a$"), text) == "a"
