"""TensorFlow configured by environment variables: in graph mode, with two strategies of TensorFlow 2, and as idle
servers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from pods import commands

import examples
from conformance.waiting import wait_for
from examples import Result, Running

FORMS: Final = pytest.mark.parametrize(
    ("file", "network"), [("framework.yaml", "isolated"), ("job.yaml", "shared")]
)
ENDED_WITH_THE_ATTEMPT: Final = -220


@pytest.fixture(autouse=True)
def packages() -> None:
    examples.needs("tensorflow", "sklearn")


def folders(name: str, output: Path) -> dict[str, str]:
    """Return the replacements in the example's file for an output folder."""
    return {f"/tmp/{name}": str(output)}  # noqa: S108 — of the example


def check_training(result: Result, chief: str, steps: int) -> None:
    """Check that the task has learned in all its steps."""
    result.expect("Succeeded")
    first, last = result.values(chief, "first step:")[0], result.value(chief, "result:")
    assert int(last["steps"]) == steps
    assert float(last["accuracy"]) > 0.9
    assert float(last["loss"]) < float(first["loss"]) / 4


def check_output(output: Path, checkpoint: str) -> None:
    """Check that one job has written summaries and checkpoints."""
    (job,) = output.iterdir()
    (events,) = job.glob("events.out.tfevents.*")
    assert events.read_bytes().count(b"loss") > 5
    assert (job / "checkpoint").exists()
    assert (job / f"{checkpoint}.index").exists()


# digits-ps


JOB_FILE: Final = {"--steps 2000": "--steps 300"}


@FORMS
def test_digits_ps_trains(file: str, network: str, output: Path) -> None:
    is_job_file = file == "job.yaml"
    replaced = folders("digits", output) | JOB_FILE if is_job_file else folders("digits-ps", output)
    options = ("--network", network, "--keep")
    with examples.begun("digits-ps", *options, file=file, replaced=replaced) as running:
        result = running.result()
        check_training(result, "worker-0", steps=300)
        for number in "01":
            done = result.value(f"worker-{number}", "done:")
            assert (done["worker"], done["own"], done["now"]) == (number, "150", "150")
        check_output(output, "model-300")
        assert running.completion_codes() == {
            "ps-0": ENDED_WITH_THE_ATTEMPT,
            "ps-1": ENDED_WITH_THE_ATTEMPT,
            "worker-0": 0,
            "worker-1": 0,
        }


def killed(running: Running, output: Path, task: str) -> Result:
    """Kill the task with SIGKILL after the first checkpoint and return the result."""
    for number in range(2):
        running.says(f"worker {number}: own=75 ")
    (job,) = output.iterdir()
    assert list(job.glob("model-*.index"))
    examples.process_of(job.name, task, "/code/train.py").kill()
    return running.result()


LONG: Final = {"--steps=300": "--steps=2000"}
"""Enough steps that no worker is done when one is killed."""


@pytest.mark.parametrize("worker", ["worker-0", "worker-1"])
def test_digits_ps_continues_after_a_killed_worker(worker: str, output: Path) -> None:
    """It restarts at its address and continues; the other worker is unaffected."""
    with examples.begun("digits-ps", replaced={**folders("digits-ps", output), **LONG}) as running:
        result = killed(running, output, worker)
    check_training(result, "worker-0", steps=2000)
    # As good as an undisturbed run, about 0.003.
    assert float(result.value("worker-0", "result:")["loss"]) < 0.05
    assert result.reasons_of("digits-ps").count("TaskRetried") == 1
    assert result.reasons_of("digits-ps").count("AttemptStarted") == 1
    other = "worker-1" if worker == "worker-0" else "worker-0"
    assert result.value(other, "done:")["now"] == "1000"
    back = result.value(worker, "done:")
    assert back["own"] == "1000"
    assert int(back["now"]) <= 1000 - 75
    assert not [line for line in result.lines if "restored" in line or "is lost" in line]


def test_digits_ps_restarts_after_a_killed_ps(output: Path) -> None:
    """Its variables are lost: all tasks restart from the last checkpoint."""
    options = ("--network", "shared")
    with examples.begun("digits-ps", *options, replaced={**folders("digits-ps", output), **LONG}) as running:
        result = killed(running, output, "ps-1")
    check_training(result, "worker-0", steps=2000)
    assert result.reasons_of("digits-ps").count("AttemptStarted") == 2
    assert 50 <= int(result.value("worker-0", "restored:")["step"]) < 2000


def test_digits_ps_by_hand(output: Path) -> None:
    """Without Windlass. When the workers are done, the script ends and nothing runs on."""
    done = subprocess.run(  # noqa: S603
        [examples.EXAMPLES / "digits-ps" / "by-hand.sh", "--steps=100"],
        env={**os.environ, "PYTHON": sys.executable, "OUTPUT": str(output / "job")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=examples.SECONDS,
    )
    assert "result: accuracy=" in done.stdout
    check_output(output, "model-100")
    # The pipe is closed: no process holds it any more.


# The others


@pytest.mark.parametrize("network", ["isolated", "shared"])
def test_digits_coordinator_trains(network: str, output: Path) -> None:
    options = ("--network", network, "--keep")
    with examples.begun(
        "digits-coordinator", *options, replaced=folders("digits-coordinator", output)
    ) as running:
        result = running.result()
        check_training(result, "chief-0", steps=300)
        assert max(int(each["workers"]) for each in result.values("chief-0", "chief:")) == 2
        check_output(output, "ckpt-300")
        codes = running.completion_codes()
    assert codes.pop("chief-0") == 0
    assert codes == dict.fromkeys(("ps-0", "worker-0", "worker-1"), ENDED_WITH_THE_ATTEMPT)


@FORMS
def test_digits_mwms_trains(file: str, network: str, output: Path) -> None:
    result = examples.run_example(
        "digits-mwms", "--network", network, file=file, replaced=folders("digits-mwms", output)
    )
    check_training(result, "worker-0", steps=300)
    check_output(output, "ckpt-300")
    # They stepped together with different data: all workers have the same model.
    assert result.value("worker-0", "result:") == result.value("worker-1", "result:")
    for number in "01":
        assert result.value(f"worker-{number}", "done:")["now"] == "300"


def test_digits_mwms_restarts_after_a_killed_worker(output: Path) -> None:
    """The other worker cannot continue: both restart from the last checkpoint."""
    with examples.begun("digits-mwms", replaced={**folders("digits-mwms", output), **LONG}) as running:
        running.says("worker 0: step=100 ")
        (job,) = output.iterdir()
        examples.process_of(job.name, "worker-1", "/code/train.py").kill()
        result = running.result()
    check_training(result, "worker-0", steps=2000)
    assert result.reasons_of("digits-mwms").count("AttemptStarted") == 2
    for number in "01":
        restored = result.value(f"worker-{number}", "restored:")
        assert 50 <= int(restored["step"]) < 2000


# clustered-tensorflow

CLUSTERED: Final = examples.EXAMPLES / "clustered-tensorflow"
SERVERS: Final = ("ps-0", "ps-1", "worker-0", "worker-1")


def test_clustered_tensorflow_with_a_client() -> None:
    """On the isolated network; external clients use servers on the shared one."""
    options = ("--network", "isolated", "--keep")
    with examples.begun("clustered-tensorflow", *options, file="with-client.yaml") as running:
        result = running.result().expect("Succeeded")
        codes = running.completion_codes()
    assert codes == {**dict.fromkeys(SERVERS, ENDED_WITH_THE_ATTEMPT), "notebook-0": 0}
    said = result.lines_of("notebook-0")
    places = [line.rpartition(" runs on ")[2] for line in said if " runs on " in line]
    assert places == list(SERVERS), "each part of the graph ran on its device"
    for task in SERVERS:
        # TensorFlow prints its own messages on some processors.
        assert len([line for line in result.lines_of(task) if ": server " in line]) == 1
    assert "total is on /job:ps/task:1, runs is on /job:ps/task:0" in said
    squares = sum(number * number for number in range(1_000_000))
    assert any(f" add up to {squares}; runs so far: 1" in line for line in said)


def test_clustered_tensorflow_with_external_clients() -> None:
    """Configured by `windlass env`; the second client finds the variables of the first."""
    with commands.home(commands.best()) as home, commands.local(home, "--network", "shared") as local:
        framework = yaml.safe_load((CLUSTERED / "framework.yaml").read_text())
        local.client.post(f"/apis/{commands.GROUP}/namespaces/default/frameworks", framework).expect(201)

        def known() -> dict[str, str] | None:
            asked = ("env", "clustered-tensorflow/worker-0", "--shell", "json")
            done = home.windlass(*asked, "--kubeconfig", local.data / "kubeconfig")
            return dict(json.loads(done.stdout)) if done.code == 0 else None

        environment = {**os.environ, **wait_for("the environment of a task", known)}
        said = [
            subprocess.run(  # noqa: S603
                [sys.executable, CLUSTERED / "client.py"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=examples.SECONDS,
            ).stdout
            for _ in range(2)
        ]
    assert "runs so far: 1" in said[0]
    assert "runs so far: 2" in said[1]
