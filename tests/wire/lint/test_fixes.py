"""`lint --fix` corrects unambiguous errors and changes nothing else: no comment, no line ending."""

import pytest
import yaml

from windlass.render import documents
from windlass.wire.diagnostics import Diagnostic, Fix, Remedy, Rule, Severity
from windlass.wire.lint import fixes
from windlass.wire.yaml import parse as yaml_parse

GOOD = """\
# A comment — with ünicode.
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: digits   # spaces before it
spec:
  taskRoles:
  - name: worker
    taskNumber: 2
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1,   minSucceededTaskCount: 2}
    task:
      pod:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: "x"
            command: [ python3,  train.py ]
            env:
            - {name: STEPS, value: "20"}
            ports:
            - containerPort: 2222
"""


@pytest.fixture(params=["libyaml", "Python"], autouse=True)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with both parsers, which determine the positions."""
    if request.param == "Python":
        monkeypatch.setattr(yaml_parse, "_Loader", yaml.SafeLoader)


def check(data: bytes) -> tuple[Diagnostic, ...]:
    return documents.read(data, "job.yaml").diagnostics


def fix(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the fixed text, and each replaced text with its replacement."""
    result = fixes.fix_file(text.encode(), check)
    return result.data.decode(), [(fixed.was, fixed.becomes) for fixed in result.fixed]


def with_change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


FIXED: dict[str, tuple[str, str, str]] = {
    # correct text, wrong text, description of the fix
    "field of a container": ("image:", "imag:", "imag → image"),
    "field of a role": ("taskNumber:", "taskNumbr:", "taskNumbr → taskNumber"),
    "field of the spec": ("taskRoles:", "taskRole:", "taskRole → taskRoles"),
    "field of the Framework": ("\nspec:", "\nsepc:", "sepc → spec"),
    "field in another case": ("restartPolicy:", "restartpolicy:", "restartpolicy → restartPolicy"),
    "field in quotes": ("{name: STEPS, value:", '{name: STEPS, "valu":', '"valu" → "value"'),
    "field in single quotes": ("containerPort:", "'containerPrt':", "'containerPrt' → 'containerPort'"),
    "count of failures": ("minFailedTaskCount: 1", "minFailedTaskCount: 3", "3 → 2"),
    "count of successes": ("minSucceededTaskCount: 2", "minSucceededTaskCount: 0x10", "0x10 → 2"),
    "quoted number": ("taskNumber: 2", 'taskNumber: "2"', '"2" → 2'),
    "number in single quotes": ("containerPort: 2222", "containerPort: '2222'", "'2222' → 2222"),
    "string without quotes": ('value: "20"', "value: 20", '20 → "20"'),
    "string that YAML takes for a boolean": ('image: "x"', "image: yes", 'yes → "yes"'),
    "string that YAML takes for a number": ('image: "x"', "image: 1.10", '1.10 → "1.10"'),
    "with an anchor": ("taskNumber: 2", 'taskNumber: &n "2"', '"2" → 2'),
}


@pytest.mark.parametrize(("good", "bad", "change"), FIXED.values(), ids=FIXED)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "with a byte order mark"])
def test_unambiguous_error_is_fixed(good: str, bad: str, change: str, line_end: str, mark: str) -> None:
    text = mark + with_change(good, bad).replace("\n", line_end)
    was, _, becomes = change.partition(" → ")

    changed, done = fix(text)

    assert done == [(was, becomes)]
    assert changed == text.replace(bad, bad.replace(was, becomes))
    assert check(changed.encode()) == ()


def test_nested_errors_are_fixed_together() -> None:
    """The value of a misspelt field is checked after the field is renamed."""
    text = GOOD.replace("image:", "imag:").replace("taskNumber: 2", 'taskNumbr: "2"')

    changed, done = fix(text)

    assert changed == GOOD
    assert done == [("taskNumbr", "taskNumber"), ("imag", "image"), ('"2"', "2")]


def test_json_is_fixed() -> None:
    text = '{"name": "a",\n\t"command": "x", "roles": {"worker": {"task": 2}}, "description": "caf\\u00e9"}\n'

    assert fix(text)[0] == text.replace('"task"', '"tasks"')


def test_job_file_is_fixed() -> None:
    changed, _ = fix("name: a\ncomand: python3 train.py  # go\nroles: {worker: {tasks: '2'}}\n")

    assert changed == "name: a\ncommand: python3 train.py  # go\nroles: {worker: {tasks: 2}}\n"


def test_several_documents_are_fixed() -> None:
    text = (
        f"{with_change('image:', 'imag:')}---\n{GOOD.replace('digits', 'other').replace('image:', 'Image:')}"
    )

    changed, done = fix(text)

    assert len(done) == 2
    assert changed == f"{GOOD}---\n{GOOD.replace('digits', 'other')}"


LEFT_ALONE: dict[str, str] = {
    "the field is there already": with_change('image: "x"', 'image: "x"\n            imag: y'),
    "nothing is near": with_change("image:", "quux: 1\n            image:"),
    "two are near": with_change("image:", "volumes: []\n            image:"),
    "no number without its quotes": with_change("taskNumber: 2", 'taskNumber: "010"'),
    "beyond its limits": with_change("taskNumber: 2", 'taskNumber: "20000"'),
    "a tag": with_change("taskNumber: 2", 'taskNumber: !!str "2"'),
    "a block of text": with_change("taskNumber: 2", "taskNumber: |-\n      2"),
    "a value that is used elsewhere": GOOD.replace("taskNumber: 2", "taskNumber: 1").replace(
        "minFailedTaskCount: 1,   minSucceededTaskCount: 2", "minFailedTaskCount: &n 2"
    ).replace("    task:\n", "    task:\n      retryPolicy: {maxRetryCount: *n}\n"),
    "a number here and a string there": with_change("containerPort: 2222", "containerPort: *p").replace(
        'value: "20"', 'value: &p "2222"'
    ),
    "not YAML": GOOD + "  x: [",
    "empty": "",
}  # fmt: skip


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_ambiguous_error_is_not_fixed(text: str) -> None:
    assert fix(text) == (text, [])
    assert check(text.encode()) != ()


def test_aliased_value_is_fixed_once() -> None:
    role = GOOD[GOOD.index("  - name: worker") :]
    aliased = role.replace("pod:", "pod: &pod").replace("image:", "imag:")
    second = "  - {name: other, taskNumber: 1, task: {pod: *pod}}\n"
    text = GOOD.replace(role, aliased + second)

    changed, done = fix(text)

    assert done == [("imag", "image")]
    assert changed == text.replace("imag:", "image:")


def test_failed_fix_does_not_prevent_others() -> None:
    text = with_change("taskNumber: 2", 'taskNumber: "20000"').replace("image:", "imag:")

    assert fix(text) == (text.replace("imag:", "image:"), [("imag", "image")])


def test_fix_that_changes_another_value_is_not_applied() -> None:
    """The position of a diagnostic may be a key, or the wrong value."""

    def check_with_wrong_fix(data: bytes) -> tuple[Diagnostic, ...]:
        at_the_name = (Severity.WARNING, "job.yaml", 5, 9, "spec.x", "wrong")
        return (Diagnostic(*at_the_name, Rule.MIN_FAILED_TOO_LARGE, Fix(Remedy.REPLACE, "2")),)

    assert fixes.fix_file(GOOD.encode(), check_with_wrong_fix).fixed == ()
