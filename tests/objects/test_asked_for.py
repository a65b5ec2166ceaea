"""What is made for a Framework that asks for names or for a barrier, at the edges. The whole of it is in the golden
files."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.discovery import tf_server
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.objects.config_map import config_map
from windlass.objects.gang import gang
from windlass.objects.pod import Wiring, pod
from windlass.objects.service import service

Build = Callable[..., Framework]

RUNTIME, BARRIER = names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION
TENSORFLOW = {RUNTIME: "tensorflow"}
MPI = {RUNTIME: "mpi"}
SERVER = list(tf_server.COMMAND)


# Names


@pytest.mark.parametrize("group", names.GROUPS)
def test_the_service_is_the_framework_s_in_its_own_group(group: str, running: Build) -> None:
    made = service(running({}, group=group))
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == (f"{group}/v1", "Framework", "framework")
    labels = pod(running({"spec": {}}, group=group), "worker", 0)["metadata"]["labels"]
    assert made["spec"]["selector"].items() <= labels.items(), "it finds the pods"


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({}, None),
        ({"hostNetwork": False}, None),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({"dnsPolicy": "None"}, "None"),
    ],
    ids=str,
)
def test_names_can_be_asked_for_on_the_network_of_a_node(
    spec: Json, policy: str | None, running: Build
) -> None:
    made = pod(running({"spec": spec}, annotations=TENSORFLOW), "worker", 0)["spec"]
    assert (made["hostname"], made["subdomain"]) == ("worker-0", "digits")
    assert made.get("dnsPolicy") == policy


@pytest.mark.parametrize(
    ("annotations", "role", "container", "command"),
    [
        (TENSORFLOW, "ps", {}, SERVER),
        (TENSORFLOW, "worker", {"command": [], "args": None}, SERVER),
        (TENSORFLOW, "worker", {"command": ["train"]}, ["train"]),
        (TENSORFLOW, "worker", {"args": ["train"]}, None),
        (TENSORFLOW, "jupyter", {}, None),
        (TENSORFLOW, "tensorboard", {}, None),
        ({RUNTIME: "plain"}, "ps", {}, None),
        ({BARRIER: "own"}, "ps", {}, None),
    ],
)
def test_a_task_of_tensorflow_without_a_command_is_a_server(
    annotations: dict[str, str], role: str, container: Json, command: list[str] | None, running: Build
) -> None:
    """The first container, and no other."""
    template = {"spec": {"containers": [container, {"name": "second"}]}}
    first, second = pod(running(template, role=role, annotations=annotations), role, 0)["spec"]["containers"]
    assert first.get("command") == command
    assert "command" not in second


# The barrier


def spec_with_barrier(running: Build, spec: Json) -> Json:
    made: Json = pod(running({"spec": spec}, annotations=MPI), "worker", 0, Wiring("windlass:x"))["spec"]
    return made


@pytest.mark.parametrize(
    ("containers", "resources"),
    [
        ([{}], None),
        ([{"resources": {"limits": {"nvidia.com/gpu": 1}}}], None),
        (
            [{"resources": {"requests": {"cpu": 1, "nvidia.com/gpu": 1}, "limits": {"memory": "1Gi"}}}],
            {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
        ),
        ([{}, {"resources": {"limits": {"cpu": 2}}}], {"limits": {"cpu": 2}}),
        ([{"resources": {"claims": [{"name": "x"}]}}], None),
        ([{"resources": "a string"}, {"resources": {"limits": "a string"}}], None),
    ],
)
def test_the_barrier_takes_no_more_than_its_pod_has(
    containers: list[Json], resources: Json | None, running: Build
) -> None:
    """And never a GPU."""
    barrier = spec_with_barrier(running, {"containers": containers})["initContainers"][0]
    assert barrier.get("resources") == resources


def test_the_barrier_comes_first_and_its_volumes_do_not_replace_any(running: Build) -> None:
    spec = spec_with_barrier(
        running,
        {
            "initContainers": [{"name": "mine"}],
            "containers": [{"name": "main"}],
            "volumes": [{"name": "data"}],
        },
    )
    assert [one["name"] for one in spec["initContainers"]] == ["windlass-barrier", "mine"]
    assert [one["name"] for one in spec["volumes"]] == ["data", "windlass-barrier", "windlass-barrier-access"]
    (main,) = spec["containers"]
    assert [mount["name"] for mount in main["volumeMounts"]] == ["windlass-barrier"], (
        "the token is not for it"
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "a string"},
        {"containers": [None, 7, "a string"]},
        {"initContainers": {"a": "mapping"}, "containers": []},
        {"volumes": {"a": "mapping"}},
        {"containers": [{"command": "a string", "volumeMounts": "a string"}]},
    ],
    ids=str,
)
def test_what_is_of_a_wrong_shape_reaches_the_api_server_as_it_is(spec: Json, running: Build) -> None:
    made = spec_with_barrier(running, spec)
    for field in ("initContainers", "volumes"):
        if isinstance(spec.get(field), dict):
            assert made[field] == spec[field]
    if isinstance(spec.get("containers"), str):
        assert made["containers"] == spec["containers"]
    for theirs, container in zip(spec.get("containers", ()), made.get("containers", ()), strict=True):
        if not isinstance(theirs, dict):
            assert container == theirs
            continue
        assert container["command"] == theirs["command"]
        assert container["volumeMounts"] == theirs["volumeMounts"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "command": ANYTHING,
        "args": ANYTHING,
        "env": ANYTHING,
        "ports": ANYTHING | st.lists(st.fixed_dictionaries({"containerPort": ANYTHING}), max_size=2),
        "resources": ANYTHING | st.fixed_dictionaries({"limits": ANYTHING}),
        "volumeMounts": ANYTHING,
    },
)
TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "spec": ANYTHING
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": ANYTHING | st.lists(CONTAINER | ANYTHING, max_size=2),
                "initContainers": ANYTHING | st.lists(CONTAINER | ANYTHING, max_size=2),
                "volumes": ANYTHING,
                "hostNetwork": ANYTHING,
                "serviceAccountName": ANYTHING,
            },
        )
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(template=TEMPLATE, runtime=st.sampled_from(["tensorflow", "pytorch", "jax", "mpi", "plain"]))
def test_a_template_of_any_shape_is_never_changed_in_place(
    template: Json, runtime: str, running: Build
) -> None:
    """Whatever is wrong with it is the API server's to say."""
    before = copy.deepcopy(template)
    wanted: Any = {RUNTIME: runtime, BARRIER: "true"}
    made = pod(running(template, annotations=wanted), "worker", 0, Wiring("windlass:x"))
    assert template == before
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]


# The Gang and the ports


def test_there_is_no_gang_before_everybody_has_an_address(running: Build) -> None:
    with pytest.raises(ValueError, match="a task of the Framework research/digits has no address yet"):
        gang(running({}, annotations=MPI))


@pytest.mark.parametrize(
    ("annotations", "called"), [(MPI, "digits"), ({BARRIER: "true"}, None)], ids=["names", "addresses only"]
)
def test_the_gang_says_whether_there_are_names(
    annotations: dict[str, str], called: str | None, running: Build
) -> None:
    """Without them the hostfile and tf_config.json have addresses."""
    framework = running({}, tasks=0, annotations=annotations)
    assert framework.status is not None
    attempt = msgspec.structs.replace(framework.status.attempt_status, instance_uid="0_config-map")
    known = framework.with_status(msgspec.structs.replace(framework.status, attempt_status=attempt))
    assert gang(known)["spec"].get("service") == called


@pytest.mark.parametrize(
    ("ports", "written"),
    [
        (None, None),
        ({}, None),
        ({"worker": 15000, "ps": 15016}, '{"worker":15000,"ps":15016}'),
    ],
)
def test_the_ports_of_the_attempt(ports: dict[str, int] | None, written: str | None, running: Build) -> None:
    annotations = config_map(running({}), ports)["metadata"]["annotations"]
    assert annotations.get(names.PORTS_ANNOTATION) == written
