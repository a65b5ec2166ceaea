"""Files with Frameworks: decoding, diagnostics, and fields that are kept."""

import textwrap
from typing import Any

import framework_files
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.model.framework import ExecutionType
from windlass.wire.diagnostics import Severity
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

GOOD = textwrap.dedent(
    """\
    apiVersion: frameworkcontroller.microsoft.com/v1
    kind: Framework
    metadata:
      name: tfexample
    spec:
      executionType: Start
      retryPolicy:
        maxRetryCount: 3
      taskRoles:
      - name: worker
        taskNumber: 2
        task:
          pod:
            spec:
              containers:
              - name: tf
                image: tf:1
                volumeMounts:
                - name: data
                  mountPath: /data
              volumes:
              - name: data
                emptyDir: {}
              restartPolicy: Never
    """
)
LONG = "x" * 260


def changed(old: str, new: str) -> bytes:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new).encode()


def diagnostics_of(data: bytes) -> list[tuple[str, int, str, str]]:
    return [
        (str(diagnostic.severity), diagnostic.line, diagnostic.path, diagnostic.message)
        for diagnostic in framework_files.load(data, "f.yaml").diagnostics
    ]


def test_valid_framework_has_no_diagnostics() -> None:
    loaded = framework_files.load(GOOD.encode(), "f.yaml")

    (framework,) = loaded.frameworks
    assert loaded.diagnostics == ()
    assert framework.name == "tfexample"
    assert framework.spec.execution_type is ExecutionType.START
    assert framework.spec.retry_policy.max_retry_count == 3
    assert framework.spec.task_roles[0].task.pod["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]


ROLE = "spec.taskRoles[0]"
NAME, TASKS, TASK = f"{ROLE}.name", f"{ROLE}.taskNumber", f"{ROLE}.task"
RETRIES = "spec.retryPolicy.maxRetryCount"

BAD: list[Any] = [
    # id, data, line, path, words of the message
    ("not YAML", b"apiVersion: [\n", 1, "", "invalid YAML"),
    ("a scalar", b"hello\n", 1, "", 'found the string "hello", expected a job file'),
    ("a list", b"- a\n", 1, "", "found a list, expected a job file"),
    ("an empty file", b"", 1, "", "the file has no job and no Framework"),
    ("only comments", b"# nothing\n---\n", 1, "", "the file has no job and no Framework"),
    ("10 MB of nesting", b"[" * 10_000_000, 1, "", "deeper than 100"),
    ("NaN", changed("maxRetryCount: 3", "maxRetryCount: .nan"), 8, RETRIES, "JSON cannot represent"),
    ("a tab", changed("  retryPolicy:", "\tretryPolicy:"), 7, "", "tab in the indentation"),
    ("duplicate key", changed("taskNumber: 2", "taskNumber: 2\n    taskNumber: 3"), 12, ROLE, "already"),
    (
        "another apiVersion",
        changed("frameworkcontroller.microsoft.com/v1", "frameworkcontroller.microsoft.com/v2"),
        1,
        "apiVersion",
        "expected launcher.microsoft.com/v1 or frameworkcontroller.microsoft.com/v1",
    ),
    ("no kind", changed("kind: Framework\n", ""), 1, "", 'missing required field "kind"'),
    ("kind in lower case", changed("kind: Framework", "kind: framework"), 2, "kind", "expected Framework"),
    ("no metadata", changed("metadata:\n  name: tfexample\n", ""), 1, "", 'missing required field "metadata"'),
    ("no name", changed("  name: tfexample", "  labels: {}"), 4, "metadata", 'missing required field "name"'),
    ("name of a number", changed("name: tfexample", "name: 7"), 4, "metadata.name", "put it in quotes"),
    ("name with a dot", changed("name: tfexample", "name: tf.example"), 4, "metadata.name", "a DNS label"),
    ("name with a line end", changed("name: tfexample", 'name: "tf\\n"'), 4, "metadata.name", "a DNS label"),
    ("numeric label", changed("  name: tfexample", "  name: t\n  labels: {a: 1}"), 5, "metadata.labels.a", "string"),
    ("pod name over 253", changed("tfexample", LONG), 4, "metadata.name", "269 characters, more than the limit of 253"),
    ("no spec", GOOD.split("spec:")[0].encode(), 1, "", 'missing required field "spec"'),
    ("misspelt spec", changed("\nspec:", "\nsepc:"), 5, "sepc",
     'unknown field "sepc". Did you mean "spec"?'),
    ("no roles", GOOD.split("  taskRoles:")[0].encode(), 6, "spec", 'missing required field "taskRoles"'),
    ("null roles", GOOD.split("  - name: worker")[0].encode(), 6, "spec", 'missing required field "taskRoles"'),
    ("empty roles", GOOD.split("  - name: worker")[0].encode() + b"    []\n", 10, "spec.taskRoles", "at least one"),
    ("misspelt roles", changed("taskRoles:", "taskRole:"), 9, "spec.taskRole",
     'unknown field "taskRole". Did you mean "taskRoles"?'),
    ("role without a name", changed("- name: worker\n    ", "- "), 10, ROLE, 'missing required field "name"'),
    ("role with a hyphen", changed("name: worker", "name: my-worker"), 10, NAME, "without hyphens"),
    ("role with a capital", changed("name: worker", "name: Worker"), 10, NAME, "lower-case"),
    ("long role name", changed("name: worker", f"name: {LONG}"), 10, NAME, "1 to 63"),
    ("taskNumber -1", changed("taskNumber: 2", "taskNumber: -1"), 11, TASKS, "from 0 to 10000"),
    ("taskNumber 1e9", changed("taskNumber: 2", "taskNumber: 1e9"), 11, TASKS, "1000000000"),
    ("taskNumber 1.5", changed("taskNumber: 2", "taskNumber: 1.5"), 11, TASKS, "an integer"),
    ("taskNumber true", changed("taskNumber: 2", "taskNumber: yes"), 11, TASKS, "boolean true"),
    ("quoted taskNumber", changed("taskNumber: 2", "taskNumber: '2'"), 11, TASKS, "remove the"),
    ("maxRetryCount -3", changed("maxRetryCount: 3", "maxRetryCount: -3"), 8, RETRIES, "from -2"),
    ("huge number", changed("maxRetryCount: 3", f"maxRetryCount: {2**63}"), 8, RETRIES, "from -2"),
    ("huge generation", changed("  name: tf", f"  generation: {2**63}\n  name: tf"), 4, "metadata.generation", "64"),
    ("unknown field", changed("taskNumber: 2", "taskNumbr: 2"), 11, f"{ROLE}.taskNumbr",
     'unknown field "taskNumbr". Did you mean "taskNumber"?'),
    ("unlike any field", changed("taskNumber: 2", "gpus: 2"), 11, f"{ROLE}.gpus",
     'unknown field "gpus". Known names: name, taskNumber'),
    ("wrong choice", changed("executionType: Start", "executionType: Strat"), 6, "spec.executionType", '"Start"?'),
    ("no mapping", changed("retryPolicy:\n    maxRetryCount: 3", "retryPolicy: x"), 7, "spec.retryPolicy", "mapping"),
    ("role of a string", GOOD.split("  - name: worker")[0].encode() + b"    [ps]\n", 10, ROLE, "expected a mapping"),
    ("bad time", changed("  name: tf", "  creationTimestamp: 5\n  name: tf"), 4, "metadata.creationTimestamp", "time"),
    ("no task", GOOD.split("    task:")[0].encode(), 10, ROLE, 'missing required field "task"'),
    ("no pod", GOOD.split("      pod:")[0].encode() + b"      retryPolicy: {}\n", 13, TASK,
     'missing required field "pod"'),
    ("no pod spec", GOOD.split("        spec:\n")[0].encode() + b"        metadata: {}\n", 14,
     f"{TASK}.pod", 'missing required field "spec"'),
    ("no containers", GOOD.split("          containers:")[0].encode() + b"          hostNetwork: true\n", 15,
     f"{TASK}.pod.spec", 'missing required field "containers"'),
    ("empty containers", GOOD.split("          containers:")[0].encode() + b"          containers: []\n", 15,
     f"{TASK}.pod.spec.containers", "at least one container"),
    ("container without a name", changed("- name: tf\n            image", "- image"), 16,
     f"{TASK}.pod.spec.containers[0]", 'missing required field "name"'),
    ("wrong type in a pod", changed("image: tf:1", "image: 1"), 17,
     f"{TASK}.pod.spec.containers[0].image", "put it in quotes"),
    ("no such volume", changed("- name: data\n              mountPath", "- name: dta\n              mountPath"), 19,
     f"{TASK}.pod.spec.containers[0].volumeMounts[0].name", 'Did you mean "data"?'),
    ("no volumes", changed("          volumes:\n          - name: data\n            emptyDir: {}\n", ""), 19,
     f"{TASK}.pod.spec.containers[0].volumeMounts[0].name", "The pod has no volumes"),
    ("second document", GOOD.encode() + b"---\nhello\n", 26, "", "expected a job file, or an object"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "line", "path", "words"), [pytest.param(*row[1:], id=row[0]) for row in BAD]
)
def test_one_mistake_results_in_one_error(data: bytes, line: int, path: str, words: str) -> None:
    loaded = framework_files.load(data, "f.yaml")

    (diagnostic,) = loaded.diagnostics
    assert (diagnostic.severity, diagnostic.file, diagnostic.line, diagnostic.path) == (
        Severity.ERROR,
        "f.yaml",
        line,
        path,
    )
    assert words in diagnostic.message
    assert loaded.written == ()


def test_duplicate_role_name_is_an_error() -> None:
    role = GOOD[GOOD.index("  - name: worker") :]

    (diagnostic,) = framework_files.load((GOOD + role).encode(), "f.yaml").diagnostics

    assert (diagnostic.line, diagnostic.path) == (25, "spec.taskRoles[1].name")
    assert "also the name of the role in line 10" in diagnostic.message


def test_truncated_hostname_is_a_warning() -> None:
    data = changed("name: tfexample", f"name: {'x' * 60}")

    ((severity, line, path, message),) = diagnostics_of(data)

    assert (severity, line, path) == ("warning", 10, "spec.taskRoles[0].name")
    assert "-worker-1 has 69 characters" in message


def test_pod_field_in_the_wrong_case_is_a_warning_and_kept() -> None:
    """An example of the reference has this field. The API server stores it in a Framework and drops it from pods."""
    data = changed("restartPolicy: Never", "restartPolicy: Never\n          ActiveDeadlineSeconds: 60")

    loaded = framework_files.load(data, "f.yaml")

    (diagnostic,) = loaded.diagnostics
    assert (diagnostic.severity, diagnostic.path) == (
        Severity.WARNING,
        "spec.taskRoles[0].task.pod.spec.ActiveDeadlineSeconds",
    )
    assert diagnostic.message.endswith('Did you mean "activeDeadlineSeconds"?')
    (framework,) = loaded.frameworks
    assert framework.spec.task_roles[0].task.pod["spec"]["ActiveDeadlineSeconds"] == 60


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("restartPolicy: Never", "restartPolcy: Never"),
        ("taskNumber: 2", "TaskNumber: 2"),
        ("executionType: Start", "executiontype: Start"),
    ],
)
def test_other_misspelt_field_is_an_error(old: str, new: str) -> None:
    assert [severity for severity, *_ in diagnostics_of(changed(old, new))] == ["error"]


def test_diagnostics_are_in_order_of_lines() -> None:
    data = (
        GOOD.replace("Start", "Go")
        .replace("taskNumber: 2", "taskNumbr: 2")
        .replace("image: tf:1", "image: 1")
    )

    assert [line for _, line, _, _ in diagnostics_of(data.encode())] == [6, 11, 17]


def test_number_of_diagnostics_of_a_document_is_limited() -> None:
    data = GOOD + "".join(f"  field{number}: 1\n" for number in range(5000))

    faults = diagnostics_of(data.encode())

    assert len(faults) == 1001
    assert "more than 1000 problems" in faults[-1][3]


def test_number_of_diagnostics_of_many_documents_is_limited() -> None:
    faults = diagnostics_of(b"a: 1\n---\n" * 5000)

    assert len(faults) == 1001
    assert "more than 1000 problems" in faults[-1][3]


@pytest.mark.parametrize("kind", ["v1\nkind: List", "launcher.microsoft.com/v1\nkind: FrameworkList"])
def test_items_of_list_are_checked(kind: str) -> None:
    item = textwrap.indent(GOOD, "  ").replace("  apiVersion", "- apiVersion", 1)
    other = item.replace("tfexample", "other").replace("taskNumber: 2", "taskNumber: x")

    loaded = framework_files.load(f"apiVersion: {kind}\nitems:\n{item}{other}".encode(), "f.yaml")

    assert [diagnostic.path for diagnostic in loaded.diagnostics] == ["items[1].spec.taskRoles[0].taskNumber"]


def test_many_documents_are_read() -> None:
    loaded = framework_files.load(f"{GOOD}---\n{GOOD.replace('tfexample', 'other')}---\n".encode(), "f.yaml")

    assert [each.name for each in loaded.frameworks] == ["tfexample", "other"]


def test_json_is_read() -> None:
    (one,) = framework_files.load(GOOD.encode(), "f.yaml").written
    data = msgspec.json.format(msgspec.json.encode(one), indent=2).replace(b"  ", b"\t")

    loaded = framework_files.load(data, "f.json")

    assert loaded.diagnostics == ()
    assert loaded.written == (one,)


def test_null_field_is_treated_as_absent() -> None:
    data = changed("retryPolicy:\n    maxRetryCount: 3", "retryPolicy: null\n  description:")

    (one,) = framework_files.load(data, "f.yaml").frameworks

    assert one.spec.retry_policy.max_retry_count == 0
    assert one.spec.description == ""


def test_unknown_fields_of_pod_and_status_are_kept() -> None:
    """Statement 2: unknown fields in `pod` and `status` are kept."""
    data = (
        changed("image: tf:1", "image: tf:1\n            futureField: {a: [1, null, 'no', y, 1e3]}")
        + b"status:\n  novel: [1, '2', .5]\n"
    )
    (one,) = framework_files.load(data, "f.yaml").written

    loaded = framework_files.load(framework_files.dump(one), "f.yaml")

    container = loaded.frameworks[0].spec.task_roles[0].task.pod["spec"]["containers"][0]
    assert container["futureField"] == {"a": [1, None, "no", True, 1000]}
    assert loaded.written == (one,)
    assert one["status"] == {"novel": [1, "2", 0.5]}


STATUS = """\
status:
  startTime: 2018-06-14T21:53:04Z
  runTime: null
  completionTime: null
  state: AttemptCreationPending
  transitionTime: "2018-06-14T21:53:04Z"
  retryPolicyStatus: {totalRetriedCount: 2, accountableRetriedCount: 1, retryDelaySec: null}
  somethingNew: 1
  attemptStatus:
    id: 2
    startTime: 2018-06-14T21:53:04Z
    configMapName: tfexample-attempt
    taskRoleStatuses: []
"""


@pytest.mark.parametrize(
    ("status", "warnings"),
    [
        pytest.param("", [], id="absent"),
        pytest.param("status: null\n", [], id="null"),
        pytest.param("status: {}\n", [], id="as a generator leaves it"),
        pytest.param(STATUS, [], id="of a controller"),
        pytest.param("status: {phase: Running}\n", ["status"], id="of something else"),
        pytest.param("status: running\n", ["status"], id="a string"),
    ],
)
def test_status_is_not_checked(status: str, warnings: list[str]) -> None:
    loaded = framework_files.load((GOOD + status).encode(), "f.yaml")

    assert len(loaded.frameworks) == 1
    assert [diagnostic.path for diagnostic in loaded.warnings] == warnings


@pytest.mark.parametrize(
    "text",
    ["y", "no", "1e3", "0644", "~", "", "null", " x ", "a: b", "é\n\nx", "\u2028", "=", "<<", "2018-01-01"],
)
def test_strings_are_kept_unchanged(text: str) -> None:
    data = changed("image: tf:1", f"image: {msgspec.json.encode(text).decode()}")
    (one,) = framework_files.load(data, "f.yaml").written

    (again,) = framework_files.load(framework_files.dump(one), "f.yaml").frameworks

    assert again.spec.task_roles[0].task.pod["spec"]["containers"][0]["image"] == text


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        ("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "labels"), ("spec",), ("status",),
        ("metadata", "creationTimestamp"), ("spec", "description"), ("spec", "executionType"), ("spec", "retryPolicy"),
        ("spec", "retryPolicy", "retryBackoff"), ("spec", "taskRoles"), ("spec", "taskRoles", 0), ("spec", "suspend"),
        ("spec", "taskRoles", 0, "name"), ("spec", "taskRoles", 0, "taskNumber"), ("spec", "taskRoles", 0, "task"),
        ("spec", "taskRoles", 0, "task", "pod"), ("spec", "taskRoles", 0, "task", "pod", "spec"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0, "command"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0, "env"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0, "ports"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0, "volumeMounts"),
        ("spec", "taskRoles", 0, "task", "pod", "spec", "volumes"),
        ("spec", "taskRoles", 0, "task", "podGracefulDeletionTimeoutSec"),
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(path=PATHS, value=VALUES, key=st.none() | st.text(max_size=8))
def test_a_framework_with_anything_anywhere_never_raises(
    path: tuple[Any, ...], value: Any, key: str | None
) -> None:
    """Any value in any place results in a Framework or a diagnostic; a Framework is written back unchanged."""
    framework = tree.plain(yaml_parse.parse(GOOD.encode()).documents[0].root)
    parent = framework
    for step in path[:-1]:
        parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
    if key is not None and isinstance(parent, dict):
        parent[key] = value
    else:
        parent[path[-1]] = value

    loaded = framework_files.load(msgspec.json.encode(framework), "f.json")

    assert loaded.written or loaded.errors
    assert len(loaded.frameworks) == len(loaded.written), "each of them can be read"
    assert all("\n" not in str(diagnostic) for diagnostic in loaded.diagnostics)
    for one in loaded.written:
        assert framework_files.load(framework_files.dump(one), "f.yaml").written == (one,)


@settings(deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    loaded = framework_files.load(data, "f.yaml")

    assert loaded.written or loaded.errors
