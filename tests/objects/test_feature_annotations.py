"""Objects of a Framework that requests names or a barrier, and properties of every template."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.model import names
from windlass.model.base import Json
from windlass.model.feature_annotations import Runtime
from windlass.model.framework import Framework
from windlass.objects.attempt import config_map, gang, service
from windlass.objects.pod import PodOptions, pod

Build = Callable[..., Framework]

RUNTIME, BARRIER = names.RUNTIME_ANNOTATION, names.BARRIER_ANNOTATION
MPI = {RUNTIME: "mpi"}


@pytest.mark.parametrize("group", names.GROUPS)
def test_service_is_owned_by_the_framework_in_its_group(group: str, running: Build) -> None:
    made = service(running({}, group=group))
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == (f"{group}/v1", "Framework", "framework")
    labels = pod(running({"spec": {}}, group=group), "worker", 0)["metadata"]["labels"]
    assert made["spec"]["selector"].items() <= labels.items(), "it finds the pods"


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
@given(template=TEMPLATE, runtime=st.sampled_from(list(map(str, Runtime))))
def test_malformed_template_is_never_changed_in_place(template: Json, runtime: str, running: Build) -> None:
    """The API server reports errors in the template."""
    before = copy.deepcopy(template)
    wanted: Any = {RUNTIME: runtime, BARRIER: "true"}
    made = pod(running(template, annotations=wanted), "worker", 0, PodOptions("windlass:x"))
    assert template == before
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]


@pytest.mark.parametrize(
    ("annotations", "called"), [(MPI, "digits"), ({BARRIER: "true"}, None)], ids=["names", "addresses only"]
)
def test_gang_has_the_service_if_there_are_names(
    annotations: dict[str, str], called: str | None, running: Build
) -> None:
    """Without names, hostfile and tf_config.json have addresses."""
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
def test_config_map_stores_the_ports_of_the_attempt(
    ports: dict[str, int] | None, written: str | None, running: Build
) -> None:
    annotations = config_map(running({}), ports)["metadata"]["annotations"]
    assert annotations.get(names.PORTS_ANNOTATION) == written
