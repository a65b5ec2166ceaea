"""Any bytes are parsed to documents with positions, or to one diagnostic."""

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import text, tree

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
LOADERS = [pytest.param(yaml.SafeLoader, id="pure")]
if yaml.__with_libyaml__:
    LOADERS.append(pytest.param(yaml.CSafeLoader, id="libyaml"))


@pytest.fixture(params=LOADERS)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(yaml_parse, "_Loader", request.param)
    return request.param


def plain(data: str) -> list[Any]:
    parsed = yaml_parse.parse(data.encode())
    assert parsed.failure is None
    assert all(not document.diagnostics for document in parsed.documents)
    return [tree.plain(document.root) for document in parsed.documents]


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("data", "documents"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("# a comment\n", [], id="comment"),
        pytest.param("---\n", [None], id="empty document"),
        pytest.param("a: [1, {b: no}]\n", [{"a": [1, {"b": False}]}], id="types"),
        pytest.param(
            "a: '1'\nb: \"no\"\nc: !!str 2\nd: |\n  3\n",
            [{"a": "1", "b": "no", "c": "2", "d": "3\n"}],
            id="strings",
        ),
        pytest.param("a: !!int 3\nb: !!float 2\nc: !!null ~\n", [{"a": 3, "b": 2, "c": None}], id="tags"),
        pytest.param("1: a\non: b\n1.5: c\n", [{"1": "a", "true": "b", "1.5": "c"}], id="keys"),
        pytest.param("- 1\n---\n- 2\n...\n---\n3\n", [[1], [2], 3], id="documents"),
        pytest.param(
            "x: &a {b: 1}\nz: [*a, *a]\n", [{"x": {"b": 1}, "z": [{"b": 1}, {"b": 1}]}], id="aliases"
        ),
        pytest.param(
            "x: &a {b: 1, c: 2}\nw: &d {c: 4, e: 5}\nz: {c: 3, <<: [*a, *d]}\n",
            [{"x": {"b": 1, "c": 2}, "w": {"c": 4, "e": 5}, "z": {"b": 1, "c": 3, "e": 5}}],
            id="merge",
        ),
        pytest.param(
            '{\n\t"a":\t"\\ud83d\\ude00\\\\ud83d",\n\t"b":\t[1e3]\n}\n',
            [{"a": "😀\\ud83d", "b": [1000]}],
            id="json",
        ),
        pytest.param("{a: 'x\ty', b: \"x\ty\"}", [{"a": "x\ty", "b": "x\ty"}], id="tabs in strings"),
        pytest.param("\ufeffa: 1\n", [{"a": 1}], id="byte order mark"),
    ],
)
def test_documents_are_parsed(data: str, documents: list[Any]) -> None:
    assert plain(data) == documents


def test_nodes_have_positions() -> None:
    root = yaml_parse.parse("spec:\n  roles:\n  - name: ps\n    né: [1, 2]\n".encode()).documents[0].root

    role = tree.items_of(tree.dig(root, "spec", "roles"))[0]
    assert isinstance(role, tree.Mapping)
    name, numbers = role.get("name"), tree.items_of(role.get("né"))
    assert name is not None
    assert (role.line, role.column) == (3, 5)
    assert (name.line, name.column) == (3, 11)
    assert role.keys["né"] == text.Position(4, 5)
    assert [(number.line, number.column) for number in numbers] == [(4, 10), (4, 13)]


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        pytest.param("a: [1\nb: 2\n", 2, 2, "invalid YAML", id="not YAML"),
        pytest.param("a: 'x\n", 1, None, "invalid YAML", id="open quote"),
        pytest.param("a:\n\tb: 1\n", 2, 1, "tab in the indentation", id="tab"),
        pytest.param("a:\n  b: 1\n  \tc: 2\n", 3, 3, "tab in the indentation", id="tab after spaces"),
        pytest.param(b"a: 1\nb: \xff\n", 2, 4, "byte 0xff", id="not UTF-8"),
        pytest.param("a: 1\n".encode("utf-16"), 1, 1, "UTF-16", id="UTF-16"),
        pytest.param("a: 1\nb: \x07\n", 2, 4, "U+0007", id="control character"),
        pytest.param("a: &a [1, *a]\n", 1, 11, "inside the value", id="alias to itself"),
        pytest.param("a: *b\n", 1, 4, "refers to an unknown anchor", id="alias to nothing"),
        pytest.param(LAUGHS, 7, 8, "more than 1000000 values", id="billion laughs"),
        pytest.param(
            "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60,
            2,
            64,
            "deeper",
            id="deep alias",
        ),
        pytest.param("[" * 10_000_000, 1, 101, "deeper than 100 levels", id="10 MB of lists"),
        pytest.param("{a: " * 2_500_000, 1, 401, "deeper than 100 levels", id="10 MB of mappings"),
        pytest.param("- " * 5_000_000, 1, 201, "deeper than 100 levels", id="10 MB of block lists"),
        pytest.param(b"a" * (16 * 1024 * 1024 + 1), 1, 1, "larger than 16 MiB", id="too large"),
    ],
)
def test_unreadable_file_is_one_diagnostic(
    data: str | bytes, line: int, column: int | None, words: str
) -> None:
    failure = yaml_parse.parse(data if isinstance(data, bytes) else data.encode()).failure

    assert failure is not None
    assert (failure.line, column and failure.column) == (line, column)
    assert words in failure.message


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("data", "line", "column", "path", "words"),
    [
        pytest.param("a:\n  b: .nan\n", 2, 6, "a.b", "JSON cannot represent", id="NaN"),
        pytest.param("a: [1, -.inf]\n", 1, 8, "a[1]", "JSON cannot represent", id="infinity"),
        pytest.param("a:\n  b: 1\n  c: 2\n  b: 3\n", 4, 3, "a", "line 2", id="duplicate key"),
        pytest.param("true: 1\nyes: 2\n", 2, 1, "", '"true"', id="duplicate once resolved"),
        pytest.param("a: !!int x\n", 1, 4, "a", "!!int", id="tag that does not fit"),
        pytest.param("a: !secret x\n", 1, 4, "a", "!secret", id="unknown tag"),
        pytest.param("a: !!set {b, c}\n", 1, 4, "a", "!!set", id="tagged mapping"),
        pytest.param("? [1]\n: 2\n", 1, 3, "", "key must be a string", id="list as key"),
        pytest.param("~: 2\n", 1, 1, "", "key must be a string", id="null as key"),
        pytest.param("a: {<<: 1}\n", 1, 5, "a", "merge key", id="merge of a number"),
    ],
)
def test_invalid_value_is_reported_at_its_position(
    data: str, line: int, column: int, path: str, words: str
) -> None:
    parsed = yaml_parse.parse(data.encode())

    (diagnostic,) = parsed.documents[0].diagnostics
    assert parsed.failure is None
    assert (diagnostic.line, diagnostic.column) == (line, column)
    assert diagnostic.path.startswith(path)
    assert words in diagnostic.message


@pytest.mark.usefixtures("loader")
def test_lone_surrogate_is_reported() -> None:
    """One parser rejects the escape, the other one does not."""
    parsed = yaml_parse.parse(b'a: "\\ud83d"\n')

    found = [parsed.failure] if parsed.failure is not None else [*parsed.documents[0].diagnostics]
    assert [diagnostic.line for diagnostic in found] == [1]


@pytest.mark.parametrize(
    "data",
    ["[" + "1," * 60 + "]", "[" + "[]," * 60 + "]", "a: {}\n---\n" * 60, "- &a {b: 1}\n" + "- *a\n" * 60],
)
def test_number_of_values_is_limited(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_parse, "MAX_VALUES", 50)

    failure = yaml_parse.parse(data.encode()).failure

    assert failure is not None
    assert "more than 50 values" in failure.message


@pytest.mark.parametrize(("line_break", "line"), [("\n", 101), ("\r\n", 101), ("\r", 1), ("\u2028", 1)])
def test_number_of_tag_directives_is_limited(line_break: str, line: int) -> None:
    """The C parser compares each directive with all others before it returns the first event."""
    data = "".join(f"%TAG !a{number}! tag:example.com,{number}:{line_break}" for number in range(101))

    failure = yaml_parse.parse(f"{data}--- a\n".encode()).failure

    assert failure is not None
    assert (failure.line, failure.message) == (line, "more than 100 %TAG directives: remove them")


def test_documents_before_the_failure_are_kept() -> None:
    parsed = yaml_parse.parse(b"a: 1\n---\nb: [\n")

    assert [tree.plain(document.root) for document in parsed.documents] == [{"a": 1}]
    assert parsed.failure is not None


PIECES = [
    *(
        "a",
        "b: ",
        "- ",
        "\n",
        "\n  ",
        "\t",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!x ",
        "| ",
        "> ",
    ),
    *(
        "'",
        '"',
        "\\",
        "#",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "? ",
        ": ",
        ".nan",
        "1e9",
        "0x",
        "~",
        "é",
        "\u2028",
    ),
    *("\\ud83d", "\\x0", "\ufeff", "\x85", "\r", "@"),
]
YAMLISH = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(deadline=None, max_examples=400)
@given(
    st.one_of(
        st.binary(max_size=200), YAMLISH.map(str.encode), st.text(max_size=100).map(lambda t: t.encode())
    )
)
@pytest.mark.parametrize("loader_class", LOADERS)
def test_any_bytes_are_parsed_without_exception(loader_class: Any, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_parse, "_Loader", loader_class)
        parsed = yaml_parse.parse(data)

    for document in parsed.documents:
        assert document.diagnostics or msgspec.json.encode(tree.plain(document.root))
    if parsed.failure is not None:
        assert parsed.failure.line >= 1
        assert parsed.failure.column >= 1
        assert "\n" not in str(parsed.failure)


@pytest.mark.parametrize("start", ["", "a: 1\n---\n"])
def test_long_tag_directive_is_rejected(start: str) -> None:
    """libyaml copies the prefix to every node whose tag has it."""
    data = f"{start}%TAG !a! tag:{'x' * 250}\n---\n" + "- !a!b c\n" * 10

    failure = yaml_parse.parse(data.encode()).failure

    assert failure is not None
    assert (failure.line, failure.message) == (
        start.count("\n") + 1,
        "a %TAG directive has more than 256 characters: shorten it",
    )


def test_merged_keys_precede_own_keys_and_the_first_source_takes_precedence() -> None:
    data = b"a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {r: 3, <<: [*a, *b], s: 3}\n"

    merged = tree.plain(yaml_parse.parse(data).documents[0].root)["c"]

    assert list(merged.items()) == [("q", 1), ("r", 3), ("p", 1), ("s", 3)]
