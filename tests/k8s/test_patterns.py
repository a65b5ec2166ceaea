"""Expressions in RE2 syntax (statement 51): each row has the result of Go's regexp."""

import pytest

from windlass.k8s import patterns


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
        (r"\p{Greek}+", "aλβ", "λβ"),
        ("λ.", "aéλß", "λß"),
        ("^[^a]$", "\ud800", "\ufffd\ufffd\ufffd"),
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
        ("(?P<1>a)", "a", "a"),
    ],
)
def test_expression_finds_what_go_finds(expression: str, text: str, found: str | None) -> None:
    assert patterns.compile_search(expression)(text) == found


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"(?P<a>x)(?P=a)", "invalid perl operator: (?P"),
        ("a(?=b)", "invalid perl operator: (?="),
        ("(?!b)", "invalid perl operator: (?!"),
        ("(?<=a)b", "invalid perl operator: (?<="),
        ("(?<!a)b", "invalid perl operator: (?<!"),
        ("(?>a)", "invalid perl operator: (?>"),
        ("(?(1)a|b)", "invalid perl operator: (?("),
        ("(?#why)a", "invalid perl operator: (?#"),
        ("(?x)a", "invalid perl operator: (?x"),
        ("(?i-)a", "invalid perl operator: (?i-)"),
        ("a++", "bad repetition operator: ++"),
        ("a{2}{3}", "bad repetition operator: {2}{3}"),
        ("a**", "bad repetition operator: **"),
        ("*a", "no argument for repetition operator: *"),
        ("(|+)", "no argument for repetition operator: +"),
        ("(?i)?", "no argument for repetition operator: ?"),
        ("{2}", "no argument for repetition operator: {2}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        (r"a\Z", r"invalid escape sequence: \Z"),
        (r"a\E", r"invalid escape sequence: \E"),
        (r"\é", r"invalid escape sequence: \é"),
        (r"\8", r"invalid escape sequence: \8"),
        ("a\\", "trailing \\"),
        (r"\x{110000}", r"invalid escape sequence: \x{110000"),
        (r"\xg", r"invalid escape sequence: \xg"),
        (r"\pX", r"invalid character class range: \pX"),
        (r"\p", r"invalid character class range: \p"),
        ("[[:letters:]]", "invalid character class range: [:letters:]"),
        ("x[a", "missing ]: [a"),
        ("[]", "missing ]: []"),
        ("[a-", "missing ]: [a-"),
        ("[z-a]", "invalid character class range: z-a"),
        (r"[a-\d]", r"invalid escape sequence: \d"),
        ("a)", "unexpected ): a)"),
        ("a(b(c)", "missing ): a(b(c)"),
    ],
)
def test_invalid_expression_is_rejected_with_the_reason_of_re2(expression: str, reason: str) -> None:
    with pytest.raises(patterns.PatternError) as error:
        patterns.compile_search(expression)
    assert error.value.reason == reason
    assert str(error.value) == f"invalid regular expression `{expression}`: {reason}"


def test_nested_repetition_is_matched_in_linear_time() -> None:
    """A backtracking engine would not finish."""
    search = patterns.compile_search("(a+)+$")
    assert search("a" * 100_000 + "b") is None
    assert search("a" * 100_000) == "a" * 100_000


def test_rejected_expression_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(patterns.PatternError):
        patterns.compile_search("(")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("error", [b"an ERROR", b"errors"], [b"", b"err or"]),
        ("^step$", [b"step", b"STEP"], [b"a step", b"steps"]),
        (r"\Astep\z", [b"step"], [b"a step", b"step 1"]),
        ("(?-m)^step$", [b"step"], [b"a step"]),
        ("^$", [b""], [b" "]),
        ("a.b", [b"axb"], [b"a", b"b"]),
        ("é", ["É".encode(), b"\xff\xc3\xa9"], [b"\xff"]),
    ],
)
def test_lines_match_alone_and_together(expression: str, matching: list[bytes], others: list[bytes]) -> None:
    test = patterns.LineTest(expression)
    assert all(map(test.matches, matching))
    assert not any(map(test.matches, others))
    for line in matching:
        assert test.may_match(b"\n".join([b"x", *others, line, b"x"]))


def test_line_test_without_regex_finds_the_text() -> None:
    test = patterns.LineTest("a.b(", is_regex=False)
    assert test.matches(b"xA.B(x")
    assert not test.matches(b"axb(")
