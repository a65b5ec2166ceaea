"""The CustomResourceDefinitions. `tools/update_crds.py --verify` compares them with charts/windlass/definitions."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from windlass.model import names
from windlass.model.base import Json
from windlass.model.completion import PodCompletionStatus
from windlass.model.framework import Framework, FrameworkSpec, TaskRoleSpec
from windlass.model.status import FrameworkStatus, TaskRoleStatus, TaskStatus
from windlass.wire.crd import manifests

ROOT = Path(__file__).parents[3]
MANUAL = sorted((ROOT / "tests" / "data" / "launcher").glob("*.yaml"))

SCHEMA = manifests.framework_schema()
UNDERSTOOD = {
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxLength",
    "maximum",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
"""The keywords that these tests cover."""


def children(schema: Json) -> dict[str, Json]:
    """Return the schemas directly inside a schema, by path step."""
    inside = dict(schema.get("properties", {}))
    return inside | {"[]": schema["items"]} if "items" in schema else inside


def json_schema(schema: Json) -> Json:
    """Return the JSON Schema of a structural schema."""
    plain = {key: value for key, value in schema.items() if not key.startswith("x-") and key != "nullable"}
    if "properties" in plain:
        plain["properties"] = {name: json_schema(inner) for name, inner in plain["properties"].items()}
    if "items" in plain:
        plain["items"] = json_schema(plain["items"])
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") else plain


VALIDATOR = jsonschema.Draft202012Validator(json_schema(SCHEMA))


def with_defaults(value: Any, schema: Json) -> Any:
    """Set defaults as the API server does, also inside defaults."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        absent = {
            name: inner["default"]
            for name, inner in properties.items()
            if "default" in inner and value.get(name) is None
        }
        return {
            name: with_defaults(item, properties.get(name, {})) for name, item in (value | absent).items()
        }
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value


def is_valid(value: Any, schema: Json) -> bool:
    return jsonschema.Draft202012Validator(json_schema(schema)).is_valid(value)


def structural_problems(schema: Json, path: str = "") -> list[str]:
    """Return the reasons why the API server would reject a structural schema."""
    properties, kind = schema.get("properties", {}), schema.get("type")
    rules = {
        "has a type": kind in {"object", "array", "string", "integer", "boolean"},
        "uses understood keywords": set(schema) <= UNDERSTOOD,
        "describes the items of an array": ("items" in schema) == (kind == "array"),
        "describes an object, or keeps all of it": kind != "object"
        or bool(properties)
        or schema.get(manifests.KEEP_UNKNOWN) is True,
        "requires what it describes": set(schema.get("required", [])) <= set(properties),
        "tells items apart by what they must have": set(schema.get("x-kubernetes-list-map-keys", []))
        <= set(schema.get("items", {}).get("required", [])),
        "has no default where null is a value of its own": not ("default" in schema and "nullable" in schema),
        "has a default that it takes itself": "default" not in schema
        or is_valid(with_defaults(schema["default"], schema), schema),
    }
    own = [f"{path or '/'}: not so: {rule}" for rule, holds in rules.items() if not holds]
    inner = [
        diagnostic
        for step, child in children(schema).items()
        for diagnostic in structural_problems(child, f"{path}/{step}")
    ]
    return own + inner


def at(path: str) -> Json:
    schema = SCHEMA
    for step in path.strip("/.").replace(".", "/").split("/"):
        schema = children(schema)[step]
    return schema


def document(**spec: Any) -> Json:
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "tf-example"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1}], **spec},
    }


def role(**fields: Any) -> Json:
    return document(taskRoles=[{"name": "worker", **fields}])


def test_files_match_the_model() -> None:
    command = [sys.executable, "tools/update_crds.py", "--verify"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "definition", manifests.definitions(has_records=True), ids=lambda one: one["metadata"]["name"]
)
def test_files_add_only_descriptions(definition: Json) -> None:
    def bare(value: Any, is_named_by_users: bool = False) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: bare(item, key == "properties")
            for key, item in value.items()
            if key != "description" or is_named_by_users
        }

    file = ROOT / "charts" / "windlass" / "definitions" / f"{definition['metadata']['name']}.yaml"
    assert bare(yaml.safe_load(file.read_text(encoding="utf-8"))) == bare(definition)


def test_each_definition_has_a_file() -> None:
    found = sorted(file.stem for file in (ROOT / "charts" / "windlass" / "definitions").glob("*.*.yaml"))
    expected = manifests.definitions(has_records=True)
    assert found == sorted(definition["metadata"]["name"] for definition in expected)
    assert len(found) == len(expected) == 4


def test_both_definitions_differ_only_in_their_group() -> None:
    """Statement 1."""
    launcher, controller = (yaml.safe_dump(manifests.framework_crd(group)) for group in names.GROUPS)
    assert launcher.replace(names.LAUNCHER_GROUP, names.CONTROLLER_GROUP) == controller


def test_definition() -> None:
    """Statement 1."""
    definition = manifests.framework_crd(names.LAUNCHER_GROUP)
    (version,) = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == "frameworks.launcher.microsoft.com"
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"]["shortNames"] == ["fw"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize("column", manifests.PRINTER_COLUMNS, ids=lambda column: column[0])
def test_printer_column_shows_a_field_of_its_type(column: tuple[str, str, str, str]) -> None:
    """A6."""
    _, kind, path, _ = column
    if not path.startswith(".metadata"):
        assert at(path)["type"] == kind


def test_schema_is_structural() -> None:
    assert structural_problems(SCHEMA) == []


@pytest.mark.parametrize(
    ("schema", "diagnostic"),
    [
        ({}, "has a type"),
        ({"type": "object"}, "describes an object"),
        ({"type": "array"}, "items of an array"),
        ({"type": "string", "$ref": "#/x"}, "understood keywords"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "understood keywords"),
        ({"type": "integer", "default": "x"}, "takes itself"),
        ({"type": "integer", "default": 1, "nullable": True}, "null is a value"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, "what it describes"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "default": {}},
            "takes itself",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            "/a/[]: not so: has a type",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                "x-kubernetes-list-map-keys": ["name"],
            },
            "must have",
        ),
    ],
)
def test_structural_problem_is_found(schema: Json, diagnostic: str) -> None:
    assert any(diagnostic in found for found in structural_problems(schema))


def test_schema_of_metadata_restricts_only_the_name() -> None:
    """Kubernetes rejects a definition with more restrictions."""
    assert set(at("metadata")) == {"type", "properties"}
    assert set(at("metadata")["properties"]) == {"name"}


def test_pod_template_and_status_keep_unknown_fields() -> None:
    """Statement 2: at every level of both, and nowhere else in the spec."""

    def fields_that_keep_unknown_fields(schema: Json, path: str = "") -> dict[str, bool]:
        own = {path: bool(schema.get(manifests.KEEP_UNKNOWN))} if schema["type"] == "object" else {}
        for step, child in children(schema).items():
            own |= fields_that_keep_unknown_fields(child, f"{path}/{step}")
        return own

    keeping = fields_that_keep_unknown_fields(SCHEMA)
    assert {path for path, keeps in keeping.items() if keeps and path.startswith("/spec")} == {
        "/spec/taskRoles/[]/task/pod"
    }
    assert all(keeps for path, keeps in keeping.items() if path.startswith("/status"))
    assert at("status")["nullable"] is True


def test_status_has_no_defaults() -> None:
    """A default would look as if the controller had written it."""

    def defaults(schema: Json) -> bool:
        return "default" in schema or any(map(defaults, children(schema).values()))

    assert not defaults(at("status"))
    assert defaults(at("spec"))


def test_roles_are_merged_by_name() -> None:
    roles = at("spec.taskRoles")
    assert (roles["x-kubernetes-list-type"], roles["x-kubernetes-list-map-keys"]) == ("map", ["name"])


@pytest.mark.parametrize("before", ["Create", "Start", "Stop"])
@pytest.mark.parametrize("after", ["Create", "Start", "Stop"])
def test_change_of_execution_type(before: str, after: str) -> None:
    """Statement 35. The operators of the rule are translated to Python."""
    (validation,) = at("spec.executionType")["x-kubernetes-validations"]
    rule = validation["rule"].replace("||", "or").replace("&&", "and")
    is_allowed = (before, after) in {("Create", "Start"), ("Create", "Stop"), ("Start", "Stop")}
    assert eval(rule, {}, {"oldSelf": before, "self": after}) is (is_allowed or before == after)  # noqa: S307


@pytest.mark.parametrize(
    ("path", "format_"),
    [
        ("spec.taskRoles.[].taskNumber", "int32"),
        ("spec.retryPolicy.maxRetryCount", "int32"),
        ("spec.taskRoles.[].task.podGracefulDeletionTimeoutSec", "int64"),
        ("status.retryPolicyStatus.retryDelaySec", "int64"),
        ("status.retryPolicyStatus.totalRetriedCount", "int32"),
        ("status.attemptStatus.completionStatus.code", "int32"),
        ("status.startTime", "date-time"),
        ("status.attemptStatus.taskRoleStatusesCompressed", "byte"),
    ],
)
def test_format(path: str, format_: str) -> None:
    assert at(path)["format"] == format_


@pytest.mark.parametrize("file", MANUAL, ids=lambda file: file.name)
def test_launcher_manual_is_valid(file: Path) -> None:
    found = [found for found in yaml.safe_load_all(file.read_text(encoding="utf-8")) if found]
    assert found
    assert [error.message for each in found for error in VALIDATOR.iter_errors(each)] == []


def test_launcher_manual_exists() -> None:
    assert MANUAL


@pytest.mark.parametrize(
    "good",
    [
        document(),
        document(taskRoles=[]),
        document(executionType="Create"),
        document(retryPolicy={"fancyRetryPolicy": True, "maxRetryCount": -2}),
        document(retryPolicy={"maxTransientRetryCount": None, "retryBackoff": {}}),
        document(completedPods="Keep", suspend=True, pendingDeadlineSeconds=0, activeDeadlineSeconds=None),
        role(taskNumber=0),
        role(taskNumber=10_000),
        role(frameworkAttemptCompletionPolicy={"minFailedTaskCount": -1, "minSucceededTaskCount": 0}),
        role(task={"pod": {"anything": {"at": ["all"]}}, "podGracefulDeletionTimeoutSec": None}),
        {**document(), "status": None},
        {**document(), "status": {"state": "Completed", "somethingNew": [{"a": 1}]}},
        {**document(), "status": {"attemptStatus": {"taskRoleStatuses": [{"taskStatuses": None}]}}},
        {**document(), "metadata": {"name": "a", "labels": {"a": "b"}}},
    ],
    ids=str,
)
def test_valid_object_is_accepted(good: Json) -> None:
    """Statement 2."""
    assert [error.message for error in VALIDATOR.iter_errors(good)] == []


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (role(taskNumber=-1), "taskNumber"),
        (role(taskNumber=10_001), "taskNumber"),
        (role(taskNumber=10**9), "taskNumber"),
        (role(taskNumber=1.5), "taskNumber"),
        (role(taskNumber="1"), "taskNumber"),
        (role(name="parameter-server"), "name"),
        (role(name="Worker"), "name"),
        (role(name=""), "name"),
        (role(name="w" * 64), "name"),
        (document(taskRoles=[{"taskNumber": 1}]), 0),
        (document(taskRoles={"worker": {}}), "taskRoles"),
        (document(retryPolicy={"maxRetryCount": -3}), "maxRetryCount"),
        (document(retryPolicy={"maxRetryCount": 2**31}), "maxRetryCount"),
        (document(retryPolicy={"fancyRetryPolicy": "yes"}), "fancyRetryPolicy"),
        (document(retryPolicy={"retryBackoff": {"initialSec": -1}}), "retryBackoff"),
        (role(task={"retryPolicy": {"maxRetryCount": -3}}), "maxRetryCount"),
        (role(task={"podGracefulDeletionTimeoutSec": -1}), "podGracefulDeletionTimeoutSec"),
        (role(task={"pod": ["a list"]}), "pod"),
        (role(frameworkAttemptCompletionPolicy={"minFailedTaskCount": -2}), "minFailedTaskCount"),
        (role(frameworkAttemptCompletionPolicy={"minSucceededTaskCount": -2}), "minSucceededTaskCount"),
        (document(executionType="Run"), "executionType"),
        (document(completedPods="keep"), "completedPods"),
        (document(suspend="true"), "suspend"),
        (document(activeDeadlineSeconds=-1), "activeDeadlineSeconds"),
        ({**document(), "metadata": {"name": "Tf_Example"}}, "name"),
        ({**document(), "metadata": {"name": "a.b"}}, "name"),
        ({**document(), "metadata": {"name": "a" * 64}}, "name"),
        ({**document(), "status": "Completed"}, "status"),
    ],
    ids=str,
)
def test_invalid_object_is_rejected(bad: Json, where: str | int) -> None:
    """Statement 2."""
    assert {error.absolute_path[-1] for error in VALIDATOR.iter_errors(bad)} == {where}


@pytest.mark.parametrize(
    "written",
    [
        document(),
        document(taskRoles=None, description=None, retryPolicy=None),
        document(retryPolicy={"retryBackoff": {}}),
        role(task={"pod": {"spec": {}}}, frameworkAttemptCompletionPolicy={"minFailedTaskCount": 1}),
        {key: value for key, value in document().items() if key != "spec"},
    ],
    ids=str,
)
def test_defaults_decode_as_absent_fields(written: Json) -> None:
    """The controller reads a default of the API server as an absent field."""

    def without_nulls(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: without_nulls(item) for key, item in value.items() if item is not None}

    stored = with_defaults(written, SCHEMA)
    assert msgspec.convert(stored, Framework) == msgspec.convert(without_nulls(written), Framework)
    assert VALIDATOR.is_valid(stored)


def test_default_execution_type_is_start() -> None:
    """As in the reference. The rule of statement 35 needs a value to compare with."""
    assert with_defaults({}, SCHEMA)["spec"]["executionType"] == "Start"


TASK = "status.attemptStatus.taskRoleStatuses.[].taskStatuses.[]"
LETTERS = st.text("aZ0-é\n", max_size=4)


def values_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Return a strategy for the JSON values of a model type."""
    match kind:
        case inspect.StructType():
            fields = {field.encode_name: (field.required, values_of(field.type)) for field in kind.fields}
            return st.fixed_dictionaries(
                {name: values for name, (is_required, values) in fields.items() if is_required},
                optional={name: values for name, (is_required, values) in fields.items() if not is_required},
            )
        case inspect.EnumType(cls=cls):
            return st.sampled_from([member.value for member in cls])
        case inspect.IntType(ge=ge, le=le):
            return st.integers(-(2**31) if ge is None else ge, 2**31 - 1 if le is None else le)
        case inspect.StrType(pattern=pattern):
            return st.from_regex(pattern, fullmatch=True) if pattern else LETTERS
        case inspect.BoolType():
            return st.booleans()
        case inspect.DateTimeType():
            return st.sampled_from(["2026-01-01T00:00:00Z", "1999-12-31T23:59:59.123456+02:00"])
        case inspect.VarTupleType(item_type=item):
            return st.lists(values_of(item), max_size=2)
        case inspect.DictType():
            return st.dictionaries(LETTERS, LETTERS, max_size=2)
        case inspect.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case inspect.NoneType():
            return st.none()
    raise TypeError(kind)


@functools.cache
def values_of_part(part: type) -> st.SearchStrategy[Any]:
    return values_of(inspect.type_info(part))


@functools.cache
def validator_at(path: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(at(path)))


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (FrameworkSpec, "spec"),
        (TaskRoleSpec, "spec.taskRoles.[]"),
        (FrameworkStatus, "status"),
        (TaskRoleStatus, "status.attemptStatus.taskRoleStatuses.[]"),
        (TaskStatus, TASK),
        (PodCompletionStatus, f"{TASK}.attemptStatus.completionStatus.pod"),
    ],
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_encoded_model_is_valid(part: type, path: str, data: st.DataObject) -> None:
    """Test each part by itself, because a random Framework rarely has a completed task."""
    value: Any = msgspec.convert(data.draw(values_of_part(part)), part)
    encoded = msgspec.json.decode(msgspec.json.encode(value))
    assert [error.message for error in validator_at(path).iter_errors(encoded)] == []
