"""Users and groups of containers."""

import os

import pytest
from pods.clusters import Cluster
from pods.place import Place
from pods.specs import container, mounted, scratch


@pytest.fixture
def anybody(cluster: Cluster, place: Place) -> Place:
    if not cluster.is_real and os.geteuid() != 0:
        pytest.skip("only root can start processes as another user")
    return place


def test_container_runs_as_user_and_group(anybody: Place) -> None:
    who = {"runAsUser": 1234, "runAsGroup": 2345}
    assert anybody.start(container("id -u; id -g", securityContext=who)).output() == ["1234", "2345"]


def test_pod_security_context_applies_to_containers(anybody: Place) -> None:
    pod = anybody.start("id -u", securityContext={"runAsUser": 1234})
    assert pod.output() == ["1234"]


def test_container_security_context_takes_precedence(anybody: Place) -> None:
    main = container("id -u", securityContext={"runAsUser": 1235})
    assert anybody.start(main, securityContext={"runAsUser": 1234}).output() == ["1235"]


def test_any_user_may_write_to_an_empty_dir(anybody: Place) -> None:
    pod = anybody.start(
        mounted("touch /data/x; stat -c %u /data/x"), volumes=scratch(), securityContext={"runAsUser": 1234}
    )
    assert pod.output() == ["1234"]


def test_root_is_rejected_with_run_as_non_root(anybody: Place) -> None:
    pod = anybody.start(container("true", securityContext={"runAsNonRoot": True, "runAsUser": 0}))
    seen = pod.waiting("CreateContainerConfigError")
    assert "non-root" in (seen.waiting() or {})["message"]
