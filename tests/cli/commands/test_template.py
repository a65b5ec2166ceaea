"""`windlass template`: variables, output, and messages about invalid templates."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.main import main

OBJECT = """\
# A comment of the template's own.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ project_name }}
data:
  value: {{ value | yaml }}
"""
COUNTED = OBJECT.replace("{{ value | yaml }}", '"{{ ps_replicas }} {{ worker_replicas }}"')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def template(*words: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["template", *words], input=text)
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def value(result: Result) -> object:
    assert result.exit_code == 0, result.output
    return yaml.safe_load(result.stdout)["data"]["value"]


GIVEN: dict[str, tuple[str, tuple[str, ...], object]] = {
    "text": (OBJECT, ("--set", "value=some"), "some"),
    "text that looks like a number": (OBJECT, ("--set", "value=3"), "3"),
    "text that looks like a YAML keyword": (OBJECT, ("--set", "value=yes"), "yes"),
    "text with an equals sign": (OBJECT, ("--set", "value=a=b"), "a=b"),
    "no text": (OBJECT, ("--set", "value="), ""),
    "text that could be YAML": (OBJECT, ("--set", 'value="a": #b\n- {{ 7*7 }}'), '"a": #b\n- {{ 7*7 }}'),
    "the last value is used": (OBJECT, ("--set", "value=a", "--set", "value=b"), "b"),
    "JSON": (OBJECT.replace("value |", "value.a[1] |"), ("--set-json", 'value={"a": [1, "2"]}'), "2"),
    "assigned in the template": (
        f'{{% set value = "mine" %}}\n{OBJECT}',
        ("--set", "value=yours"),
        "mine",
    ),
    "default in the template is overridden": (
        f'{{% set value = value | default("mine") %}}\n{OBJECT}',
        ("--set", "value=yours"),
        "yours",
    ),
    "default in the template is used": (
        f'{{% set value = value | default("mine") %}}\n{OBJECT}',
        (),
        "mine",
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_template_variables(case: str) -> None:
    text, words, expected = GIVEN[case]
    assert value(template("single", "-", "web", *words, text=text)) == expected


def test_text_of_the_template_is_unchanged(here: Path) -> None:
    (here / "t.jinja").write_text(OBJECT)
    result = template("single", "t.jinja", "web", "--set", "value=3")
    expected = OBJECT.replace("{{ project_name }}", "web").replace("{{ value | yaml }}", '"3"')
    assert (result.stdout, result.stderr) == (expected, "")


def test_cluster_mode_sets_replicas() -> None:
    assert value(template("cluster", "-", "web", "0", "12", text=COUNTED)) == "0 12"


def test_windows_line_ends_are_converted() -> None:
    assert value(template("single", "-", "web", "--set", "value=3", text=OBJECT.replace("\n", "\r\n"))) == "3"


def test_unused_variable_is_a_warning() -> None:
    words = ("--set", "valeu=x", "--set", "value=3")
    result = template("single", "-", "web", *words, text=OBJECT)
    assert "the variable valeu has no effect" in result.stderr
    assert value(result) == "3"


def test_out_writes_a_file(here: Path) -> None:
    (here / "old.yaml").write_text("before")
    words = ("--set", "value=3", "--out", "old.yaml")
    result = template("single", "-", "web", *words, text=OBJECT)
    assert (result.exit_code, result.stdout) == (0, "")
    assert yaml.safe_load((here / "old.yaml").read_text())["metadata"]["name"] == "web"


def test_out_does_not_overwrite_the_template(here: Path) -> None:
    (here / "t.jinja").write_text(OBJECT)
    (here / "link").symlink_to("t.jinja")
    for out in ("t.jinja", "./t.jinja", "link"):
        result = template("single", "t.jinja", "web", "--set", "value=x", "--out", out)
        assert (result.exit_code, (here / "t.jinja").read_text()) == (2, OBJECT)
        assert "--out is the input file t.jinja" in result.stderr


def test_templates_in_the_same_directory_can_be_included(here: Path) -> None:
    folder = here / "templates"
    folder.mkdir()
    (folder / "t.jinja").write_text('{% include "a.jinja" %}')
    (folder / "a.jinja").write_text('{% import "b.jinja" as b %}' + OBJECT.replace("value |", "b.value() |"))
    (folder / "b.jinja").write_text("{% macro value() %}from b{% endmacro %}")
    assert value(template("single", "templates/t.jinja", "web")) == "from b"


def test_templates_outside_the_directory_cannot_be_included(here: Path) -> None:
    (here / "secret").write_text(OBJECT)
    (here / "folder").mkdir()
    (here / "folder" / "link").symlink_to("../secret")
    for name in ("../secret", str(here / "secret"), "link"):
        (here / "folder" / "t.jinja").write_text(f'{{% include "{name}" %}}')
        result = template("single", "folder/t.jinja", "web", "--set", "value=x")
        assert result.exit_code == 2
        assert result.stderr.startswith("windlass: folder/t.jinja:1: ")


LONG = "x" * 50
STATEFUL = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ project_name }}-ps}
spec:
  serviceName: x
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}
"""
INDEXED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: {{ project_name }}-0123456789}
spec:
  completionMode: Indexed
  completions: 101
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}
"""
FAULTY: dict[str, tuple[str, tuple[str, ...]]] = {
    "an undefined variable": (
        "# first\n{{ model }}",
        ("t.jinja:2: ", 'the variable "model" is not defined', "--set model=VALUE", "{% set model = "),
    ),
    "a variable of mode cluster": (
        COUNTED,
        ("t.jinja:7: ", '"ps_replicas"', "It is set in mode cluster."),
    ),
    "two objects of one name": (
        (OBJECT + "---\n" + OBJECT).replace("value | yaml", "'1' | yaml"),
        ("t.jinja:13: error: metadata.name: ", "the name of another ConfigMap"),
    ),
    "invalid Jinja": ("a\n{% if %}", ("t.jinja:2: ", "invalid Jinja syntax")),
    "a missing endfor": ("a\n{% if 1 %}", ("t.jinja:2: ", "invalid Jinja syntax")),
    "no such filter": ("{{ 1 | yml }}", ("t.jinja:1: ", "yml")),
    "an expression that fails": ("\n\n{{ 1 / 0 }}", ("t.jinja:3: ", "ZeroDivisionError")),
    "an endless loop": ("{% for i in range(10 ** 9) %}x{% endfor %}", ("t.jinja:1: ",)),
    "nothing": ("", ("expected at least one object",)),
    "only comments": ("{# a #}\n# b\n---\n", ("expected at least one object",)),
    "no YAML": ("{% set a = 1 %}\na: b: c\n", ("t.jinja:2: ", "invalid YAML")),
    "no object": ("- a\n", ("t.jinja:1: ", "expected an object")),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}\n", ('missing required field "kind"',)),
    "no version": ("kind: Job\nmetadata: {name: a}\n", ('missing required field "apiVersion"',)),
    "a version that is a number": ("apiVersion: 1\nkind: Job\n", ("apiVersion: found the number 1",)),
    "no name": ("apiVersion: v1\nkind: Secret\nmetadata: {}\n", ('missing required field "name"',)),
    "an invalid name": (
        "{% set name = 'A_b' %}\napiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\n",
        ('t.jinja:5: error: metadata.name: found the string "A_b"', "the name of a Secret"),
    ),
    "a name that is a number": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: 1}\n",
        ("metadata.name: found the number 1",),
    ),
    "a Service that begins with a digit": (
        "apiVersion: v1\nkind: Service\nmetadata: {name: 1a}\n",
        ("a letter at the beginning",),
    ),
    "an invalid namespace": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: a.b}\n",
        ("metadata.namespace: ", "the name of a namespace"),
    ),
    "a label that is too long": (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a, labels: {{b: {LONG}{LONG}}}}}\n",
        ("metadata.labels.b: ", "at most 63"),
    ),
    "a StatefulSet whose pods could not be named": (STATEFUL, ("t.jinja:3: ", "found 53", "at most 52")),
    "a Job whose hosts could not be named": (INDEXED, ("t.jinja:3: ", "found 61", "at most 59")),
    "the wrong type, in a loop": (
        "{% for i in [1, 2] %}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: []\n{% endfor %}",
        ("t.jinja:6: error: data: found a list, expected a mapping",),
    ),
    "in an item of a list": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: A}}\n",
        ("t.jinja:4: error: items[0].metadata.name: ",),
    ),
    "a duplicate key": (
        "apiVersion: v1\nkind: Secret\nkind: Secret\nmetadata: {name: a}\n",
        ("t.jinja:3: ", 'duplicate key "kind"'),
    ),
    "an invalid Framework": (
        "apiVersion: launcher.microsoft.com/v1\nkind: Framework\nmetadata: {name: a}\nspec: {taskRoles: 3}\n",
        ("t.jinja:4: error: spec.taskRoles: ",),
    ),
    "an invalid job": ("name: a\nroles: {worker: {tasks: many}}\n", ("t.jinja:2: error: ",)),
    "a control character": ("{{ '\\x07' }}", ("control character U+0007",)),
}


@pytest.mark.parametrize("case", FAULTY)
def test_invalid_template_is_reported_with_its_line(case: str, here: Path) -> None:
    text, said = FAULTY[case]
    (here / "t.jinja").write_text(text)
    (here / "old.yaml").write_text("before")
    result = template("single", "t.jinja", LONG, "--out", "old.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "t.jinja:" in result.stderr
    assert all(each in result.stderr for each in said), result.stderr
    assert (here / "old.yaml").read_text() == "before"


def test_error_from_an_included_template_has_no_line_number(here: Path) -> None:
    (here / "a.jinja").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n")
    (here / "t.jinja").write_text('{% include "a.jinja" %}')
    assert "t.jinja: error: line 3 of the output: " in template("single", "t.jinja", "web").stderr


def test_unknown_field_is_a_warning() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstuff: {}\n"
    result = template("single", "-", "web", text=text)
    assert (result.exit_code, result.stdout) == (0, text)
    assert "<stdin>:4: warning: stuff: " in result.stderr


def test_removed_api_version_is_a_warning() -> None:
    text = "kind: Deployment\napiVersion: apps/v1beta1\nmetadata: {name: a}\n"
    result = template("single", "-", "web", text=text)
    assert (result.exit_code, result.stdout) == (0, text)
    assert "<stdin>:2: warning: apiVersion: Kubernetes 1.16 and later have no Deployment" in result.stderr


def test_unknown_kinds_are_not_checked() -> None:
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {generateName: a-}\nspec: 3\n"
    result = template("single", "-", "web", text=text)
    assert (result.stdout, result.stderr) == (text, "")


WRONG = {
    "no such file": (
        ("cluster", "none.jinja", "web", "1", "2"),
        "none.jinja does not exist. Write a first template with `windlass init --template cluster`",
    ),
    "a folder": (("single", ".", "web"), ".: cannot be read: Is a directory"),
    "bytes": (("single", "bytes", "web"), "bytes:2: a template must be UTF-8"),
    "no mode": (("double", "t.jinja", "web"), "double"),
    "no project": (("single", "t.jinja"), "PROJECT"),
    "an invalid project name": (
        ("single", "t.jinja", "Web_Predict"),
        'found "Web_Predict", expected at most 63 lower-case letters',
    ),
    "a project that is a path": (("single", "t.jinja", "../web"), 'found "../web"'),
    "numbers of a single task": (
        ("single", "t.jinja", "web", "1", "2"),
        "PS and WORKERS are not allowed with single",
    ),
    "a cluster without numbers": (("cluster", "t.jinja", "web"), "cluster requires PS and WORKERS"),
    "a cluster without workers": (("cluster", "t.jinja", "web", "1"), "cluster requires PS and WORKERS"),
    "no worker": (("cluster", "t.jinja", "web", "1", "0"), "[WORKERS]"),
    "a negative number": (("cluster", "t.jinja", "web", "--", "-1", "1"), "[PS]"),
    "words for numbers": (("cluster", "t.jinja", "web", "one", "2"), "[PS]"),
    "no value": (("single", "t.jinja", "web", "--set", "a"), 'found "a", expected KEY=VALUE'),
    "no key": (("single", "t.jinja", "web", "--set", "=a"), 'found "=a", expected KEY=VALUE'),
    "an invalid key": (("single", "t.jinja", "web", "--set", "a-b=c"), "expected KEY=VALUE"),
    "a reserved key": (
        ("single", "t.jinja", "web", "--set", "project_name=a"),
        "project_name is set by the argument PROJECT",
    ),
    "invalid JSON": (("single", "t.jinja", "web", "--set-json", "a=b"), 'found "b", expected JSON'),
    "an unwritable output": (
        ("single", "t.jinja", "web", "--set", "value=a", "--out", "no/where"),
        "cannot write no/where: No such file or directory",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_command_line_is_rejected(case: str, here: Path) -> None:
    words, said = WRONG[case]
    (here / "t.jinja").write_text(OBJECT)
    (here / "bytes").write_bytes(b"a\n\xff")
    result = template(*words)
    assert result.exit_code in (1, 2)
    assert (result.stdout, said in result.stderr) == ("", True), result.stderr
