"""Written YAML is read back unchanged by YAML 1.1, YAML 1.2 and Kubernetes parsers."""

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


class CoreSchemaLoader(yaml.SafeLoader):
    """A loader of YAML 1.2 with its core schema, which has fewer keywords than 1.1 and other numbers."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


for _tag, _pattern, _first in (
    ("null", "~|null|Null|NULL|", "~nN\0"),
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    CoreSchemaLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        ["" if first == "\0" else first for first in _first],
    )


def read(data: bytes) -> dict[str, Any]:
    """Return the value that each parser reads."""
    (document,) = yaml_parse.parse(data).documents
    assert document.diagnostics == ()
    return {
        "1.1": yaml.safe_load(data),
        "libyaml": yaml.load(data, Loader=yaml.CSafeLoader),
        "1.2": yaml.load(data, Loader=CoreSchemaLoader),  # noqa: S506 — a safe one
        "Kubernetes": tree.plain(document.root),
    }


def assert_round_trip(value: Any) -> None:
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
def test_string_stays_a_string(text: str) -> None:
    assert_round_trip({"value": text})
    assert_round_trip([text])
    assert_round_trip({text: [{"key": text}]})


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
def test_any_value_survives_a_round_trip(value: Any) -> None:
    assert_round_trip({"value": value})


@pytest.mark.parametrize("number", [0.5, -2.25, 1e-7])
def test_number_survives_a_round_trip(number: float) -> None:
    for found in read(yaml_dump.dump({"value": number})).values():
        assert math.isclose(found["value"], number)


def test_script_is_written_as_a_block() -> None:
    assert yaml_dump.dump({"run.sh": "#!/bin/sh\n  echo 'a'\n"}) == b"run.sh: |\n  #!/bin/sh\n    echo 'a'\n"
