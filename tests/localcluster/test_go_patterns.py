"""Go's regular expressions in Python's: the same strings match, and what Go refuses is refused."""

import pytest

from windlass.localcluster.schemas import go_patterns


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^[a-z]+$", ["abc"], ["", "abc\n", "ABC"]),
        ("b", ["abc"], ["xyz"]),
        (r"\Aab\z", ["ab"], ["ab\n"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        ("(?m:^b$)|x", ["a\nb\nc", "x"], ["ab"]),
        (r"^\d+\w$", ["12a"], ["١٢a", "12é"]),
        (r"^\s$", [" ", "\t"], ["\v", "\u00a0"]),
        (r"^[\s.]$", [" ", "."], ["\v"]),
        (r"^\S$", ["\v", "a"], [" "]),
        ("^[[:alpha:][:digit:]_]+$", ["a1_"], ["-"]),
        ("^a(?i)b|c$", ["aB", "aBx", "C"], ["Ab", "cd"]),
        ("^(x(?i)y|z)w$", ["xYw", "Zw"], ["XYw", "xyW"]),
        ("^(?i:a)b$", ["Ab"], ["AB"]),
        ("^(?P<name>a)(?<other>b)$", ["ab"], ["ba"]),
        (r"^\Qa.b*\E$", ["a.b*"], ["axb*"]),
        (r"^\x{1F600}\x41\101\0$", ["\U0001f600AA\0"], ["A"]),
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        ("^a{,2}$", ["a{,2}"], ["a", "aa"]),
        ("^{x}$", ["{x}"], ["x"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[^]a]$", ["b"], ["]", "a"]),
        ("^[[&|~]+$", ["[&|~"], ["a"]),
        ("^a*?b+?$", ["b", "aabb"], ["a"]),
        (r"^\.\-\_\/$", [".-_/"], ["a-_/"]),
        ("^.$", ["é"], ["\n"]),
        ("(?s)^.$", ["\n"], [""]),
    ],
)
def test_matching(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = go_patterns.compile_pattern(pattern)
    assert [text for text in [*matching, *others] if compiled.search(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a(?!b)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)b", "invalid or unsupported Perl syntax: `(?<`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        (r"(a)\1", "invalid escape sequence: `\\1`"),
        (r"\h", "invalid escape sequence: `\\h`"),
        (r"\pL", "invalid escape sequence: `\\p`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("[a", "missing closing ]: `[a`"),
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1,1001}", "invalid repeat count: `{1,1001}`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(?:+a)", "missing argument to repetition operator: `+`"),
        ("(?U)a+", "the ungreedy flag is not supported: `(?U)`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("[z-a]", "bad character range z-a at position 1: `[z-a]`"),
    ],
)
def test_refusing(pattern: str, problem: str) -> None:
    with pytest.raises(go_patterns.PatternError) as refused:
        go_patterns.compile_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {problem}"
