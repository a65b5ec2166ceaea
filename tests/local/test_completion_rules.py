"""Completion rules that count what only a kubelet knows: container restarts in the same pod, and phases of pods."""

import pytest
from pods.commands import Done, Home, framework, role

from conformance.client import Json

FAILS_TWICE = """
count=$(($(cat /shared/count 2>/dev/null || echo 0) + 1))
echo $count > /shared/count
[ $count -gt 2 ]
"""
"""Fails in its first two runs, and succeeds in the third one. The volume lives as long as the pod."""
SECOND_RESTART = 2


def run(home: Home, limit: int, *phases: str) -> Done:
    """Run a task that its kubelet restarts twice, with a rule that limits restarts."""
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    worker = role(
        home.container(FAILS_TWICE, volumeMounts=mounts),
        restartPolicy="OnFailure",
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    rule: Json = {"name": "restarts", "minContainerRestartCount": limit}
    if phases:
        rule["phases"] = list(phases)
    job = framework(worker, completionPolicies=[rule])
    return home.run(job, options=("--output", "json"))


def summary(done: Done) -> Json:
    return done.json_lines[-1]


def test_container_restarts_in_the_same_pod_fail_the_job(home: Home) -> None:
    done = run(home, SECOND_RESTART)

    assert done.code != 0, done
    assert summary(done)["code"] == -260
    assert "worker-0 met a completion rule (restarts: containers have restarted" in done.stdout


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_restarts_below_the_limit_do_not_fail_the_job(home: Home, phase: str) -> None:
    done = run(home, SECOND_RESTART + 1, phase).expect(0)

    assert summary(done)["code"] == 0


def test_restarts_of_pods_in_other_phases_do_not_count(home: Home) -> None:
    """The pod is Running between the restarts of its container, and Succeeded at the end."""
    done = run(home, SECOND_RESTART, "Pending").expect(0)

    assert summary(done)["code"] == 0


def test_restarts_of_running_pods_count(home: Home) -> None:
    done = run(home, SECOND_RESTART, "Running")

    assert summary(done)["code"] == -260
