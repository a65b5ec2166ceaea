"""The pod of a task. Its complete form is in the golden files; here are edge cases and properties of every template."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.discovery import placeholders
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.objects.pod import PodFactory, pod

Build = Callable[..., Framework]

FIFTEEN = [
    "FC_FRAMEWORK_NAMESPACE",
    "FC_FRAMEWORK_NAME",
    "FC_TASKROLE_NAME",
    "FC_TASK_INDEX",
    "FC_CONFIGMAP_NAME",
    "FC_POD_NAME",
    "FC_FRAMEWORK_UID",
    "FC_FRAMEWORK_ATTEMPT_ID",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
    "FC_CONFIGMAP_UID",
    "FC_TASKROLE_UID",
    "FC_TASK_UID",
    "FC_TASK_ATTEMPT_ID",
    "FC_POD_UID",
    "FC_TASK_ATTEMPT_INSTANCE_UID",
]
ADDED = {
    names.CONTROLLER_GROUP: FIFTEEN,
    names.LAUNCHER_GROUP: [*FIFTEEN, "taskindex", "TASK_INDEX"],
}


@pytest.mark.parametrize("group", names.GROUPS)
def test_variables_of_each_group(group: str, running: Build) -> None:
    """Statements 7 and 52: what an old image reads is there for the old group only."""
    made = pod(running({"spec": {"containers": [{"name": "a"}]}}, group=group), "worker", 0)
    (container,) = made["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == ADDED[group]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, "FallbackToLogsOnError"),
        ({"terminationMessagePolicy": ""}, "FallbackToLogsOnError"),
        ({"terminationMessagePolicy": None}, "FallbackToLogsOnError"),
        ({"terminationMessagePolicy": "File"}, "File"),
        ({"terminationMessagePolicy": "FallbackToLogsOnError"}, "FallbackToLogsOnError"),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_termination_message_policy(field: str, policy: Json, expected: str, running: Build) -> None:
    """Statement 8."""
    made = pod(running({"spec": {field: [{"name": "a", **policy}]}}), "worker", 0)
    assert made["spec"][field][0]["terminationMessagePolicy"] == expected


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": None, "spec": None},
        {"spec": {}},
        {"spec": {"containers": None, "initContainers": None}},
        {"spec": {"containers": []}},
        {"spec": "a string"},
        {"spec": {"containers": {"name": "a mapping"}}},
        {"spec": {"containers": [None, "a string", 7, ["a list"]]}},
    ],
    ids=str,
)
def test_malformed_spec_is_passed_to_the_api_server(template: Json, running: Build) -> None:
    assert pod(running(template), "worker", 0)["spec"] == template.get("spec")


@pytest.mark.parametrize("env", ["a string", {"A": "b"}, 7])
def test_malformed_environment_is_passed_to_the_api_server(env: Any, running: Build) -> None:
    made = pod(running({"spec": {"containers": [{"env": env}]}}), "worker", 0)
    assert made["spec"]["containers"][0]["env"] == env


@pytest.mark.parametrize("value", ["a string", ["a list"], 7])
@pytest.mark.parametrize("field", ["labels", "annotations", "finalizers"])
def test_malformed_field_is_passed_to_the_api_server(field: str, value: Any, running: Build) -> None:
    metadata = pod(running({"metadata": {field: value}}), "worker", 0)["metadata"]
    assert metadata[field] == value
    assert metadata["name"] == "digits-worker-0"


@pytest.mark.parametrize("metadata", ["a string", ["a list"], 7])
def test_malformed_metadata_is_dropped(metadata: Any, running: Build) -> None:
    assert (
        pod(running({"metadata": metadata}), "worker", 0)["metadata"]
        == pod(running({}), "worker", 0)["metadata"]
    )


@pytest.mark.parametrize(
    "field",
    [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "ownerReferences",
        "selfLink",
    ],
)
def test_other_metadata_of_the_user_is_dropped(field: str, running: Build) -> None:
    """Statement 6."""
    assert pod(running({"metadata": {field: "users"}}), "worker", 0) == pod(running({}), "worker", 0)


def test_each_task_has_its_own_identity(running: Build) -> None:
    factory = PodFactory(running({"spec": {"hostname": "h{{FC_TASK_INDEX}}"}}, tasks=3))
    made = [factory.pod("worker", index) for index in (2, 0, 1)]
    assert [each["spec"]["hostname"] for each in made] == ["h2", "h0", "h1"]
    assert [each["metadata"]["name"] for each in made] == [f"digits-worker-{index}" for index in (2, 0, 1)]
    assert [each["metadata"]["annotations"]["FC_TASK_UID"] for each in made] == ["task-2", "task-0", "task-1"]


@pytest.mark.parametrize(("role", "index"), [("ps", 0), ("worker", 1), ("worker", -1)])
def test_unknown_task_is_an_error(role: str, index: int, running: Build) -> None:
    with pytest.raises(LookupError, match=f"{role}.*status"):
        pod(running({}), role, index)


def test_no_pod_without_an_owner(running: Build) -> None:
    framework = running({})
    assert framework.status is not None
    attempt = msgspec.structs.replace(framework.status.attempt_status, config_map_uid=None)
    without = framework.with_status(msgspec.structs.replace(framework.status, attempt_status=attempt))
    with pytest.raises(ValueError, match="research/digits has no ConfigMap"):
        PodFactory(without)


# How long an example takes says nothing about the code on a busy machine.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text("ab{}FC_", max_size=5) | st.sampled_from(
    ["{{FC_TASK_INDEX}}", "{{FC_POD_NAME}}-{{x}}", "FC_TASK_INDEX"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MAPPING = st.dictionaries(TEXT, TEXT, max_size=3)
VARIABLE = st.fixed_dictionaries({"name": TEXT, "value": TEXT})
CONTAINER = st.fixed_dictionaries(
    {"name": TEXT},
    optional={
        "env": st.none() | st.lists(VARIABLE, max_size=3),
        "args": st.lists(TEXT, max_size=3),
        "other": ANYTHING,
    },
)
SOUND_TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": MAPPING, "annotations": MAPPING}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINER, max_size=3)},
            optional={"initContainers": st.lists(CONTAINER, max_size=2), "other": ANYTHING},
        ),
    },
)
WILD_TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "metadata": ANYTHING
        | st.dictionaries(
            st.sampled_from(["labels", "annotations", "finalizers", "name"]), ANYTHING, max_size=2
        ),
        "spec": ANYTHING
        | st.dictionaries(
            st.sampled_from(["containers", "initContainers"]),
            ANYTHING
            | st.lists(st.dictionaries(st.sampled_from(["env", "name"]), ANYTHING, max_size=2), max_size=2),
            max_size=2,
        ),
    },
)


@untimed
@given(template=SOUND_TEMPLATE | WILD_TEMPLATE)
def test_template_is_never_changed_in_place(template: Json, running: Build) -> None:
    before = copy.deepcopy(template)
    made = pod(running(template), "worker", 0)
    assert template == before
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]


@untimed
@given(template=SOUND_TEMPLATE, group=st.sampled_from(names.GROUPS))
def test_variables_come_first_and_in_order(template: Json, group: str, running: Build) -> None:
    """Statement 7: in every container and init container, with the user's own after them."""
    made = pod(running(template, group=group), "worker", 0)
    for field in ("initContainers", "containers"):
        before = template.get("spec", {}).get(field, [])
        after = (made["spec"] or {}).get(field, [])
        for theirs, container in zip(before, after, strict=True):
            found = [variable["name"] for variable in container["env"]]
            ours = ADDED[group]
            assert found[: len(ours)] == ours
            assert len(found) == len(ours) + len(theirs.get("env") or [])
            assert all(isinstance(variable.get("value", ""), str) for variable in container["env"])


@untimed
@given(template=SOUND_TEMPLATE)
def test_users_labels_and_annotations_are_kept_and_ours_win(template: Json, running: Build) -> None:
    """Statement 6."""
    made = pod(running(template), "worker", 0)["metadata"]
    plain = pod(running({}), "worker", 0)["metadata"]
    user_metadata = template.get("metadata", {})
    identity = {name: plain["annotations"][name] for name in placeholders.NAMES}
    for field in ("labels", "annotations"):
        users = placeholders.fill(user_metadata, placeholders.find(user_metadata), identity).get(field, {})
        assert set(made[field]) == set(users) | set(plain[field])
        assert {key: made[field][key] for key in plain[field]} == plain[field]
