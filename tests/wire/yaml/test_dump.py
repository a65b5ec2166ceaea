"""What is written as YAML is read back as it was, by readers of YAML 1.1, of YAML 1.2, and by that of Kubernetes."""

import math
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.wire.yaml import dump as yaml_dump
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree


class Core(yaml.SafeLoader):
    """YAML 1.2 with its core schema: fewer words than in 1.1, and other numbers."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


for _tag, _pattern, _first in (
    ("null", "~|null|Null|NULL|", "~nN\0"),
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    Core.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        ["" if first == "\0" else first for first in _first],
    )


def read(data: bytes) -> dict[str, Any]:
    """By the name of the reader."""
    (document,) = yaml_parse.parse(data).documents
    assert document.diagnostics == ()
    return {
        "1.1": yaml.safe_load(data),
        "libyaml": yaml.load(data, Loader=yaml.CSafeLoader),
        "1.2": yaml.load(data, Loader=Core),  # noqa: S506 — a safe one
        "Kubernetes": tree.plain(document.root),
    }


def assert_comes_back(value: Any) -> None:
    data = yaml_dump.dump(value)
    for reader, found in read(data).items():
        assert found == value, f"{reader}: {data!r}"


# fmt: off
AMBIGUOUS = [
    "yes", "no", "on", "off", "y", "n", "Y", "N", "true", "False", "null", "Null", "~", ".", "..", ".5",
    "1.", "1e3", "1E+3", "0x1", "0o17", "017", "0b1", "08", "09", "-1", "+1", "1_000", "22:30", "1:2:3",
    "2026-01-01", "2026-01-01T00:00:00Z", ".inf", "-.INF", ".nan", "NaN", "=", "<<", "-", "--", "---",
    "...", "?", ":", "!", "&", "*", "@", "`", "%", "|", ">", "[", "]", "{", "}", ",", "#", "#x", "a#b",
    "1,2", "0", "00", "0.", "1e400", "9999999999999999999999", "0xg", "é", "日本", "🚀", "a:b", "a:", ":a",
    "-a", "?a", "!a", "&a", "*a", "{{7*7}}", "[a]", "'a'",
]
# fmt: on
ODD = [
    "",
    " ",
    " a",
    "a ",
    "a: b",
    "a #b",
    'pass"word',
    "it's",
    "{{ 7*7 }}",
    "{% raw %}",
    "a\nb",
    "a\nb\n",
    "a\n\n b\n",
    "\na\n",
    "a\n\n",
    "\ta\nb\n",
    "a\tb",
    "a \nb\n",
    "#!/bin/sh\nexit\n",
    "- a\n- b\n",
    "---\na\n",
    "a\r\nb\n",
    "\x85",
    "\u2028",
    "\ufeff",
    "\x1b[0m",
    "\x7f",
    "\\",
    "\\n",
    "x" * 70000 + " y",
]


@pytest.mark.parametrize("text", [*AMBIGUOUS, *ODD], ids=lambda text: repr(text[:20]))
def test_a_text_stays_a_text(text: str) -> None:
    assert_comes_back({"value": text})
    assert_comes_back([text])
    assert_comes_back({text: [{"key": text}]})


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.from_regex(
    r"[-+0-9.eExobn_:~ #\n\t\"'{}]{0,12}", fullmatch=True
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.none() | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=400)
@given(VALUES)
def test_anything_comes_back(value: Any) -> None:
    assert_comes_back({"value": value})


@pytest.mark.parametrize("number", [0.5, -2.25, 1e-7])
def test_numbers(number: float) -> None:
    for found in read(yaml_dump.dump({"value": number})).values():
        assert math.isclose(found["value"], number)


def test_a_script_can_be_read_by_people() -> None:
    assert yaml_dump.dump({"run.sh": "#!/bin/sh\n  echo 'a'\n"}) == b"run.sh: |\n  #!/bin/sh\n    echo 'a'\n"
