"""Rendering of untrusted Jinja templates, and the errors of invalid ones."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.render.templates import flow_yaml, jinja
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

VARIABLES: dict[str, Any] = {
    "project_name": "digits",
    "jobs": [{"name": "ps", "num_tasks": 2}, {"name": "worker", "num_tasks": 3}],
    "properties": {"image": "tensorflow", "items": 3},
    "infinity": float("inf"),
}
TEXTS = {
    "parts/labels": "{% macro labels(name) %}app: {{ name }}{% endmacro %}",
    "broken": "\n\n{{ nothing }}",
}

RENDERED = {
    "text": ("a: 1\n", "a: 1\n"),
    "no newline at the end": ("a: 1", "a: 1"),
    "a variable": ("{{ project_name }}-model", "digits-model"),
    "set by the template": ("{% set model = 'cnn' %}{{ project_name }}-{{ model }}", "digits-cnn"),
    "a loop": ("{% for job in jobs %}{{ job.name }}:{{ job.num_tasks }} {% endfor %}", "ps:2 worker:3 "),
    "numbers": ("{% for i in range(3) %}{{ i }}{% endfor %}", "012"),
    "arithmetic": ("{{ 7 * 7 }} {{ 2 ** 10 }} {{ '-' * 3 }}", "49 1024 ---"),
    "a default": ("{{ replicas | default(2) }}", "2"),
    "a question": ("{% if replicas is defined %}yes{% else %}no{% endif %}", "no"),
    "an entry that is called as a method": ("{{ properties['items'] }}", "3"),
    "nothing is escaped": ("{{ '<&>\"' }}", '<&>"'),
    "another text": ("{% import 'parts/labels' as parts %}{{ parts.labels('x') }}", "app: x"),
    "a list that grows": ("{% set l = [] %}{% do l.append(1) %}{{ l }}", "[1]"),
    "a loop that is left": (
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "01",
    ),
    "what a loop knows of itself": (
        "{% for job in jobs if job.num_tasks %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{%endfor%}",
        "1/2,2/2",
    ),
    "a loop in itself": (
        "{% for x in [[1, []], [2, [[3, []]]]] recursive %}{{ x[0] }}{{ loop(x[1]) }}{% endfor %}",
        "123",
    ),
    "a text of several": ("{{ project_name ~ '-' ~ 1 ~ true }}", "digits-1True"),
    "output is not rendered again": ("{{ '{{ 7*7 }}' }}", "{{ 7*7 }}"),
    "a missing entry with a default": ("{{ properties['port'] or 8080 }}", "8080"),
    "a missing attribute with a default": ("{{ jobs[0].port or 8080 }}", "8080"),
    "a missing item with a default": ("{{ jobs[7] or 'none' }}", "none"),
    "an entry with a default": ("{{ properties['items'] or 8080 }}", "3"),
    "a missing entry as a condition": (
        "{% if properties['port'] %}yes{% elif not properties.port and 1 %}no{% endif %}",
        "no",
    ),
    "a missing entry that is compared": (
        "{{ properties['port'] == 1 }} {{ properties['port'] != 1 }} {{ properties.a == properties.b }}",
        "False True True",
    ),
    "a missing entry in a loop": (
        "{% for i in properties['ports'] %}{{ i }}{% else %}none{% endfor %}{{ properties.ports | length }}",
        "none0",
    ),
    "a missing entry that is searched": (
        "{{ 1 in properties['ports'] }} {{ properties['port'] in {1: 2} }}",
        "False False",
    ),
    "iterators of a mapping": (
        "{% for k, v in jobs[0].iteritems() %}{{ k }}={{ v }}{{ ' ' if not loop.last }}{% endfor %}",
        "name=ps num_tasks=2",
    ),
    "iterators of keys and values": (
        "{% for k in jobs[0].iterkeys() %}{{ k }} {% endfor %}{{ jobs[0].itervalues() | join }}",
        "name num_tasks ps2",
    ),
    "views of a mapping": (
        "{{ jobs[0].viewkeys() | join }}{{ jobs[0].viewvalues() | join }}{{ jobs[0].viewitems() | length }}",
        "namenum_tasksps22",
    ),
    "a search for a key": ("{{ jobs[0].has_key('name') }} {{ jobs[0].has_key('port') }}", "True False"),
    "keys of a mapping as a list": (
        "{{ jobs[0].keys()[0] }} {{ jobs[0].values()[1:] }} {{ jobs[0].items()[0][1] }} {{ jobs[0].keys() + ['z'] }}",
        "name [2] ps ['name', 'num_tasks', 'z']",
    ),
    "keys of a mapping as YAML": ("{{ jobs[0].keys() | yaml }}", '["name", "num_tasks"]'),
    "a range of Python 2": ("{% for i in xrange(1, 3) %}{{ i }}{% endfor %}", "12"),
    "an encoded text": (
        "{{ 'é'.encode('utf-8') }}{{ 'é'.decode('UTF8') }}{{ 'é'.encode('ascii', 'ignore') }}",
        "éé",
    ),
    "a text in Base64": ("{{ 'ab'.encode('base64') }}{{ 'YWI='.decode('base64') }}", "YWI=\nab"),
    "a text in hexadecimal": ("{{ 'ab'.encode('hex') }}{{ '6162'.decode('hex') }}", "6162ab"),
    "yaml": ("{{ jobs[0] | yaml }}", '{"name": "ps", "num_tasks": 2}'),
}


@pytest.mark.parametrize(("text", "expected"), RENDERED.values(), ids=RENDERED)
def test_template_is_rendered(text: str, expected: str) -> None:
    assert jinja.render(text, "t.jinja", VARIABLES, TEXTS) == expected


REFUSED = {
    "an unknown variable": (
        "\n{{ xyz }}",
        't.jinja:2: the variable "xyz" is not defined. Known names: ',
    ),
    "one that is misspelt": (
        "a\nb\n{{ project_nam }}",
        't.jinja:3: the variable "project_nam" is not defined. Did you ',
    ),
    "an attribute of an unknown variable": ("{{ xyz.a }}", 't.jinja:1: the variable "xyz" is not defined'),
    "one that is looped over": (
        "{% for a in xyz %}{% endfor %}",
        't.jinja:1: the variable "xyz" is not defined',
    ),
    "one that is written as YAML": ("{{ xyz | yaml }}", 't.jinja:1: the variable "xyz" is not defined'),
    "an entry": (
        "{{ properties.imag }}",
        't.jinja:1: the value has no entry "imag". Did you mean "image"',
    ),
    "an item": ("{{ jobs[7] }}", "t.jinja:1: list object has no element 7"),
    "an unknown variable with a default": ("{{ xyz or 1 }}", 't.jinja:1: the variable "xyz" is not defined'),
    "an unknown variable as a condition": ("{% if xyz %}{% endif %}", 't.jinja:1: the variable "xyz" is not'),
    "an unknown variable that is compared": (
        "{{ xyz != 1 }}",
        't.jinja:1: the variable "xyz" is not defined',
    ),
    "an unknown method with a default": ("{{ 'a'.b or 1 }}", "t.jinja:1: 'str object' has no attribute 'b'"),
    "Python's own with a default": ("{{ {}.__class__ or 1 }}", "t.jinja:1: access to attribute '__class__'"),
    "an unknown macro with a default": (
        "{% import 'parts/labels' as parts %}{{ parts.label or 1 }}",
        "t.jinja:1: ",
    ),
    "a missing entry in a sum": ("{{ properties.imag + 1 }}", 't.jinja:1: the value has no entry "imag"'),
    "a missing entry in a text": ("{{ properties.imag ~ 1 }}", 't.jinja:1: the value has no entry "imag"'),
    "an entry of a missing entry": ("{{ properties.x.y or 1 }}", 't.jinja:1: the value has no entry "x"'),
    "another encoding": (
        "{{ 'a'.encode('zlib') }}",
        "t.jinja:1: ValueError: found the encoding 'zlib', expected",
    ),
    "a method of Python 2 that is not called": ("{{ jobs[0].iteritems }}", "t.jinja:1: this is a function"),
    "Python's own, by a method of Python 2": (
        "{{ 'a'.encode.__globals__ }}",
        "t.jinja:1: access to attribute '__globals__' of 'function' object is unsafe",
    ),
    "a text that is encoded often": (
        "{% set n = namespace(x='a' * 1000000) %}{% for i in range(60) %}{% set n.x = n.x.encode('hex') %}{% endfor %}",
        "t.jinja:1: the result of the call is too large",
    ),
    "a huge range of Python 2": (
        "{{ xrange(10 ** 12) }}",
        "t.jinja:1: the ranges of the template have more than 1000000",
    ),
    "of another text": ("\n{% include 'broken' %}", 'broken:3: the variable "nothing" is not defined'),
    "no such text": (
        "\n{% include '/etc/passwd' %}",
        't.jinja:2: cannot find the template "/etc/passwd"',
    ),
    "no such import": ("{% import '../x' as x %}", 't.jinja:1: cannot find the template "../x"'),
    "no Jinja": ("a\n{% if %}", "t.jinja:2: invalid Jinja syntax: Expected an expression"),
    "an open block": ("a\n{% if jobs %}\nb", "t.jinja:2: invalid Jinja syntax: Unexpected end of template"),
    "an unknown filter": ("\n{{ 1 | nope }}", "t.jinja:2: invalid Jinja syntax: No filter named 'nope'"),
    "a method": ("{{ properties.items }}", "t.jinja:1: this is a function, not a value"),
    "Python's own": (
        "{{ ''.__class__ }}",
        "t.jinja:1: access to attribute '__class__' of 'str' object is unsafe",
    ),
    "Python's own, by a filter": (
        "{{ (''|attr('__class__')).mro() }}",
        "t.jinja:1: access to attribute '__class__'",
    ),
    "a huge range": ("{{ range(10 ** 12) }}", "t.jinja:1: the ranges of the template have more than 1000000"),
    "a range beyond all numbers": (
        "{{ range(10 ** 40) }}",
        "t.jinja:1: the ranges of the template have more than",
    ),
    "loops in loops": (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "t.jinja:1: the ranges of the template have more than 1000000 numbers. Check its loops",
    ),
    "a range up to an unknown variable": ("{{ range(xyz) }}", 't.jinja:1: the variable "xyz" is not defined'),
    "one range, in loops in loops": (
        "{% set r = range(3000) %}{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}",
        "t.jinja:1: the template has more than 1000000 loop iterations and calls. Check its loops",
    ),
    "a text that doubles": (
        "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "t.jinja:1: the result of ~ is too large",
    ),
    "a sum that doubles": (
        "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "t.jinja:1: the result of + is too large",
    ),
    "a list that doubles": (
        "{% set l = [1] %}{% for i in range(60) %}{% do l.extend(l) %}{% endfor %}",
        "t.jinja:1: the result of the call is too large",
    ),
    "a number that is squared": (
        "{% set n = namespace(x=2) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "t.jinja:1: the result of * is too large",
    ),
    "a wide text": ("{{ 'a'.ljust(10 ** 11) }}", "t.jinja:1: the result of the call is too large"),
    "a huge text": ("{{ 'a' * 10 ** 10 }}", "t.jinja:1: the result of * is too large"),
    "a huge list": ("{{ 10 ** 10 * [1] }}", "t.jinja:1: the result of * is too large"),
    "a huge number": ("{{ 10 ** 99999 }}", "t.jinja:1: the result of ** is too large"),
    "a width after %": ("{{ '%900000000d' % 1 }}", "t.jinja:1: the result of % is too large"),
    "a width as an argument": ("{{ '%*d' % (900000000, 1) }}", "t.jinja:1: the result of % is too large"),
    "many fields": ("{{ '%99999d' * 999 % 1 }}", "t.jinja:1: the result of % is too large"),
    "a long argument in many fields": (
        "{{ ('{0}' * 9999).format('a' * 9999) }}",
        "t.jinja:1: the result of format is too large",
    ),
    "a width in braces": ("{{ '{:>900000000}'.format(1) }}", "t.jinja:1: the result of format is too large"),
    "a width in nested braces": (
        "{{ '{:>{}}'.format(1, '900000000') }}",
        "t.jinja:1: the result of format is too large",
    ),
    "a width in braces of a mapping": (
        "{{ '{a:900000000}'.format_map({'a': 1}) }}",
        "t.jinja:1: the result of format is too large",
    ),
    "the filter format": ("{{ '%900000000d'|format(1) }}", "t.jinja:1: the result of format is too large"),
    "a mapped filter": (
        "{{ ['%900000000d']|map('format', 1)|list }}",
        "t.jinja:1: the result of format is too large",
    ),
    "a wide center": ("{{ 'x'|center(900000000) }}", "t.jinja:1: the result of center is too large"),
    "a wide center by name": ("{{ 'x'|center(width=900000000) }}", "t.jinja:1: the result of center is too"),
    "a deep indentation": (
        "{{ ('a\\n' * 1000)|indent(900000) }}",
        "t.jinja:1: the result of indent is too large",
    ),
    "a long replacement": (
        "{{ ('a' * 30000)|replace('a', 'b' * 30000) }}",
        "t.jinja:1: the result of replace is too large",
    ),
    "a long replacement by a method": (
        "{{ ('a' * 30000).replace('a', 'b' * 30000) }}",
        "t.jinja:1: the result of the call is too large",
    ),
    "a long translation": (
        "{{ ('a' * 30000).translate({97: 'b' * 30000}) }}",
        "t.jinja:1: the result of the call is too large",
    ),
    "a long separator": (
        "{{ range(900000)|join('b' * 1000) }}",
        "t.jinja:1: the result of join is too large",
    ),
    "many long texts": (
        "{{ (['a' * 30000] * 30000)|join }}",
        "t.jinja:1: the result of join is too large",
    ),
    "many long texts by a method": (
        "{{ ''.join(['a' * 30000] * 30000) }}",
        "t.jinja:1: the result of the call is too large",
    ),
    "a sum of lists": ("{{ ([[1]] * 9)|sum(start=[]) }}", "t.jinja:1: sum adds numbers"),
    "a long text to wrap": ("{{ ('a' * 1000000)|wordwrap(1) }}", "t.jinja:1: wordwrap requires a text of at"),
    "much output": (
        "{% for a in range(900000) %}{{ 'abcdefghijklmnopqrstuvwxyz' }}{% endfor %}",
        "t.jinja:1: the output of the template exceeds 16777216 characters. Check its loops",
    ),
    "a macro without end": (
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "t.jinja:1: the template calls or",
    ),
    "itself": ("{% include 't.jinja' %}", "t.jinja:1: the template calls or includes itself endlessly"),
    "arithmetic": ("\n\n{{ 1 / 0 }}", "t.jinja:3: ZeroDivisionError: division by zero"),
    "words and numbers": ("{{ 'a' + 1 }}", "t.jinja:1: TypeError: "),
    "no value": ("{{ range | yaml }}", "t.jinja:1: a value of the type method cannot be written as YAML"),
    "no number of JSON": ("{{ infinity | yaml }}", "t.jinja:1: the number inf cannot be written"),
}


@pytest.mark.parametrize(("text", "begins"), REFUSED.values(), ids=REFUSED)
def test_invalid_template_is_reported_in_one_line(text: str, begins: str) -> None:
    with pytest.raises(jinja.TemplateError) as caught:
        jinja.render(text, "t.jinja", VARIABLES, TEXTS)
    message = str(caught.value)
    assert message.startswith(begins)
    assert "\n" not in message
    assert message == f"{caught.value.file}:{caught.value.line}: {caught.value.problem}"


ENDLESS = {
    "many lists of keys": (
        "{% set d = {'a': 1, 'b': 2, 'c': 3} %}{% for i in range(2000) %}{% set k = d.iterkeys() %}{% endfor %}",
        "t.jinja:1: the template has more than 5000 loop iterations and calls. Check its loops",
    ),
    "a list that grows as it is read": (
        "{% set l = [1] %}{% for x in l %}{% do l.append(1) %}{% endfor %}",
        "t.jinja:1: the template has more than 5000 loop iterations and calls. Check its loops",
    ),
    "calls that become more and more": (
        "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(20) }}",
        "t.jinja:1: the template has more than 5000 loop iterations and calls. Check its loops",
    ),
}


@pytest.mark.parametrize(("text", "begins"), ENDLESS.values(), ids=ENDLESS)
def test_endless_loops_and_calls_are_rejected(
    text: str, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is reduced, because reaching a million takes seconds."""
    monkeypatch.setattr(jinja, "MAX_STEPS", 5000)
    test_invalid_template_is_reported_in_one_line(text, begins)


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        ("'%05d of %s' % (7, 'id 123456789')", "00007 of id 123456789"),
        ("'%s' % 123456789", "123456789"),
        ("'%(a)s' % {'a': 1}", "1"),
        ("7 % 4", "3"),
        ("'{:>4}{{}}{a}'.format('x', a=123456789)", "   x{}123456789"),
        ("'{a}'.format_map({'a': 1})", "1"),
        ("'%s-%d'|format('a', 1)", "a-1"),
        ("'x'|center(5)", "  x  "),
        ("'a\nb'|indent(2, first=true)", "  a\n  b"),
        ("'aXbX'|replace('X', '-', 1)", "a-bX"),
        ("[{'n': 1}, {'n': 2}]|join(', ', attribute='n')", "1, 2"),
        ("', '.join(['a', 'b']|map('upper'))", "A, B"),
        ("[{'n': 1}, {'n': 2}]|sum(attribute='n')", "3"),
        ("'a b'|wordwrap(1)", "a\nb"),
        ("[1, 2, 3]|batch(2, 0)|list", "[[1, 2], [3, 0]]"),
    ],
)
def test_limited_functions_return_small_results(expression: str, output: str) -> None:
    assert jinja.render(f"{{{{ {expression} }}}}", "t", {}) == output


def test_trimmed_blocks_leave_no_blank_lines() -> None:
    text = (
        "a: |\n  {% for i in xrange(2) %}\n    {% if i %}\n  {{ i }}\n    {% endif %}\n  {% endfor %}\nb: 1\n"
    )
    assert jinja.render(text, "t", {}, trim_blocks=True) == "a: |\n  1\nb: 1\n"
    assert jinja.render(text, "t", {}) != jinja.render(text, "t", {}, trim_blocks=True)


def test_template_cannot_change_its_variables() -> None:
    jobs = [{"name": "ps"}]
    assert jinja.render("{% do jobs.append(1) %}{{ jobs | length }}", "t", {"jobs": jobs}) == "2"
    assert jobs == [{"name": "ps"}]


def test_renderings_are_independent() -> None:
    text = "{% for a in range(600000) %}{% endfor %}"
    assert jinja.render(text, "t", {}) == jinja.render(text, "t", {}) == ""


# A value as YAML

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_any_value_is_read_back_unchanged(value: Any) -> None:
    _assert_same(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "yes",
            "null",
            "1e3",
            "0x1",
            "2026-01-01",
            "~",
            "",
            " a ",
            "- a",
            "{{ 7*7 }}",
            "a: b # c",
            '"',
            "'",
            "\\",
            "=",
            "<<",
        ),
        *("\n", "\r\n", "\t", "\0", "\x7f", "\x85", "\u2028", "\ufeff", "\uffff", "é", "😀", "a" * 5000),
        *({"a" * 5000: 1}, {"<<": {"a": 1}}, {"": ""}, 1e22, 1e-7, -0.0, 5e-324, [[], {}], True, 0),
    ],
    ids=ascii,
)
def test_special_values_are_read_back_unchanged(value: Any) -> None:
    _assert_same(value)


def _assert_same(value: Any) -> None:
    line = jinja.render("{{ value | yaml }}", "t", {"value": value})
    assert "\n" not in line
    for written, wanted in (
        (f"{line}\n", value),
        (f"a:\n- key: {line}\n  other: 1\n", [{"key": value, "other": 1}]),
    ):
        by_yaml = yaml.safe_load(written)
        (document,) = yaml_parse.parse(written.encode()).documents
        assert document.diagnostics == ()
        ours = tree.plain(document.root)
        if isinstance(wanted, list) and "other" in str(written):
            by_yaml, ours = by_yaml["a"], ours["a"]
        assert repr(by_yaml) == repr(wanted)
        assert ours == wanted


def test_lone_surrogate_is_rejected() -> None:
    with pytest.raises(flow_yaml.NotYamlError, match="surrogate"):
        flow_yaml.dump("\ud800")


def test_key_must_be_a_string() -> None:
    with pytest.raises(flow_yaml.NotYamlError, match="not a string"):
        flow_yaml.dump({1: 2})
