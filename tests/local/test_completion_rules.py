"""Completion rules that count what only a kubelet knows: container restarts in the same pod, and phases of pods."""

from pathlib import Path

import pytest
from pods.commands import Done, Home, framework, role

from conformance.client import Json

RESTARTS = 2


def run(home: Home, folder: Path, rule: Json, then: str) -> Done:
    """Run a task whose container fails twice in the same pod. `then` is its third run."""
    count = folder / "count"
    script = f'echo x >> {count}; [ "$(wc -l < {count})" -gt {RESTARTS} ] || exit 3; {then}'
    worker = role(
        home.container(script, volumeMounts=[{"name": "data", "mountPath": str(folder)}]),
        restartPolicy="OnFailure",
        volumes=[{"name": "data", "hostPath": {"path": str(folder)}}],
    )
    job = framework(worker, completionPolicies=[{"name": "restarts", **rule}])
    done = home.run(job, options=("--output", "json"))
    assert len(count.read_text().splitlines()) == RESTARTS + 1
    return done


@pytest.mark.parametrize("phases", [[], ["Running", "Unknown"]], ids=["all", "running"])
def test_container_restarts_in_the_same_pod_fail_the_job(
    home: Home, open_folder: Path, phases: list[str]
) -> None:
    rule = {"minContainerRestartCount": RESTARTS, "phases": phases}
    done = run(home, open_folder, rule, then="sleep 100000")

    assert done.json_lines[-1]["code"] == -260
    assert f"restarts: containers have restarted {RESTARTS} times" in done.stdout


@pytest.mark.parametrize(
    "rule",
    [
        {"minContainerRestartCount": RESTARTS + 1},
        {"minContainerRestartCount": RESTARTS, "phases": ["Pending", "Failed"]},
    ],
    ids=["below the limit", "other phases"],
)
def test_job_succeeds_despite_restarts_that_do_not_count(home: Home, open_folder: Path, rule: Json) -> None:
    done = run(home, open_folder, rule, then="exit 0").expect(0)

    assert done.json_lines[-1]["code"] == 0
